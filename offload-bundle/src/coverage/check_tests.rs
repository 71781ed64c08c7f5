//! Every finding, and what comes without any.

use super::*;
use crate::arch::table::{KNOWN, KnownGpu};
use crate::coverage::testing::{damaged, lto, ptx, ptx_of, sass, sass_of, set, undecompressable};
use crate::fatbin::{Compression, EntryKind};

fn checked(codes: &[Code], driver: Driver, toolkit: Option<CudaRelease>) -> Vec<Finding> {
    check(codes, &CheckOptions { driver, toolkit, ..CheckOptions::default() })
}

/// Code, severity and entries of what is found for driver 580.
fn found(codes: &[Code]) -> Vec<(&'static str, Severity, Vec<usize>)> {
    let findings = checked(codes, Driver::Branch(580), None);
    findings.into_iter().map(|finding| (finding.code.name(), finding.severity, finding.entries)).collect()
}

#[test]
fn a_good_fatbin_has_none() {
    assert_eq!(found(&set([sass("80"), sass("90a"), sass("100f"), ptx("90")])), []);
}

#[test]
fn fb001_crashes_driver() {
    let codes = set([damaged(sass("80"), true), ptx("90")]);
    assert_eq!(found(&codes), [("FB001", Severity::Error, vec![1])]);
}

#[test]
fn fb002_and_fb004_damage_hides() {
    let codes = set([damaged(sass("90"), false), ptx("90")]);
    assert_eq!(found(&codes), [("FB002", Severity::Error, vec![1]), ("FB004", Severity::Error, vec![1, 2])]);
    let hides = &checked(&codes, Driver::NewEnough, None)[1];
    assert_eq!(hides.gpus, ["sm_90"]);
    let text = "entry 1 (sass 90) is taken and fails; it hides entry 2 (ptx 90), which would run";
    assert_eq!(hides.message, text);
    let codes = set([undecompressable(sass("90")), ptx("90")]);
    assert_eq!(found(&codes), [("FB002", Severity::Error, vec![1]), ("FB004", Severity::Error, vec![1, 2])]);
}

#[test]
fn fb003_and_fb004_new_ptx_hides() {
    let codes = set([ptx_of("9.1", "80", "80"), ptx("75")]);
    assert_eq!(found(&codes), [("FB003", Severity::Error, vec![1]), ("FB004", Severity::Error, vec![1, 2])]);
    assert_eq!(checked(&codes, Driver::NewEnough, None), []);
    let hides = &checked(&codes, Driver::Branch(580), None)[1];
    assert!(!hides.gpus.contains(&"sm_75".to_owned()) && hides.gpus.contains(&"sm_121".to_owned()));
}

#[test]
fn fb005_lto_ir() {
    assert_eq!(found(&set([lto("80"), sass("80"), ptx("75")])), [("FB005", Severity::Warning, vec![1])]);
}

#[test]
fn fb006_duplicates() {
    let mut codes = set([sass("80"), ptx("75"), sass("80"), ptx("75"), ptx("75")]);
    let expected = [("FB006", Severity::Warning, vec![1, 3]), ("FB006", Severity::Warning, vec![2, 4, 5])];
    assert_eq!(found(&codes), expected);
    let messages: Vec<String> = checked(&codes, Driver::NewEnough, None).into_iter().map(|f| f.message).collect();
    assert_eq!(messages[0], "2 entries of machine code for sm_80, different in content: entry 1, the first, wins");
    assert!(messages[1].ends_with("on sm_75 entry 5, the last, wins, on later GPUs entry 2, the first"));
    let accelerated = checked(&set([ptx("75"), ptx("90a"), ptx("90a")]), Driver::NewEnough, None);
    assert!(accelerated[0].message.ends_with("different in content: entry 2, the first, wins"));
    codes[2].digest = codes[0].digest;
    assert_eq!(found(&codes)[1], ("FB006", Severity::Note, vec![1, 3]));
}

