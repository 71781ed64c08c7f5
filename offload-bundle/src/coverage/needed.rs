//! Which entries some GPUs need: those that the driver or the runtime takes on one of them, and those that the driver links again there.

use std::collections::{BTreeMap, BTreeSet};

use super::containers::{ContainerPlace, FoundContainer, Role};
use super::driver::{LAST_WITHOUT_CONCATENATIONS, Runtime};
use super::hip::{AmdGpu, FoundBundle, hip_outcome};
use super::relink::outcome_in;
use super::select::Verdict;
use crate::arch::GpuArch;

/// The GPUs that a file is to run on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gpus {
    /// NVIDIA's. Fatbins count only if there are any.
    pub nvidia: Vec<GpuArch>,
    /// AMD's. HIP's bundles count only if there are any.
    pub amd: Vec<AmdGpu>,
}

/// The fatbins that a program loads by themselves.
fn loaded(all: &[FoundContainer]) -> impl Iterator<Item = &FoundContainer> {
    all.iter().filter(|found| matches!(found.role, Role::Whole | Role::Linked(_)))
}

/// The drivers for which a file has to keep what it has: of concatenations it is not known which drivers take them, so that those that do not
/// count, too.
fn runtimes(fatbins: &[FoundContainer], runtime: Runtime) -> impl Iterator<Item = Runtime> + use<> {
    let has_parts = fatbins.iter().any(|found| found.codes.iter().any(|code| code.is_concatenated));
    let without = Runtime { driver: LAST_WITHOUT_CONCATENATIONS.min(runtime.driver), ..runtime };
    [runtime].into_iter().chain((has_parts && without != runtime).then_some(without))
}

/// What becomes of one container on one GPU.
#[derive(Debug, PartialEq, Eq)]
struct Fate {
    verdict: Option<Verdict>,
    /// Whether it runs, or may.
    runs: bool,
    /// Container and number of each entry that is taken.
    taken: Vec<(usize, usize)>,
}

/// What becomes of each fatbin that a program loads.
fn nvidia_fates(all: &[FoundContainer], gpu: GpuArch, runtime: Runtime) -> impl Iterator<Item = Fate> {
    loaded(all).map(move |found| {
        let outcome = outcome_in(found, all, gpu, runtime);
        let own = outcome.code.map(|code| (found.place.container, code.number));
        let parts = outcome.parts.iter().map(|part| (part.container, part.code.number));
        let taken = own.into_iter().chain(parts).collect();
        Fate { verdict: Some(outcome.verdict), runs: outcome.verdict.may_run(), taken }
    })
}

/// What becomes of each bundle with each setting of a GPU's features.
fn amd_fates<'f>(bundles: &'f [FoundBundle], gpu: &'f AmdGpu) -> impl Iterator<Item = Fate> {
    let fate = |bundle: &FoundBundle, mode| {
        let outcome = hip_outcome(&bundle.codes, mode);
        let taken = outcome.code.map(|code| (bundle.place.container, code.number));
        Fate { verdict: None, runs: outcome.verdict.runs(), taken: taken.into_iter().collect() }
    };
    gpu.modes().iter().flat_map(move |mode| bundles.iter().map(move |bundle| fate(bundle, mode)))
}

/// The GPUs among these on which a container of the file runs; `None` if the file has no container that a program loads: only objects that
/// are yet to be linked, or no device code.
pub fn served_gpus(fatbins: &[FoundContainer], bundles: &[FoundBundle], gpus: &Gpus, runtime: Runtime) -> Option<Gpus> {
    if loaded(fatbins).next().is_none() && bundles.is_empty() {
        return None;
    }
    let runs = |gpu: &&GpuArch| nvidia_fates(fatbins, **gpu, runtime).any(|fate| fate.runs);
    let runs_amd = |gpu: &&AmdGpu| amd_fates(bundles, gpu).any(|fate| fate.runs);
    Some(Gpus {
        nvidia: gpus.nvidia.iter().filter(runs).copied().collect(),
        amd: gpus.amd.iter().filter(runs_amd).cloned().collect(),
    })
}

