//! Drops device images from a file that is linked already, so that it need not be linked again.
//!
//! 1. `edits` finds the containers of a file, decides which of their images go, and rewrites each container in fewer bytes.
//! 2. [`elf_edit`](crate::elf_edit) puts them back into ELF files: in a program or shared library nothing moves in memory.
//! 3. `ar` rewrites the members of an archive and corrects its index.
//! 4. `equal` drops images of which the GPUs have others with equal code.
//! 5. `verify` reads the result with the readers of this crate and compares the images that stay, before the caller gets it.

mod ar;
mod edits;
mod equal;
mod verify;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::archive::reject_thin_members;
use crate::coverage::{self, BundledCode, Form, FoundBundle, FoundContainer, Gpus, NeededEntries, Runtime};
use crate::cubin;
use crate::error::{EditError, FileError, FormatError};
use crate::fatbin::EntryKind;
use crate::hip_bundle;
use crate::host_object::{self, FileKind, Search};
use crate::listing::Row;
use crate::offload_binary;
use crate::selection::Selector;

pub use equal::{Replaced, strip_equal};

/// Selects the images to drop.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Images that any of these selects are dropped.
    pub drop: Vec<Selector>,
    /// If not empty, images that none of these selects are dropped, too.
    pub keep: Vec<Selector>,
    /// If not empty, only images in these sections of an object, library or program are dropped.
    pub sections: Vec<String>,
    /// If given, this alone decides: of the containers that it has, all other entries are dropped ([`strip_for`], [`strip_equal`]).
    pub only: Option<NeededEntries>,
    /// Allows a container to end up empty; a program that loads such a container finds no kernel in it.
    pub allow_empty: bool,
}

impl Choice {
    /// Whether an entry is dropped: `place` is the offset of its container and its number, from 1.
    fn drops(&self, row: &Row, place: Option<(u64, usize)>) -> bool {
        if let Some(only) = &self.only {
            let needed = place.and_then(|(offset, number)| Some((only.get(&offset)?, number)));
            return needed.is_some_and(|(entries, number)| !entries.contains(&number));
        }
        let is_meant = |section: &String| self.sections.contains(section);
        if !self.sections.is_empty() && !row.section.as_ref().is_some_and(is_meant) {
            return false;
        }
        let unwanted = !self.keep.is_empty() && !self.keep.iter().any(|selector| selector.matches(row));
        unwanted || self.drop.iter().any(|selector| selector.matches(row))
    }

    /// Narrows the choice to one section, whose rows do not name it.
    fn within(&self, section: &str) -> Self {
        let is_meant = self.sections.iter().any(|meant| meant == section);
        let sections = if is_meant { Vec::new() } else { self.sections.clone() };
        Choice { sections, ..self.clone() }
    }
}

/// A file without the dropped images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripped<'a> {
    /// The whole file; as given if no image was dropped.
    pub bytes: Cow<'a, [u8]>,
    /// What was dropped and kept.
    pub summary: Summary,
    /// With [`strip_for`], the GPUs on which a container of the file runs; `None` if a program loads none of its containers.
    pub served: Option<Gpus>,
}

/// What was dropped from a file and kept in it. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Size of the file in bytes before.
    pub size_before: u64,
    /// Size of the file in bytes after.
    pub size_after: u64,
    /// Bytes of dropped images that stay in the file as zeros, because its layout cannot lose them.
    pub zeroed: u64,
    /// The dropped images, with their offsets in the file before.
    pub dropped: Vec<Row>,
    /// Number of images that stay.
    pub kept: usize,
}

/// One edited file, or one member of an archive.
struct EditedFile<'a> {
    bytes: Cow<'a, [u8]>,
    zeroed: u64,
    dropped: Vec<Row>,
    stays: Stays,
}

impl<'a> EditedFile<'a> {
    fn unchanged(data: &'a [u8]) -> Self {
        Self { bytes: Cow::Borrowed(data), zeroed: 0, dropped: Vec::new(), stays: Stays::new() }
    }
}

/// Drops device images from a fatbin, a HIP bundle, an offload binary, an ELF object, executable or shared library, or an archive of those.
///
/// # Errors
/// A damaged file, one of a kind or layout that cannot be stripped, and a choice that would leave a container empty.
pub fn strip<'a>(data: &'a [u8], choice: &Choice) -> Result<Stripped<'a>, FileError> {
    Ok(checked(data, choice)?.0)
}

