//! The device link of one target, decided before any of it runs. Pure: names and references in, a plan out.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Display;

use llvm_passes::equal_kernels::Bodies;
use llvm_passes::partition::{self, Cut, LeftOut, Partition, Rules};
use llvm_passes::program::{self, Program};
use llvm_passes::reference_graph::{ReferenceGraph, referenced_kernels};
use llvm_passes::resolve::Resolution;

use crate::cli::values::KernelFolding;
use crate::device::targets::{Code, TargetImages};
use crate::plan::equal_kernels::{self, Folding, FoldingRequest};
use crate::plan::retained_kernels;
use crate::profile::span;

/// What is known of a target's code when its link is planned.
pub struct TargetFacts<'f, A> {
    /// The images.
    pub target: &'f TargetImages<'f, A>,
    /// How its names resolve.
    pub names: Names,
    /// The references within each unit, if the program may be cut or kernels are compared.
    pub references: Option<References<'f>>,
    /// Names that stay visible in addition to [`Names::visible`], for the report.
    pub also_visible: BTreeSet<String>,
    /// Why equal kernels are not left out, if that is so.
    pub why_not_folded: &'f dyn Fn(&[&Bodies]) -> Option<String>,
    /// What other code than bitcode is: "machine code".
    pub other_code: &'static str,
}

/// The names of a program.
#[derive(Debug, Default)]
pub struct Names {
    /// Which definitions prevail.
    pub resolution: Resolution,
    /// Names that stay visible after the merge; all others become internal.
    pub visible: BTreeSet<String>,
    /// Names that other code than bitcode defines or references.
    pub used: HashSet<String>,
}

/// The references that a program is cut into partitions by.
pub struct References<'f> {
    /// The reference graph of each bitcode unit.
    pub graphs: Vec<&'f ReferenceGraph>,
    /// Unique names of the units, derived only from their content.
    pub tags: Vec<String>,
    /// The bodies of each unit, if equal kernels are to be found.
    pub bodies: Option<Vec<&'f Bodies>>,
    /// How the program is cut; `None` if it is not.
    pub rules: Option<Rules>,
    /// What the machine allows of copies.
    pub machine: program::Machine,
}

/// What the user requested of a target's link, and names from the host side.
#[derive(Clone, Copy)]
pub struct PlanRequest<'r> {
    /// Names that the host program registers with the runtime.
    pub registered: &'r HashSet<String>,
    /// Kernels that the host program cannot launch.
    pub dead: &'r BTreeSet<String>,
    /// What is done with equal kernels.
    pub folding: KernelFolding,
    /// Why the host program cannot be told which kernel stands for another, if that is so.
    pub unregistered: Option<&'static str>,
    /// The only kernels that may be left out as equal to others, if other targets of the link limit them.
    pub only_folded: Option<&'r BTreeMap<String, String>>,
    /// The kernels in results of the inputs, if any may be folded.
    pub finished: &'r BTreeSet<String>,
    /// The plan will be printed.
    pub is_printed: bool,
}

/// The plan of one target's device link.
#[derive(Debug, Default)]
pub struct TargetPlan {
    /// The image, by index, whose definition of a name prevails.
    pub prevailing: BTreeMap<String, usize>,
    /// Linkonce definitions that prevail over later weak ones, with their bitcode unit: LLVM's merge would prefer the weak one,
    /// so they become weak.
    pub promoted: Vec<(usize, String)>,
    /// Names that stay visible after the merge; all others become internal.
    pub visible: BTreeSet<String>,
    /// Kernels that are left out if no other code refers to them.
    pub dead: BTreeSet<String>,
    /// The kernels that the program cannot launch and that are compiled all the same, each with the reason; empty unless the plan is
    /// printed.
    pub retained_dead: BTreeMap<String, String>,
    /// Dead kernels that are compiled with live ones, and that nothing refers to: the image can do without their code. So it can without
    /// that of kernels that others stand for.
    pub removable: BTreeSet<String>,
    /// Kernels that others stand for, which are among the dead ones.
    pub folding: Folding,
    /// Names that stay visible, too; empty unless the plan is printed.
    pub also_visible: BTreeSet<String>,
    /// The partitions to compile. Empty without bitcode; a single partition without parts stands for a program in one piece.
    pub partitions: Vec<Partition>,
    /// Why the program is compiled in one piece, if there is a reason besides its size.
    pub not_cut: Option<String>,
    /// Number of instructions that the kernels reach, and of those that more than one partition compiles.
    pub instructions: Option<(u64, u64)>,
}

