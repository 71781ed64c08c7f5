//! Whole reports, of entries without bytes.

use super::*;
use crate::coverage::containers::FoundContainer;
use crate::coverage::testing::{lto, ptx, ptx_of, sass, set};
use crate::coverage::{Code, Driver, FindingCode, OfFile};

fn report(files: &[&[Code]], requirement: &str) -> GateReport {
    let requirement: Requirement = requirement.parse().expect("a requirement");
    let gate = |(index, codes): (usize, &&[Code])| {
        let code = FileCode::of_link(vec![FoundContainer::whole(codes.to_vec())]);
        OfFile { file: format!("{}.so", index + 1), report: FileGate::new(&code, &requirement) }
    };
    let files = files.iter().enumerate().map(gate).collect();
    GateReport::new(files, &requirement, &[], 0)
}

fn verdicts(report: &GateReport) -> Vec<&'static str> {
    report.together.iter().map(|cell| cell.verdict.word()).collect()
}

#[test]
fn a_cell_for_each_gpu_and_driver() {
    let codes = set([ptx_of("8.2", "80", "80"), sass("90")]);
    let report = report(&[&codes], "sm_75,sm_89..sm_90,sm_120@535,580");
    assert_eq!(verdicts(&report), ["fails", "fails", "jit", "jit", "fails", "runs", "-", "jit"]);
    assert!(!report.passes);
    assert_eq!(report.serves, ["sm_89", "sm_120"]);
    let rungs: Vec<Rung> = report.together.iter().map(|cell| cell.rung).collect();
    assert_eq!(rungs.iter().filter(|rung| **rung == Rung::Observed).count(), 1, "machine code on sm_90 with 580");
}

#[test]
fn compiling_may_be_forbidden() {
    let codes = set([ptx("80"), sass("90")]);
    assert!(report(&[&codes], "sm_86,sm_90@580").passes);
    let strict = report(&[&codes], "sm_86,sm_90@580,no-jit");
    let codes: Vec<FindingCode> = strict.findings.iter().map(|of| of.finding.code).collect();
    assert_eq!((codes, strict.serves), (vec![FindingCode::CompiledAtStart], vec!["sm_90".to_owned()]));
}

#[test]
fn files_of_one_process_are_judged_together() {
    let (one, other) = (set([sass("80"), sass("90")]), set([sass("80"), ptx_of("9.1", "90", "90")]));
    let report = report(&[&one, &other], "sm_80,sm_90@580");
    assert_eq!((report.serves.as_slice(), report.findings.len()), (["sm_80".to_owned()].as_slice(), 1));
    assert_eq!(report.findings[0].file.as_deref(), Some("2.so"));
    assert!(report.findings[0].finding.message.contains("PTX 9.1 needs a driver of branch 590"));
}

#[test]
fn what_is_not_known_fails() {
    let codes = set([ptx_of("9.9", "80", "80")]);
    let unknown = report(&[&codes], "sm_80@700");
    assert_eq!((verdicts(&unknown), unknown.passes), (vec!["unknown"], false));
    let known_bad = report(&[&set([ptx_of("7.8", "52", "52"), lto("61")])], "sm_75@526,530");
    assert_eq!(verdicts(&known_bad), ["fails", "jit"]);
    assert!(known_bad.findings[0].finding.message.contains("516.59"));
}

#[test]
fn a_gpu_that_no_driver_knows_is_not_served() {
    let report = report(&[&set([sass("120")])], "sm_120@535");
    assert_eq!((verdicts(&report), report.passes), (vec!["-"], false));
    assert_eq!(report.findings[0].finding.gpus, ["sm_120"]);
}

#[test]
fn without_a_driver_one_is_new_enough() {
    let requirement =
        Requirement { gpus: "sm_90".parse::<Requirement>().expect("GPUs").gpus, ..Requirement::default() };
    assert_eq!(requirement.drivers(), [Driver::NewEnough]);
}
