//! Fatbins of a program that are for other GPUs than its others.

use std::collections::BTreeMap;

use super::check::CheckOptions;
use super::containers::{FoundContainer, Role};
use super::driver::Runtime;
use super::findings::{Finding, FindingCode, Severity};
use super::groups::ranges;
use super::relink::{is_registered_without_kernels, outcome_in};
use crate::arch::GpuArch;

/// The sets of fatbins that a note names.
const NAMED: usize = 3;

/// A note if some fatbins of a file run on GPUs on which others do not. A file may choose among its fatbins by itself, as libraries with kernels
/// for single GPUs do.
pub fn uneven_targets(all: &[FoundContainer], options: &CheckOptions) -> Option<Finding> {
    let is_loaded = |found: &&FoundContainer| {
        matches!(found.role, Role::Whole | Role::Linked(_)) && !is_registered_without_kernels(found, all)
    };
    let loaded: Vec<&FoundContainer> = all.iter().filter(is_loaded).collect();
    let runtime = Runtime::from(options.driver);
    let mut uneven: BTreeMap<Vec<usize>, Vec<GpuArch>> = BTreeMap::new();
    for gpu in options.targets.all_gpus() {
        let fails = |found: &&&FoundContainer| !outcome_in(found, all, gpu, runtime).verdict.may_run();
        let failing: Vec<usize> = loaded.iter().filter(fails).map(|found| found.place.container).collect();
        if !failing.is_empty() && failing.len() < loaded.len() {
            uneven.entry(failing).or_default().push(gpu);
        }
    }
    if uneven.is_empty() {
        return None;
    }
    let set = |(failing, gpus): (&Vec<usize>, &Vec<GpuArch>)| {
        let (which, have) = if failing.len() == 1 { ("fatbin", "has") } else { ("fatbins", "have") };
        let gpus: Vec<String> = gpus.iter().map(GpuArch::to_string).collect();
        format!("{which} {} {have} nothing for {}", ranges(failing), gpus.join(", "))
    };
    let named: Vec<String> = uneven.iter().take(NAMED).map(set).collect();
    let more = uneven.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!("; {more} more sets of fatbins") };
    let message = format!("{}{more}, and other fatbins have code for these GPUs", named.join("; "));
    Some(Finding::new(FindingCode::UnevenTargets, Severity::Note, Vec::new(), message))
}