/// Drops the entries of fatbins and HIP bundles that none of these GPUs needs: what stays is what [`coverage`] predicts to be taken there, or
/// to be linked again. Of a container of which they need nothing, the smallest entry stays unless `allow_empty`, so that the driver finds
/// code for other GPUs as before.
///
/// # Errors
/// Those of [`strip`], and an archive, whose members are yet to be linked.
pub fn strip_for<'a>(
    data: &'a [u8],
    gpus: &Gpus,
    runtime: impl Into<Runtime>,
    allow_empty: bool,
) -> Result<Stripped<'a>, FileError> {
    let runtime = runtime.into();
    if matches!(host_object::file_kind(data), FileKind::Archive | FileKind::ThinArchive) {
        return Err(FormatError::new(0, EditError::StripArchiveForGpus).into());
    }
    let (fatbins, bundles) = inspected(data)?;
    reject_unread_code(&fatbins)?;
    let mut needed = coverage::needed_entries(&fatbins, &bundles, gpus, runtime);
    if !allow_empty {
        keep_smallest(&fatbins, &bundles, &mut needed);
    }
    let choice = Choice { only: Some(needed), allow_empty, ..Choice::default() };
    let (stripped, stays) = checked(data, &choice)?;
    let served = coverage::served_gpus(&fatbins, &bundles, gpus, runtime);
    let stripped = Stripped { served, ..stripped };
    if stripped.summary.dropped.is_empty() {
        return Ok(stripped);
    }
    let after = inspected(&stripped.bytes)?;
    match coverage::same_outcomes((&fatbins, &bundles), (&after.0, &after.1), &stays, gpus, runtime) {
        true => Ok(stripped),
        false => Err(FormatError::new(0, EditError::OtherOutcome).into()),
    }
}

fn inspected(data: &[u8]) -> Result<(Vec<FoundContainer>, Vec<FoundBundle>), FileError> {
    Ok((
        coverage::containers(data, reject_thin_members, Search::Sections)?,
        coverage::hip_bundles(data, reject_thin_members)?,
    ))
}

/// Rejects fatbins with code that this crate cannot read: nobody can say which GPUs need it.
fn reject_unread_code(fatbins: &[FoundContainer]) -> Result<(), FormatError> {
    let unread = |found: &FoundContainer| {
        let code = found.codes.iter().find(|code| code.kind.is_unread_code())?;
        Some(FormatError::new(
            found.place.offset,
            EditError::UnreadCode { number: code.number, kind: code.kind.to_string() },
        ))
    };
    fatbins.iter().find_map(unread).map_or(Ok(()), Err)
}

/// Adds the smallest entry of each container that is to have entries and has none that is needed; machine code comes first.
fn keep_smallest(fatbins: &[FoundContainer], bundles: &[FoundBundle], needed: &mut NeededEntries) {
    let of_fatbins = fatbins.iter().map(|found| {
        let codes = found.codes.iter().map(|code| (code.kind != EntryKind::Elf, code.stored_size, code.number));
        (found.place.offset, codes.min())
    });
    let of_bundles = bundles.iter().map(|found| {
        let is_other = |code: &BundledCode| !matches!(code.form, Form::CodeObject(_));
        let codes = found.codes.iter().map(|code| (is_other(code), code.size, code.number));
        (found.place.offset, codes.min())
    });
    for (offset, smallest) in of_fatbins.chain(of_bundles) {
        if let Some(entries) = needed.get_mut(&offset).filter(|entries| entries.is_empty()) {
            entries.extend(smallest.map(|(_, _, number)| number));
        }
    }
}

/// The numbers of the entries that stay, by the offset of their container.
type Stays = BTreeMap<u64, Vec<usize>>;

fn checked<'a>(data: &'a [u8], choice: &Choice) -> Result<(Stripped<'a>, Stays), FileError> {
    let outcome = match host_object::file_kind(data) {
        FileKind::Archive => ar::strip(data, choice)?,
        FileKind::ThinArchive => {
            return Err(FormatError::new(0, EditError::StripThinArchive).into());
        }
        _ => strip_file(data, choice)?,
    };
    let kept = verify::images(data, &outcome.bytes, choice, &outcome.dropped)?;
    let summary = Summary {
        size_before: data.len() as u64,
        size_after: outcome.bytes.len() as u64,
        zeroed: outcome.zeroed,
        dropped: outcome.dropped,
        kept,
    };
    Ok((Stripped { bytes: outcome.bytes, summary, served: None }, outcome.stays))
}

fn strip_file<'a>(data: &'a [u8], choice: &Choice) -> Result<EditedFile<'a>, FormatError> {
    match host_object::file_kind(data) {
        FileKind::Fatbin => {
            let plan = edits::of_fatbins(data, 0, choice)?;
            Ok(plan.spliced(Cow::Borrowed(data)))
        }
        FileKind::OffloadBinary => {
            let data = offload_binary::inflate(data)?;
            let plan = edits::of_offload_binaries(&data, 0, choice)?;
            Ok(plan.spliced(data))
        }
        FileKind::ElfRelocatable | FileKind::ElfShared | FileKind::ElfExecutable if !cubin::is_cubin(data) => {
            let plan = edits::of_elf(data, choice)?;
            plan.in_elf(data)
        }
        _ => {
            if hip_bundle::is_bundle(data) {
                let plan = edits::of_bundle_file(data, choice)?;
                return Ok(plan.spliced(Cow::Borrowed(data)));
            }
            Ok(EditedFile::unchanged(data))
        }
    }
}

#[cfg(test)]
mod equal_tests;
#[cfg(test)]
mod tests;
