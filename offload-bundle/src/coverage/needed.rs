//! Which entries some GPUs need: those that the driver or the runtime takes on one of them, and those that the driver links again there.

use std::collections::{BTreeMap, BTreeSet};

use super::containers::{FoundContainer, Role};
use super::driver::Runtime;
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

/// The GPUs among these on which a container of the file runs; `None` if the file has no container that a program loads: only objects that
/// are yet to be linked, or no device code.
pub fn served_gpus(
    fatbins: &[FoundContainer],
    bundles: &[FoundBundle],
    gpus: &Gpus,
    runtime: impl Into<Runtime>,
) -> Option<Gpus> {
    let runtime = runtime.into();
    let loaded: Vec<&FoundContainer> =
        fatbins.iter().filter(|found| matches!(found.role, Role::Whole | Role::Linked(_))).collect();
    if loaded.is_empty() && bundles.is_empty() {
        return None;
    }
    let runs = |gpu: &&GpuArch| loaded.iter().any(|found| outcome_in(found, fatbins, **gpu, runtime).verdict.runs());
    let runs_amd = |gpu: &&AmdGpu| {
        let mut modes = gpu.modes().iter();
        modes.any(|mode| bundles.iter().any(|bundle| hip_outcome(&bundle.codes, mode).verdict.runs()))
    };
    Some(Gpus {
        nvidia: gpus.nvidia.iter().filter(runs).copied().collect(),
        amd: gpus.amd.iter().filter(runs_amd).cloned().collect(),
    })
}

/// The numbers of the entries that are needed, from 1, by the offset of their container. An entry of a container that is not in it may be
/// needed: by a link that is yet to come, or by GPUs of the other vendor.
pub type NeededEntries = BTreeMap<u64, BTreeSet<usize>>;

/// The entries that these GPUs need of the containers of one file.
pub fn needed_entries(
    fatbins: &[FoundContainer],
    bundles: &[FoundBundle],
    gpus: &Gpus,
    runtime: impl Into<Runtime>,
) -> NeededEntries {
    let runtime = runtime.into();
    let mut needed = NeededEntries::new();
    if !gpus.nvidia.is_empty() {
        of_fatbins(&mut needed, fatbins, &gpus.nvidia, runtime);
    }
    for bundle in bundles.iter().filter(|_| !gpus.amd.is_empty()) {
        let modes = gpus.amd.iter().flat_map(AmdGpu::modes);
        let taken = modes.filter_map(|mode| hip_outcome(&bundle.codes, mode).code.map(|code| code.number));
        needed.entry(bundle.place.offset).or_default().extend(taken);
    }
    needed
}

fn of_fatbins(needed: &mut NeededEntries, all: &[FoundContainer], gpus: &[GpuArch], runtime: Runtime) {
    let offsets: BTreeMap<usize, u64> = all.iter().map(|found| (found.place.container, found.place.offset)).collect();
    for found in all {
        match &found.role {
            Role::Whole => drop(needed.entry(found.place.offset).or_default()),
            Role::Linked(objects) => {
                let own = [&found.place.container].into_iter().chain(objects);
                for offset in own.filter_map(|number| offsets.get(number)) {
                    needed.entry(*offset).or_default();
                }
            }
            // What a link will take of it, or a program's own code, is not known.
            Role::Object(_) | Role::Data => continue,
        }
        for gpu in gpus {
            let outcome = outcome_in(found, all, *gpu, runtime);
            let parts = outcome.parts.iter().map(|part| (offsets.get(&part.container).copied(), part.code.number));
            let own = outcome.code.map(|code| (Some(found.place.offset), code.number));
            for (offset, number) in parts.chain(own) {
                needed.entry(offset.unwrap_or(found.place.offset)).or_default().insert(number);
            }
        }
    }
}

/// What becomes of one container on one GPU, with the entries that are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fate {
    verdict: Option<Verdict>,
    runs: bool,
    /// Container and number of each entry.
    taken: Vec<(usize, usize)>,
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
    // The number of an entry afterwards.
    let offsets: BTreeMap<usize, u64> =
        before.0.iter().map(|found| (found.place.container, found.place.offset)).collect();
    let rank = |offset: Option<&u64>, number: usize| match offset.and_then(|offset| stays.get(offset)) {
        Some(stay) => stay.iter().position(|old| *old == number).map_or(0, |place| place + 1),
        None => number,
    };
    let nvidia = |all: &[FoundContainer], is_before: bool| -> Vec<Fate> {
        let fate = |found: &FoundContainer, gpu: GpuArch| {
            let outcome = outcome_in(found, all, gpu, runtime);
            let own = outcome.code.map(|code| (found.place.container, code.number));
            let parts = outcome.parts.iter().map(|part| (part.container, part.code.number));
            let ranked = |(container, number)| match is_before {
                true => (container, rank(offsets.get(&container), number)),
                false => (container, number),
            };
            let taken = own.into_iter().chain(parts).map(ranked).collect();
            Fate { verdict: Some(outcome.verdict), runs: outcome.verdict.runs(), taken }
        };
        let loaded = all.iter().filter(|found| matches!(found.role, Role::Whole | Role::Linked(_)));
        loaded.flat_map(|found| gpus.nvidia.iter().map(move |gpu| fate(found, *gpu))).collect()
    };
    let amd = |all: &[FoundBundle], is_before: bool| -> Vec<Fate> {
        let mut fates = Vec::new();
        for bundle in all {
            for mode in gpus.amd.iter().flat_map(AmdGpu::modes) {
                let outcome = hip_outcome(&bundle.codes, mode);
                let number = outcome.code.map(|code| match is_before {
                    true => rank(Some(&bundle.place.offset), code.number),
                    false => code.number,
                });
                let taken = number.map(|number| (bundle.place.container, number)).into_iter().collect();
                fates.push(Fate { verdict: None, runs: outcome.verdict.runs(), taken });
            }
        }
        fates
    };
    nvidia(before.0, true) == nvidia(after.0, false) && amd(before.1, true) == amd(after.1, false)
}
