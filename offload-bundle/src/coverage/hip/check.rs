//! Finds faults of a bundle, by the rules of [`hip_outcome`].

use std::collections::BTreeMap;

use super::{AmdGpu, BundledCode, Form, FoundBundle, HipVerdict, hip_outcome};
use crate::amdgpu::{Fit, TargetId};
use crate::coverage::check::sort;
use crate::coverage::findings::{Finding, FindingCode, Severity};

/// Checks the entries of a bundle; returns the worst findings first.
pub(in crate::coverage) fn findings(bundle: &FoundBundle) -> Vec<Finding> {
    let codes = &bundle.codes;
    let mut findings: Vec<Finding> = codes.iter().filter_map(of_entry).collect();
    findings.extend(duplicates(codes));
    findings.extend(runs_nowhere(codes));
    sort(&mut findings);
    findings
}

fn one(code: FindingCode, severity: Severity, entry: &BundledCode, what: &str) -> Finding {
    Finding::new(code, severity, vec![entry.number], format!("entry {} ({}): {what}", entry.number, entry.name()))
}

/// What is wrong with an entry on every GPU that it is for.
fn of_entry(code: &BundledCode) -> Option<Finding> {
    let Some(target) = &code.target else {
        let what = "the id is not one that HIP's runtime looks for";
        return Some(one(FindingCode::UnknownKind, Severity::Note, code, what));
    };
    match &code.form {
        Form::Unusable(why) => Some(one(FindingCode::Damaged, Severity::Error, code, why)),
        Form::CodeObject(header) if header.target.as_ref().is_some_and(|found| found != target) => {
            let found = header.target.as_ref().map(TargetId::to_string).unwrap_or_default();
            Some(one(FindingCode::WrongLabel, Severity::Error, code, &format!("the code object is for {found}")))
        }
        _ => refused(code, target).map(|why| one(FindingCode::Damaged, Severity::Error, code, &why)),
    }
}

/// Why no GPU that the entry is for loads it.
fn refused(code: &BundledCode, target: &TargetId) -> Option<String> {
    let alone = std::slice::from_ref(code);
    let modes: Vec<TargetId> = AmdGpu::all().iter().flat_map(|gpu| gpu.modes().to_vec()).collect();
    let meant = modes.iter().filter(|mode| matches!(target.fit(mode), Ok(Fit::Native | Fit::Generic | Fit::Spirv)));
    let outcomes: Vec<_> = meant.map(|mode| hip_outcome(alone, mode)).collect();
    if outcomes.iter().any(|outcome| outcome.verdict != HipVerdict::InvalidImage) {
        return None;
    }
    outcomes.first().map(|outcome| outcome.reason.trim_start_matches("the id fits, but ").to_owned())
}

/// Entries for one target, of which the first alone is ever taken.
fn duplicates(codes: &[BundledCode]) -> Vec<Finding> {
    let mut by_target: BTreeMap<&TargetId, Vec<usize>> = BTreeMap::new();
    for code in codes {
        if let Some(target) = &code.target {
            by_target.entry(target).or_default().push(code.number);
        }
    }
    let several = by_target.into_iter().filter(|(_, numbers)| numbers.len() > 1);
    let finding = |(target, numbers): (&TargetId, Vec<usize>)| {
        let message = format!("{} entries are for {target}: the first is taken", numbers.len());
        Finding::new(FindingCode::Duplicates, Severity::Warning, numbers, message)
    };
    several.map(finding).collect()
}

fn runs_nowhere(codes: &[BundledCode]) -> Option<Finding> {
    let runs = |mode: &TargetId| hip_outcome(codes, mode).verdict.runs();
    if AmdGpu::all().iter().any(|gpu| gpu.modes().iter().any(runs)) {
        return None;
    }
    let message = "no known GPU of AMD's runs anything of it".to_owned();
    Some(Finding::new(FindingCode::RunsNowhere, Severity::Error, Vec::new(), message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::ContainerPlace;
    use crate::{hip_bundle, samples};

    fn found(entries: &[(&str, &[u8])]) -> Vec<String> {
        let bundle = hip_bundle::write(entries, 256);
        let codes = BundledCode::of_bundle(&hip_bundle::read_all(&bundle).unwrap());
        let place = ContainerPlace { container: 1, member: None, section: None, offset: 0 };
        let findings = findings(&FoundBundle { place, codes, is_compressed: false });
        findings.iter().map(|finding| format!("{} {}", finding.code, finding.message)).collect()
    }

    #[test]
    fn faults_of_entries() {
        let code = samples::amd_code(8, &[7; 32]);
        assert_eq!(
            found(&[("host-x86_64-unknown-linux-gnu-", b""), ("hip-amdgcn-amd-amdhsa--gfx90a", &code)]),
            [""; 0]
        );
        assert_eq!(
            found(&[("hip-amdgcn-amd-amdhsa--gfx908", &code), ("hip-amdgcn-amd-amdhsa--gfx90a", &code)]),
            ["FB007 entry 1 (code gfx908): the code object is for gfx90a"]
        );
        assert_eq!(
            found(&[("hip-amdgcn-amd-amdhsa--gfx90a", &code), ("hipv4-amdgcn-amd-amdhsa--gfx90a", &code)]),
            ["FB006 2 entries are for gfx90a: the first is taken"]
        );
        let mut relocatable = code.clone();
        relocatable[16] = 1;
        assert_eq!(
            found(&[("hip-amdgcn-amd-amdhsa--gfx90a", &relocatable)]),
            [
                "FB002 entry 1 (code gfx90a): it is an object that no linker has made a code object of",
                "FB013 no known GPU of AMD's runs anything of it"
            ]
        );
        assert_eq!(
            found(&[("hip-amdgcn-amd-amdhsa--gfx90a", b"BC\xc0\xde"), ("hip-amdgcn-amd-amdhsa--gfx90a:xnack+", &code)]),
            [
                "FB002 entry 1 (other gfx90a): it is LLVM bitcode, which nothing has compiled",
                "FB007 entry 2 (code gfx90a:xnack+): the code object is for gfx90a",
                "FB013 no known GPU of AMD's runs anything of it"
            ]
        );
    }
}
