//! Decides which images of equal code can be dropped.
//!
//! A program sees for which target a kernel was compiled: cudaFuncAttributes has the number of its machine code and of its virtual
//! architecture. CUB and Thrust choose launch parameters by the latter, once for all fatbins of a library, and a kernel that was compiled for
//! other parameters computes wrong results. So where the other image was compiled for another target, it replaces all images of the
//! first target that a GPU runs of the file, or none. Of an object, which becomes part of a program, it is not known what else there is:
//! [`containers`](super::super::containers) leaves such pairs out.

use std::collections::{BTreeSet, HashSet};

use super::super::code::{Code, Content};
use super::super::containers::{FoundContainer, Role};
use super::super::driver::Runtime;
use super::super::needs::driver_needs;
use super::super::select::{choose, judge};
use super::images::EqualImages;
use crate::arch::{GpuArch, TargetTable};
use crate::cubin;

/// An image that no GPU needs, because each that runs it would run another one of equal code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Droppable {
    /// The number of its fatbin, as in [`ContainerPlace::container`](super::super::ContainerPlace::container).
    pub container: usize,
    /// Its number in the fatbin, from 1.
    pub entry: usize,
    /// Bytes that it takes in the fatbin.
    pub stored_size: u64,
    /// What runs in its place on each GPU that runs it.
    pub instead: Vec<Instead>,
}

/// The image that a GPU runs in place of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instead {
    /// The GPU.
    pub gpu: GpuArch,
    /// The number of the image, from 1.
    pub entry: usize,
}

/// For which targets a kernel was compiled, as a program sees it: the number of the machine code's, and that of the virtual architecture.
type Versions = (u32, Option<u32>);

/// What stays as it is: on these GPUs, kernels that were compiled for these targets.
type Refused = HashSet<(GpuArch, Versions)>;

/// The images of a file that can be dropped together. Only fatbins that a program loads by themselves have any.
pub fn droppable(all: &[FoundContainer], targets: TargetTable<'_>) -> Vec<Droppable> {
    let mut refused = Refused::new();
    // Each round refuses more, and there are as many GPUs and targets as the file names.
    loop {
        let plans: Vec<Plan<'_>> = loaded(all).map(|found| Plan::new(found, targets, &refused)).collect();
        let mixed = mixed(&plans);
        if mixed.is_empty() {
            return plans.iter().flat_map(Plan::droppable).collect();
        }
        refused.extend(mixed);
    }
}

fn loaded(all: &[FoundContainer]) -> impl Iterator<Item = &FoundContainer> {
    all.iter().filter(|found| matches!(found.role, Role::Whole | Role::Linked(_)))
}