impl TargetPlan {
    /// Divides the code into partitions.
    pub fn new<A: Display>(facts: TargetFacts<'_, A>, request: PlanRequest<'_>) -> Self {
        let TargetFacts { target, names, references, also_visible, why_not_folded, other_code } = facts;
        let Names { resolution, mut visible, used } = names;
        let references = references.as_ref();
        let promoted = resolution.linkonce_over_weak.iter();
        let promoted = promoted.filter_map(|(name, image)| Some((target.unit_of(*image)?, name.clone()))).collect();
        let mut dead: BTreeSet<String> = request.dead.difference(&visible).cloned().collect();
        let folding = references.map(|references| {
            let program = references.program(target, &resolution, &visible);
            let is_candidate = |name: &str| {
                !dead.contains(name)
                    && !used.contains(name)
                    && (request.folding == KernelFolding::Safe || request.registered.contains(name))
            };
            fold(target, references, &program, request, why_not_folded, &is_candidate)
        });
        let folding = folding.unwrap_or_default();
        visible.retain(|name| !folding.folded.contains_key(name));
        let folded: BTreeSet<String> = folding.folded.keys().cloned().collect();
        let left_out = LeftOut { dead: &dead, folded: &folded, finished: request.finished };
        let mut kept_by_code = BTreeMap::new();
        let cut = references.and_then(|references| {
            let program = references.program(target, &resolution, &visible);
            let _cutting = span::traced("Partition", || target.arch.to_string());
            if request.is_printed {
                kept_by_code = program.kept_by_code(&dead);
            }
            Some(partition::cut_without(&program, references.rules?, left_out))
        });
        dead.extend(folded);
        let removable = removable(&cut, &dead, references);
        let instructions = cut.as_ref().map(|cut| (cut.distinct, cut.duplicated()));
        let Cut { partitions, monolithic, .. } = cut.unwrap_or_default();
        let partitions = if partitions.is_empty() { whole(target, &visible) } else { partitions };
        let retained_dead = match request.is_printed {
            true => retained_kernels::reasons(request.dead, &visible, kept_by_code, &partitions, other_code),
            false => BTreeMap::new(),
        };
        let not_cut = monolithic.map(|reason| {
            let units = target.units();
            let unit = reason.unit.map_or_else(String::new, |unit| format!("{}: ", units[unit].name()));
            format!("{unit}{}", reason.reason)
        });
        TargetPlan {
            prevailing: resolution.prevailing,
            promoted,
            visible,
            dead,
            retained_dead,
            removable,
            folding,
            also_visible,
            partitions,
            not_cut,
            instructions,
        }
    }

    /// The only kernels of the image, of those in partitions; `None` if all of them are in it.
    pub fn only_kernels(&self) -> Option<Vec<&str>> {
        let kernels = self.partitions.iter().flat_map(|partition| &partition.kernels);
        let wanted = || kernels.filter(|kernel| !self.removable.contains(*kernel)).map(String::as_str);
        (!self.removable.is_empty()).then(|| wanted().collect())
    }

    /// Whether the program is compiled in one piece, in this process.
    pub fn is_whole(&self) -> bool {
        self.partitions.iter().all(|partition| partition.parts.is_empty())
    }

    /// Whether the program was cut, and one partition is all of it.
    pub fn is_one_partition(&self) -> bool {
        matches!(&self.partitions[..], [only] if !only.parts.is_empty())
    }
}

impl<'f> References<'f> {
    /// The program. These names stay visible.
    fn program<A>(
        &self,
        target: &TargetImages<'_, A>,
        resolution: &Resolution,
        visible: &'f BTreeSet<String>,
    ) -> Program<'f> {
        let prevailing = |name: &str| target.unit_of(*resolution.prevailing.get(name)?);
        Program::on(self.machine, self.graphs.clone(), self.tags.clone(), &prevailing, visible)
    }
}

/// Decides which kernels are not compiled because another one is equal.
fn fold<A: Display>(
    target: &TargetImages<'_, A>,
    references: &References<'_>,
    program: &Program<'_>,
    request: PlanRequest<'_>,
    why_not: &dyn Fn(&[&Bodies]) -> Option<String>,
    is_candidate: &dyn Fn(&str) -> bool,
) -> Folding {
    let Some(bodies) = references.bodies.as_ref().filter(|_| request.folding != KernelFolding::Off) else {
        return Folding::default();
    };
    let _comparing = span::traced("Compare kernels", || target.arch.to_string());
    let unregistered = request.unregistered.filter(|_| request.folding != KernelFolding::Safe).map(str::to_owned);
    let request = FoldingRequest {
        folding: request.folding,
        why_not: unregistered.or_else(|| why_not(bodies)),
        only: request.only_folded,
        finished: request.finished,
    };
    equal_kernels::fold(program, &references.graphs, bodies, request, is_candidate)
}

/// Finds the kernels for [`TargetPlan::removable`].
fn removable(cut: &Option<Cut>, dead: &BTreeSet<String>, references: Option<&References<'_>>) -> BTreeSet<String> {
    let (Some(cut), Some(references)) = (cut, references) else { return BTreeSet::new() };
    let kernels = cut.partitions.iter().flat_map(|partition| &partition.kernels);
    let mut removable: BTreeSet<String> = kernels.filter(|kernel| dead.contains(*kernel)).cloned().collect();
    if !removable.is_empty() {
        let referenced = referenced_kernels(&references.graphs);
        removable.retain(|kernel| !referenced.contains(kernel.as_str()));
    }
    removable
}

/// The single partition of a program that is compiled in one piece.
fn whole<A>(target: &TargetImages<'_, A>, visible: &BTreeSet<String>) -> Vec<Partition> {
    let has_bitcode = target.of_code(Code::Bitcode).next().is_some();
    // An instruction takes about eight bytes of bitcode.
    let instructions = target.bitcode_bytes() as u64 / 8;
    let (parts, kernels) = (Vec::new(), Vec::new());
    let whole = Partition { parts, keep: visible.clone(), kernels, instructions, largest: instructions };
    has_bitcode.then_some(whole).into_iter().collect()
}
