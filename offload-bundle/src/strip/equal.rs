//! Drops images that no GPU needs, because each that runs one would run another one of equal code.

use std::collections::BTreeMap;

use super::{Choice, Stays, Stripped, checked, inspected};
use crate::arch::GpuArch;
use crate::arch::table::KNOWN;
use crate::archive::reject_thin_members;
use crate::coverage::{self, Code, Droppable, FoundContainer, NeededEntries};
use crate::cubin;
use crate::error::{EditError, FileError, FormatError};
use crate::fatbin;
use crate::host_object::{self, FileKind, Search};

/// How many images for a target were dropped, and what a GPU runs in their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaced {
    /// The target of those that were dropped.
    pub target: GpuArch,
    /// The target of those that run in their place.
    pub instead: GpuArch,
    /// The GPU.
    pub gpu: GpuArch,
    /// How many.
    pub count: usize,
}

/// Drops the images that [`coverage::droppable`] finds. The code that each GPU runs of the result is compared with what it ran before.
///
/// # Errors
/// Those of [`strip`](super::strip), and an archive, whose members are yet to be linked.
pub fn strip_equal(data: &[u8]) -> Result<(Stripped<'_>, Vec<Replaced>), FileError> {
    if matches!(host_object::file_kind(data), FileKind::Archive | FileKind::ThinArchive) {
        return Err(FormatError::new(0, EditError::StripArchiveForGpus).into());
    }
    let before = coverage::compared_containers(data, reject_thin_members, Search::Sections)?;
    let droppable = coverage::droppable(&before, KNOWN);
    let choice = Choice { only: Some(without(&before, &droppable)), ..Choice::default() };
    let (stripped, stays) = checked(data, &choice)?;
    if !stripped.summary.dropped.is_empty() {
        let (after, _) = inspected(&stripped.bytes)?;
        if !runs_equal_code((data, &before), (&stripped.bytes, &after), &stays) {
            return Err(FormatError::new(0, EditError::OtherOutcome).into());
        }
    }
    Ok((stripped, replaced(&before, &droppable)))
}

/// The entries that stay of the fatbins that lose some.
fn without(found: &[FoundContainer], droppable: &[Droppable]) -> NeededEntries {
    let mut needed = NeededEntries::new();
    for container in found {
        let goes = |code: &&Code| {
            droppable.iter().any(|image| (image.container, image.entry) == (container.place.container, code.number))
        };
        if container.codes.iter().any(|code| goes(&code)) {
            let stays = container.codes.iter().filter(|code| !goes(code)).map(|code| code.number);
            needed.insert(container.place.offset, stays.collect());
        }
    }
    needed
}

/// Whether each GPU runs the same images of the file as before, or such of equal code.
fn runs_equal_code(
    (data, before): (&[u8], &[FoundContainer]),
    (new_data, after): (&[u8], &[FoundContainer]),
    stays: &Stays,
) -> bool {
    let Some(changed) = coverage::changed_choices(before, after, stays) else { return false };
    changed.into_iter().all(|choice| {
        let old = before.get(choice.place).and_then(|found| payload(data, found, choice.before));
        let new = after.get(choice.place).and_then(|found| payload(new_data, found, choice.after));
        let cubins = old.as_deref().zip(new.as_deref()).map(|(old, new)| (cubin::parse(old), cubin::parse(new)));
        matches!(cubins, Some((Ok(old), Ok(new))) if cubin::runs_alike(&old, &new, choice.gpu))
    })
}

/// The image of an entry.
fn payload(data: &[u8], found: &FoundContainer, number: usize) -> Option<Vec<u8>> {
    let bytes = fatbin::container_at(data, found.place.offset).ok()?;
    let entries = fatbin::read(bytes).ok()?;
    Some(entries.get(number.checked_sub(1)?)?.payload().ok()?.into_owned())
}

/// Counts what was dropped.
fn replaced(found: &[FoundContainer], droppable: &[Droppable]) -> Vec<Replaced> {
    let mut counts: BTreeMap<(GpuArch, GpuArch, GpuArch), usize> = BTreeMap::new();
    let codes: BTreeMap<usize, &[Code]> =
        found.iter().map(|found| (found.place.container, found.codes.as_slice())).collect();
    for image in droppable {
        let arch = |number: usize| codes.get(&image.container)?.get(number.checked_sub(1)?).map(|code| code.arch);
        for instead in &image.instead {
            if let (Some(target), Some(other)) = (arch(image.entry), arch(instead.entry)) {
                *counts.entry((target, other, instead.gpu)).or_default() += 1;
            }
        }
    }
    let replaced = |((target, instead, gpu), count)| Replaced { target, instead, gpu, count };
    counts.into_iter().map(replaced).collect()
}