/// The numbers of the entries that are needed, from 1, by the offset of their container. An entry of a container that is not in it may be
/// needed: by a link that is yet to come, by a program's own code, or by GPUs of the other vendor.
pub type NeededEntries = BTreeMap<u64, BTreeSet<usize>>;

/// The entries that these GPUs need of the containers of one file.
pub fn needed_entries(
    fatbins: &[FoundContainer],
    bundles: &[FoundBundle],
    gpus: &Gpus,
    runtime: Runtime,
) -> NeededEntries {
    let mut needed = NeededEntries::new();
    let mut add = |places: &BTreeMap<usize, u64>, container: usize, numbers: Option<usize>| {
        if let Some(offset) = places.get(&container) {
            needed.entry(*offset).or_default().extend(numbers);
        }
    };
    if !gpus.nvidia.is_empty() {
        let places = places(fatbins.iter().map(|found| &found.place));
        for found in loaded(fatbins) {
            add(&places, found.place.container, None);
            if let Role::Linked(objects) = &found.role {
                objects.iter().for_each(|object| add(&places, *object, None));
            }
        }
        let cases = runtimes(fatbins, runtime).flat_map(|runtime| gpus.nvidia.iter().map(move |gpu| (*gpu, runtime)));
        let fates = cases.flat_map(|(gpu, runtime)| nvidia_fates(fatbins, gpu, runtime));
        fates.flat_map(|fate| fate.taken).for_each(|(container, number)| add(&places, container, Some(number)));
    }
    if !gpus.amd.is_empty() {
        let places = places(bundles.iter().map(|bundle| &bundle.place));
        places.keys().for_each(|container| add(&places, *container, None));
        let fates = gpus.amd.iter().flat_map(|gpu| amd_fates(bundles, gpu));
        fates.flat_map(|fate| fate.taken).for_each(|(container, number)| add(&places, container, Some(number)));
    }
    needed
}

/// The offset of each container, by its number.
fn places<'p>(all: impl Iterator<Item = &'p ContainerPlace>) -> BTreeMap<usize, u64> {
    all.map(|place| (place.container, place.offset)).collect()
}

/// Whether the same becomes of a file's containers on these GPUs without the entries that they do not need. `stays` are the numbers of the
/// entries that stay of a container, by its offset before.
pub(crate) fn same_outcomes(
    before: (&[FoundContainer], &[FoundBundle]),
    after: (&[FoundContainer], &[FoundBundle]),
    stays: &BTreeMap<u64, Vec<usize>>,
    gpus: &Gpus,
    runtime: Runtime,
) -> bool {
    if before.0.len() != after.0.len() || before.1.len() != after.1.len() {
        return false;
    }
    // With the numbers that the entries have afterwards.
    let renumbered = |fate: Fate, places: &BTreeMap<usize, u64>| {
        let rank = |(container, number)| match places.get(&container).and_then(|offset| stays.get(offset)) {
            Some(stay) => (container, stay.iter().position(|old| *old == number).map_or(0, |place| place + 1)),
            None => (container, number),
        };
        Fate { taken: fate.taken.into_iter().map(rank).collect(), ..fate }
    };
    let fatbins = places(before.0.iter().map(|found| &found.place));
    let bundles = places(before.1.iter().map(|bundle| &bundle.place));
    runtimes(before.0, runtime).all(|runtime| {
        gpus.nvidia.iter().all(|gpu| {
            let old = nvidia_fates(before.0, *gpu, runtime).map(|fate| renumbered(fate, &fatbins));
            old.eq(nvidia_fates(after.0, *gpu, runtime))
        })
    }) && gpus.amd.iter().all(|gpu| {
        let old = amd_fates(before.1, gpu).map(|fate| renumbered(fate, &bundles));
        old.eq(amd_fates(after.1, gpu))
    })
}
