//! Compares what each GPU runs of a file before and after images of it are dropped.

use std::collections::BTreeMap;

use super::super::containers::{FoundContainer, Role};
use super::super::driver::{Driver, Jit, Runtime};
use super::super::relink::outcome_in;
use super::super::select::Outcome;
use crate::arch::GpuArch;
use crate::arch::table::KNOWN;

/// A GPU that runs another entry of a fatbin than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChangedChoice {
    /// The place of the fatbin among those of the file, from 0.
    pub place: usize,
    /// The number of the entry before, in the fatbin before.
    pub before: usize,
    /// The number of the entry afterwards, in the fatbin afterwards.
    pub after: usize,
    pub gpu: GpuArch,
}

/// The GPUs that run other entries than before, however the driver treats PTX. `stays` are the numbers of the entries that stay of a fatbin,
/// by its offset before. `None` if something else becomes of a fatbin on a GPU than before.
pub(crate) fn changed_choices(
    before: &[FoundContainer],
    after: &[FoundContainer],
    stays: &BTreeMap<u64, Vec<usize>>,
) -> Option<Vec<ChangedChoice>> {
    if before.len() != after.len() {
        return None;
    }
    let mut changed = Vec::new();
    for (place, (old, new)) in before.iter().zip(after).enumerate() {
        if matches!(old.role, Role::Object(_) | Role::Data) {
            continue;
        }
        let own = old.codes.iter().map(|code| GpuArch::plain(code.arch.number));
        for gpu in KNOWN.all_gpus().chain(own) {
            for jit in [Jit::Allowed, Jit::Forced, Jit::Disabled] {
                let runtime = Runtime { driver: Driver::default(), jit };
                let (first, then) = (outcome_in(old, before, gpu, runtime), outcome_in(new, after, gpu, runtime));
                let numbers = stays.get(&old.place.offset);
                changed.extend(change(&first, &then, numbers)?.map(|(before, after)| ChangedChoice {
                    place,
                    before,
                    after,
                    gpu,
                }));
            }
        }
    }
    changed.sort_unstable();
    changed.dedup();
    Some(changed)
}

/// The entries that are chosen before and afterwards, if they differ; `None` if the outcomes differ otherwise.
fn change(before: &Outcome<'_>, after: &Outcome<'_>, stays: Option<&Vec<usize>>) -> Option<Option<(usize, usize)>> {
    let number_before = |number: usize| stays.map_or(Some(number), |stays| stays.get(number.checked_sub(1)?).copied());
    let parts =
        |outcome: &Outcome<'_>| outcome.parts.iter().map(|part| (part.container, part.code.number)).collect::<Vec<_>>();
    if before.verdict != after.verdict || parts(before) != parts(after) {
        return None;
    }
    match (before.code, after.code) {
        (None, None) => Some(None),
        (Some(old), Some(new)) => {
            let is_same = number_before(new.number)? == old.number;
            Some((!is_same).then_some((old.number, new.number)))
        }
        _ => None,
    }
}
