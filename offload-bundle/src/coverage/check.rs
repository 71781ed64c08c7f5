//! Finds faults of a fatbin that no linker reports, and that show on a user's GPU.

use std::collections::BTreeMap;

use super::code::{Code, Content, Word};
use super::driver::Driver;
use super::findings::{Finding, FindingCode, Severity};
use super::needs::{Lacking, lacking};
use super::select::{CONCATENATED, choose, chosen, fits, judge};
use crate::arch::{ArchFeature, CudaRelease, GpuArch, TargetTable};

/// The requirements that a fatbin is checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CheckOptions {
    /// The oldest driver that shall load it.
    pub driver: Driver,
    /// The toolkit that it shall be of; if not given, that of its oldest machine code.
    pub toolkit: Option<CudaRelease>,
    /// The GPUs that it is checked for.
    pub targets: TargetTable<'static>,
}

/// Checks a fatbin of these entries; returns the worst findings first.
pub fn check(codes: &[Code], options: &CheckOptions) -> Vec<Finding> {
    let mut findings = check_entries(codes, options);
    findings.extend(codes.iter().filter_map(not_loaded));
    findings.extend(codes.iter().filter_map(lowered));
    findings.extend(concatenated(codes, options.driver));
    findings.extend(forward_compatibility(codes));
    findings.extend(runs_nowhere(codes, options));
    sort(&mut findings);
    findings
}

/// Findings that apply whether the driver loads or links the fatbin.
pub(super) fn check_entries(codes: &[Code], options: &CheckOptions) -> Vec<Finding> {
    let mut findings = Vec::new();
    for code in codes {
        findings.extend(soundness(code));
        findings.extend(against_driver(code, options.driver));
        findings.extend(against_label(code, options.targets));
        findings.extend(unknown_section(code));
    }
    findings.extend(hidden(codes, options));
    findings.extend(duplicates(codes));
    findings.extend(toolkits(codes, options.toolkit));
    findings
}

/// The worst first.
pub(super) fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), finding.code));
}

/// `entry 2 (ptx 90)`.
pub(super) fn named(code: &Code) -> String {
    format!("entry {} ({})", code.number, code.name())
}

pub(super) fn one(id: FindingCode, severity: Severity, code: &Code, what: &str) -> Finding {
    Finding::new(id, severity, vec![code.number], format!("{}: {what}", named(code)))
}

fn soundness(code: &Code) -> Option<Finding> {
    let (id, what) = match &code.content {
        Content::Crashing(error) => (FindingCode::CrashesDriver, format!("the driver crashes on it: {error}")),
        Content::Damaged(error) | Content::Undecompressable(error) => {
            (FindingCode::Damaged, format!("damaged: {error}"))
        }
        Content::Faulty(fault) => (FindingCode::Damaged, format!("the driver does not run it: {}", fault.error())),
        _ => return None,
    };
    Some(one(id, Severity::Error, code, &what))
}

fn against_driver(code: &Code, driver: Driver) -> impl Iterator<Item = Finding> {
    lacking(code, driver).into_iter().map(|Lacking { code: id, branch, what }| {
        one(id, Severity::Error, code, &format!("{what} needs a driver of branch {branch} or later"))
    })
}

/// Compares the label with what the image records.
fn against_label(code: &Code, targets: TargetTable<'_>) -> Vec<Finding> {
    let (own, what) = match &code.content {
        // A cubin does not record `f`.
        Content::Sass { arch, .. } if is_same_sass(*arch, code.arch) => return Vec::new(),
        Content::Sass { arch, .. } => (Some(*arch), "machine code"),
        Content::Ptx { target, .. } => (target.filter(|target| *target != code.arch), "PTX"),
        _ => return Vec::new(),
    };
    let mut found = Vec::from_iter(own.map(|own| wrong_arch(code, own, what, targets)));
    if let Content::Ptx { version, .. } = code.content
        && let Some(label) = code.labelled_version.filter(|label| *label != version)
    {
        let what = format!("the label says PTX {label}, the text is PTX {version}");
        found.push(one(FindingCode::WrongLabel, Severity::Warning, code, &what));
    }
    found
}