/// The targets of images that some fatbins would lose and others keep on the same GPU.
fn mixed(plans: &[Plan<'_>]) -> Refused {
    let changed: Refused = plans.iter().flat_map(Plan::changed_versions).collect();
    let stays = |(gpu, versions): &(GpuArch, Versions)| plans.iter().any(|plan| plan.may_run(*gpu, *versions));
    changed.into_iter().filter(stays).collect()
}

/// What can be dropped of one fatbin.
struct Plan<'f> {
    found: &'f FoundContainer,
    /// The GPUs, each with the entry that it runs of all, if any.
    gpus: Vec<(GpuArch, Option<&'f Code>)>,
    dropped: BTreeSet<usize>,
}

impl<'f> Plan<'f> {
    fn new(found: &'f FoundContainer, targets: TargetTable<'_>, refused: &Refused) -> Self {
        let own = found.codes.iter().map(|code| GpuArch::plain(code.arch.number));
        let gpus: BTreeSet<GpuArch> = targets.all_gpus().chain(own).collect();
        let gpus = gpus.into_iter().map(|gpu| (gpu, choose(&found.codes, gpu))).collect();
        let mut plan = Plan { found, gpus, dropped: BTreeSet::new() };
        // Of equal images, the one that the most GPUs can run stays: plain code for the earliest.
        let has_equal = |code: &&Code| found.equal.iter().any(|equal| equal.replaced == code.number);
        let mut candidates: Vec<&Code> = found.codes.iter().filter(has_equal).collect();
        candidates.sort_by_key(|code| std::cmp::Reverse((code.arch, code.number)));
        for code in candidates {
            if plan.can_drop(code, refused) {
                plan.dropped.insert(code.number);
            }
        }
        plan
    }

    /// The entry that a GPU runs without those that are dropped and `but`.
    fn choice(&self, gpu: GpuArch, but: Option<usize>) -> Option<&'f Code> {
        let stays = |code: &&Code| !self.dropped.contains(&code.number) && but != Some(code.number);
        choose(self.found.codes.iter().filter(stays), gpu)
    }

    fn can_drop(&self, code: &Code, refused: &Refused) -> bool {
        // What no GPU runs may be meant for one that is not known here.
        let is_run = self.gpus.iter().any(|(_, first)| first.is_some_and(|first| first.number == code.number));
        let mut running = self.gpus.iter().filter(|(gpu, _)| self.runs(code, *gpu));
        is_run
            && running.all(|(gpu, first)| {
                let instead = self.choice(*gpu, Some(code.number));
                first.zip(instead).is_some_and(|(first, instead)| self.replaces(first, instead, *gpu, refused))
            })
    }

    fn runs(&self, code: &Code, gpu: GpuArch) -> bool {
        self.choice(gpu, None).is_some_and(|chosen| chosen.number == code.number)
    }

    /// Whether a GPU runs `instead` as it would run `first`, with every driver that loads that.
    fn replaces(&self, first: &Code, instead: &Code, gpu: GpuArch, refused: &Refused) -> bool {
        let runs = |code: &Code| judge(code, gpu, Runtime::default()).0.runs();
        let needs = |code: &Code| driver_needs(std::slice::from_ref(code)).branch;
        let is_refused = versions(first) != versions(instead)
            && versions(first).is_none_or(|versions| refused.contains(&(gpu, versions)));
        let equal = self.equal(first.number, instead.number);
        let is_equal = equal.is_some_and(|equal| is_run_alike(equal, first, instead, gpu));
        is_equal && !is_refused && runs(first) && runs(instead) && needs(instead) <= needs(first)
    }

    fn equal(&self, replaced: usize, instead: usize) -> Option<&'f EqualImages> {
        self.found.equal.iter().find(|equal| (equal.replaced, equal.instead) == (replaced, instead))
    }

    /// The GPUs that run another entry than before, with both entries.
    fn changes(&self) -> impl Iterator<Item = (GpuArch, &'f Code, &'f Code)> {
        self.gpus.iter().filter_map(|(gpu, first)| {
            let first = first.filter(|first| self.dropped.contains(&first.number))?;
            Some((*gpu, first, self.choice(*gpu, None)?))
        })
    }

    /// The GPUs on which kernels are no longer those that were compiled for these targets.
    fn changed_versions(&self) -> impl Iterator<Item = (GpuArch, Versions)> {
        let changed = self.changes().filter(|(_, first, instead)| versions(first) != versions(instead));
        changed.filter_map(|(gpu, first, _)| Some((gpu, versions(first)?)))
    }

    /// Whether kernels that were compiled for one of these targets still run on a GPU.
    fn may_run(&self, gpu: GpuArch, of: Versions) -> bool {
        match self.choice(gpu, None) {
            Some(code) => seen(code, gpu).is_some_and(|(binary, ptx)| binary == of.0 || ptx == of.1),
            // The driver links the objects again.
            None => matches!(self.found.role, Role::Linked(_)),
        }
    }

    fn droppable(&self) -> Vec<Droppable> {
        let size = |number: &usize| {
            self.found.codes.iter().find(|code| code.number == *number).map_or(0, |code| code.stored_size)
        };
        let instead = |number: &usize| {
            let own = self.changes().filter(|(_, first, _)| first.number == *number);
            own.map(|(gpu, _, instead)| Instead { gpu, entry: instead.number }).collect()
        };
        let droppable = |number: &usize| Droppable {
            container: self.found.place.container,
            entry: *number,
            stored_size: size(number),
            instead: instead(number),
        };
        self.dropped.iter().map(droppable).collect()
    }
}

/// Whether the GPU runs the images alike, with the attributes that differ.
fn is_run_alike(equal: &EqualImages, first: &Code, instead: &Code, gpu: GpuArch) -> bool {
    let archs = own_arch(first).zip(own_arch(instead));
    archs.is_some_and(|archs| cubin::attributes_run_alike(&equal.differing, archs, equal.finalizable, gpu))
}

fn own_arch(code: &Code) -> Option<GpuArch> {
    match &code.content {
        Content::Sass { arch, .. } => Some(*arch),
        _ => None,
    }
}

/// The targets of what a GPU runs of an entry: of PTX, the machine code is for the GPU.
fn seen(code: &Code, gpu: GpuArch) -> Option<Versions> {
    match &code.content {
        Content::Ptx { target, .. } => Some((gpu.number, target.map(|target| target.number))),
        _ => versions(code),
    }
}

/// Whether a program sees no difference between these images.
pub(in crate::coverage) fn is_of_one_target(equal: &EqualImages, codes: &[Code]) -> bool {
    let targets = |number: usize| codes.iter().find(|code| code.number == number).and_then(versions);
    targets(equal.replaced) == targets(equal.instead)
}

/// The targets of a cubin.
pub(in crate::coverage) fn versions(code: &Code) -> Option<Versions> {
    match &code.content {
        Content::Sass { arch, virtual_arch, .. } => Some((arch.number, *virtual_arch)),
        _ => None,
    }
}