#[test]
fn fb007_wrong_label() {
    let is_label = |finding: &Finding| finding.code == FindingCode::WrongLabel;
    let plain = |codes: &[Code]| checked(codes, Driver::NewEnough, None).into_iter().find(is_label).expect("a finding");
    // An image that the label sends to GPUs that cannot run it.
    let wrong = plain(&set([sass_of("100a", "100"), ptx("75")]));
    assert_eq!(
        (wrong.code.name(), wrong.severity, wrong.gpus),
        ("FB007", Severity::Error, ["sm_103", "sm_107"].map(str::to_owned).to_vec())
    );
    let wrong = plain(&set([ptx_of("8.8", "100", "90")]));
    assert_eq!((wrong.code.name(), wrong.severity, wrong.gpus), ("FB007", Severity::Error, vec!["sm_90".to_owned()]));
    // A label that is only narrower, or does no harm.
    for codes in [set([sass_of("90", "90a"), ptx("75")]), set([sass_of("90a", "90"), ptx("75")])] {
        assert_eq!(found(&codes), [("FB007", Severity::Warning, vec![1])]);
    }
    assert_eq!(found(&set([ptx_of("8.8", "80", "90")])), [("FB007", Severity::Warning, vec![1])]);
    let mut codes = set([ptx("90")]);
    codes[0].labelled_version = crate::PtxVersion::of_cuda(CudaRelease::new(12, 0));
    assert_eq!(found(&codes), [("FB007", Severity::Warning, vec![1])]);
}

#[test]
fn fb008_no_forward_ptx() {
    for codes in [set([sass("90"), sass("100f")]), set([sass("90"), ptx("90a")])] {
        assert_eq!(found(&codes), [("FB008", Severity::Note, vec![])]);
    }
}

#[test]
fn fb009_newer_toolkit() {
    let mut codes = set([sass("80"), ptx("90"), sass("90")]);
    if let Content::Sass { toolkit, .. } = &mut codes[0].content {
        *toolkit = Some(CudaRelease::new(12, 9));
    }
    let expected = [("FB009", Severity::Warning, vec![2]), ("FB009", Severity::Warning, vec![3])];
    assert_eq!(found(&codes), expected);
    let named = |major| checked(&codes, Driver::NewEnough, Some(CudaRelease { major, minor: 0 })).len();
    assert_eq!([named(11), named(12), named(13)], [3, 2, 0]);
    assert_eq!(checked(&set([ptx("90")]), Driver::NewEnough, None), []);
}

#[test]
fn fb010_and_fb011_drivers() {
    let mut codes = set([sass("90"), ptx_of("8.0", "80", "80")]);
    codes[1].compression = Compression::Zstd;
    let findings = checked(&codes, Driver::Branch(545), None);
    let seen: Vec<_> = findings.iter().map(|finding| (finding.code.name(), finding.entries.as_slice())).collect();
    assert_eq!(seen, [("FB010", &[1][..]), ("FB011", &[2]), ("FB013", &[])]);
    assert_eq!(findings[0].message, "entry 1 (sass 90): machine code of CUDA 13 needs a driver of branch 580 or later");
}

#[test]
fn fb012_unknown_kind() {
    let mut codes = set([ptx("90"), lto("90")]);
    (codes[1].kind, codes[1].content) = (EntryKind::TileIr, Content::Other);
    assert_eq!(found(&codes), [("FB012", Severity::Note, vec![2])]);
}

#[test]
fn fb013_runs_nowhere() {
    assert_eq!(found(&[]), [("FB013", Severity::Error, vec![])]);
    assert_eq!(found(&set([lto("90")])), [("FB013", Severity::Error, vec![]), ("FB005", Severity::Warning, vec![1])]);
}

#[test]
fn a_target_is_added_by_one_row() {
    let added = KnownGpu { number: 130, ..*KNOWN.gpus.last().expect("rows") };
    let rows: &'static [KnownGpu] = Box::leak([KNOWN.gpus, &[added]].concat().into_boxed_slice());
    let targets = TargetTable { gpus: rows, ..KNOWN };
    let seen = |codes: &[Code], targets| {
        let options = CheckOptions { targets, ..CheckOptions::default() };
        check(codes, &options).into_iter().map(|finding| finding.message).collect::<Vec<_>>()
    };
    // A GPU that runs its own code is assumed to exist, whether it is known or not.
    let codes = set([sass("130"), ptx("130a")]);
    assert!(
        [KNOWN, targets]
            .iter()
            .all(|targets| !seen(&codes, *targets).iter().any(|text| text.contains("runs anything")))
    );
    let nothing = set([lto("90")]);
    assert!(seen(&nothing, targets).contains(&"no GPU from sm_30 to sm_130 runs anything of it".to_owned()));
}