fn is_same_sass(own: GpuArch, label: GpuArch) -> bool {
    let is_accelerated = |arch: GpuArch| arch.feature == ArchFeature::Accelerated;
    own.number == label.number && is_accelerated(own) == is_accelerated(label)
}

/// An error where the label makes a GPU take an image that it cannot run.
fn wrong_arch(code: &Code, own: GpuArch, what: &str, targets: TargetTable<'_>) -> Finding {
    let runs = |gpu: GpuArch| match code.word() {
        Word::Sass => gpu.runs_sass_of(own),
        _ => gpu.can_jit_ptx_of(own),
    };
    let failing: Vec<GpuArch> = targets.all_gpus().filter(|gpu| fits(code, *gpu) && !runs(*gpu)).collect();
    let severity = if failing.is_empty() { Severity::Warning } else { Severity::Error };
    let text = format!("the label says {}, the {what} is for {own}", code.arch);
    one(FindingCode::WrongLabel, severity, code, &text).on(&failing)
}

fn unknown_section(code: &Code) -> Option<Finding> {
    let Content::Sass { unknown_section: Some(name), .. } = &code.content else { return None };
    let what = format!("it has a section {name:?}, which is not known to be in any cubin");
    Some(one(FindingCode::UnknownSection, Severity::Note, code, &what))
}

/// A device link that recorded a lower virtual architecture than the GPU's. Whether its parts had more shows in them alone.
pub(super) fn lowered(code: &Code) -> Option<Finding> {
    let Content::Sass { arch, virtual_arch: Some(number), linked: true, .. } = &code.content else { return None };
    let what = format!(
        "linked of parts of which one was compiled for compute_{number}: cudaFuncAttributes::ptxVersion is {number}"
    );
    (*number < arch.number).then(|| one(FindingCode::LoweredArch, Severity::Note, code, &what))
}

pub(super) fn not_loaded(code: &Code) -> Option<Finding> {
    match code.word() {
        Word::LtoIr => Some(one(FindingCode::LtoIr, Severity::Warning, code, "LTO-IR, which no driver loads")),
        Word::Other => {
            let what = "of a kind that no driver is known to load";
            Some(one(FindingCode::UnknownKind, Severity::Note, code, what))
        }
        Word::Sass | Word::Ptx => None,
    }
}

/// Images that drivers pass over because they are parts of concatenations.
pub(super) fn concatenated(codes: &[Code], driver: Driver) -> Option<Finding> {
    let parts = || codes.iter().filter(|code| code.is_concatenated);
    let first = parts().next()?;
    let numbers: Vec<usize> = parts().map(|code| code.number).collect();
    let severity = if driver.passes_over_concatenations() { Severity::Error } else { Severity::Warning };
    let others = if numbers.len() == 1 { String::new() } else { format!(" and {} more", numbers.len() - 1) };
    let message = format!("{}{others}: {CONCATENATED}", named(first));
    Some(Finding::new(FindingCode::Concatenated, severity, numbers, message))
}

/// Entries that fail where another would run if they were not there.
pub(super) fn hidden(codes: &[Code], options: &CheckOptions) -> Vec<Finding> {
    let mut pairs: BTreeMap<(usize, usize), (String, Vec<GpuArch>)> = BTreeMap::new();
    for gpu in options.targets.all_gpus() {
        let runtime = options.driver.into();
        let Some(taken) = chosen(codes, gpu, runtime) else { continue };
        let runs = |code: &Code| judge(code, gpu, runtime).0.runs();
        if judge(taken, gpu, runtime).0.may_run() {
            continue;
        }
        if let Some(good) = choose(codes.iter().filter(|code| fits(code, gpu) && runs(code)), gpu) {
            let text = || format!("{} is taken and fails; it hides {}, which would run", named(taken), named(good));
            let pair = pairs.entry((taken.number, good.number)).or_insert_with(|| (text(), Vec::new()));
            pair.1.push(gpu);
        }
    }
    let finding = |((taken, good), (message, gpus)): ((usize, usize), (String, Vec<GpuArch>))| {
        Finding::new(FindingCode::HidesGoodEntry, Severity::Error, vec![taken, good], message).on(&gpus)
    };
    pairs.into_iter().map(finding).collect()
}

