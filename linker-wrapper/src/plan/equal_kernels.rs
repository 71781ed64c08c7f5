//! Decides which kernels are not compiled because another one is equal (`--offload-icf=`).

use std::collections::{BTreeMap, BTreeSet};

use llvm_passes::equal_kernels::{self, Bodies};
use llvm_passes::program::Program;
use llvm_passes::reference_graph::ReferenceGraph;

use crate::cli::values::KernelFolding;

/// Which kernels are not compiled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folding {
    /// For each of them, the equal one that is compiled.
    pub folded: BTreeMap<String, String>,
    /// Whether their names are in the image nevertheless.
    pub emits_aliases: bool,
    /// Why others are compiled although they equal one.
    pub notes: Vec<String>,
}

impl Folding {
    /// The kernels that are not compiled, by the one that is.
    pub fn copies(&self) -> BTreeMap<String, Vec<String>> {
        let mut copies: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (kernel, equal) in &self.folded {
            copies.entry(equal.clone()).or_default().push(kernel.clone());
        }
        copies
    }
}

/// What the decision depends on besides the program.
pub struct FoldingRequest<'r> {
    /// What is done with equal kernels.
    pub folding: KernelFolding,
    /// Why none are left out, if that is so.
    pub why_not: Option<String>,
    /// The only decisions that are allowed, if other targets of the link limit them.
    pub only: Option<&'r BTreeMap<String, String>>,
    /// Kernels in results that the inputs have: they are not compiled again, and a partition without one of them would have no result.
    pub finished: &'r BTreeSet<String>,
}

/// Decides which kernels of a program are not compiled. `is_candidate` rejects those that have to be.
pub fn fold(
    program: &Program<'_>,
    graphs: &[&ReferenceGraph],
    bodies: &[&Bodies],
    request: FoldingRequest<'_>,
    is_candidate: &dyn Fn(&str) -> bool,
) -> Folding {
    let opaque = graphs.iter().find_map(|graph| graph.monolithic.as_ref());
    let opaque = opaque.map(|reason| format!("a unit cannot be looked into: {reason}"));
    if let Some(why) = opaque.or(request.why_not) {
        return Folding { notes: vec![why], ..Folding::default() };
    }
    let mut found = equal_kernels::find(program, graphs, bodies, is_candidate, request.finished);
    if let Some(only) = request.only {
        found.folded.retain(|kernel, equal| only.get(kernel) == Some(equal));
    }
    let note = |kernel: String| format!("{kernel} equals another kernel, and other device code refers to it");
    let mut notes: Vec<String> = found.referenced.into_iter().map(note).collect();
    let emits_aliases = request.folding == KernelFolding::Safe;
    if emits_aliases {
        let (finished, folded) = found.folded.into_iter().partition(|(kernel, _)| request.finished.contains(kernel));
        let finished: BTreeMap<String, String> = finished;
        notes.extend(finished.keys().map(|kernel| format!("{kernel} equals another kernel, and a kept result has it")));
        found.folded = folded;
    }
    Folding { folded: found.folded, emits_aliases, notes }
}