fn duplicates(codes: &[Code]) -> Vec<Finding> {
    let mut groups: BTreeMap<(bool, GpuArch), Vec<&Code>> = BTreeMap::new();
    for code in codes.iter().filter(|code| code.is_loadable() && code.twins.count > 1) {
        groups.entry((code.word() == Word::Ptx, code.arch)).or_default().push(code);
    }
    groups.into_values().filter_map(|group| duplicate(&group)).collect()
}

fn duplicate(group: &[&Code]) -> Option<Finding> {
    let [first, .., last] = group else { return None };
    let is_same = group.iter().all(|code| code.digest == first.digest);
    let severity = if is_same { Severity::Note } else { Severity::Warning };
    let winner = match (first.word(), first.arch.feature) {
        (Word::Ptx, ArchFeature::Plain) => {
            let gpu = GpuArch::plain(first.arch.number);
            format!("on {gpu} entry {}, the last, wins, on later GPUs entry {}, the first", last.number, first.number)
        }
        _ => format!("entry {}, the first, wins", first.number),
    };
    let kind = if first.word() == Word::Ptx { "PTX" } else { "machine code" };
    let content = if is_same { "the same" } else { "different" };
    let message = format!("{} entries of {kind} for {}, {content} in content: {winner}", group.len(), first.arch);
    let entries = group.iter().map(|code| code.number).collect();
    Some(Finding::new(FindingCode::Duplicates, severity, entries, message))
}

pub(super) fn forward_compatibility(codes: &[Code]) -> Option<Finding> {
    let newest = codes.iter().filter(|code| code.is_loadable()).map(|code| code.arch).max()?;
    let is_forward = |code: &Code| code.word() == Word::Ptx && code.arch.feature == ArchFeature::Plain;
    if codes.iter().any(is_forward) {
        return None;
    }
    let message = format!("no PTX that later GPUs can compile: nothing runs after the major version of {newest}");
    Some(Finding::new(FindingCode::NoForwardPtx, Severity::Note, Vec::new(), message))
}

/// Entries of a later major version than the one named, or than the oldest machine code.
fn toolkits(codes: &[Code], named_toolkit: Option<CudaRelease>) -> Vec<Finding> {
    let of_sass = codes.iter().filter(|code| code.word() == Word::Sass).filter_map(Code::toolkit);
    let (base, whose) = match (named_toolkit, of_sass.min()) {
        (Some(toolkit), _) => (toolkit, "the one named"),
        (None, Some(oldest)) => (oldest, "the oldest machine code here"),
        (None, None) => return Vec::new(),
    };
    let newer = |code: &&Code| code.toolkit().is_some_and(|toolkit| toolkit.major > base.major);
    let finding = |code: &Code| {
        let own = code.toolkit().map_or(0, |toolkit| toolkit.major);
        let what = format!("of CUDA {own}, while {whose} is of CUDA {}", base.major);
        one(FindingCode::NewerToolkit, Severity::Warning, code, &what)
    };
    codes.iter().filter(newer).map(finding).collect()
}

pub(super) fn runs_nowhere(codes: &[Code], options: &CheckOptions) -> Option<Finding> {
    let runtime = options.driver.into();
    let runs = |gpu| chosen(codes, gpu, runtime).is_some_and(|code| judge(code, gpu, runtime).0.may_run());
    // Code for a GPU that no table has runs there.
    let own = codes.iter().map(|code| GpuArch::plain(code.arch.number));
    if options.targets.all_gpus().any(runs) || own.filter(|gpu| !options.targets.knows(*gpu)).any(runs) {
        return None;
    }
    let message = match codes {
        [] => "the fatbin has no entries".to_owned(),
        _ => format!("no GPU {} runs anything of it", range(options.targets)),
    };
    Some(Finding::new(FindingCode::RunsNowhere, Severity::Error, Vec::new(), message))
}

/// `from sm_50 to sm_121`.
pub(super) fn range(targets: TargetTable<'_>) -> String {
    let all: Vec<GpuArch> = targets.all_gpus().collect();
    match &all[..] {
        [first, .., last] => format!("from {first} to {last}"),
        _ => "known here".to_owned(),
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
