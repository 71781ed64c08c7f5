//! Finds the bytes of a file that a choice of images changes, and rewrites the containers with fewer images.

use std::borrow::Cow;

use super::{Choice, EditedFile, Stays};
use crate::bytes::{pad_to_8, slice, u64_at, zeros_from};
use crate::elf_edit::{self, Replacement, ReplacementPart};
use crate::error::{EditError, FormatError};
use crate::fatbin::{self, EntryEdit};
use crate::hip_bundle;
use crate::host_object::{self, Section};
use crate::listing::{self, Found, Row};
use crate::offload_binary::{self, ImageToWrite, OffloadImage, OffloadKinds};

/// The changes to a file.
#[derive(Default)]
pub(super) struct Plan {
    /// Sorted by offset, without overlaps.
    pub edits: Vec<Replacement>,
    pub dropped: Vec<Row>,
    pub kept: usize,
    /// The numbers of the entries that stay, by the offset of their container.
    pub stays: Stays,
}

/// The place of an entry: the offset of its container, and its number, from 1.
type Place = (u64, usize);

impl Plan {
    fn add(&mut self, other: Plan) {
        self.stays.extend(other.stays);
        self.edits.extend(other.edits);
        self.dropped.extend(other.dropped);
        self.kept += other.kept;
    }

    /// Applies the edits to a file that consists of containers: the bytes behind an edit move up.
    pub fn spliced(self, data: Cow<'_, [u8]>) -> EditedFile<'_> {
        if self.edits.is_empty() {
            return EditedFile { bytes: data, zeroed: 0, dropped: self.dropped, stays: self.stays };
        }
        let bytes = elf_edit::spliced(&data, &self.edits);
        EditedFile { bytes: Cow::Owned(bytes), zeroed: 0, dropped: self.dropped, stays: self.stays }
    }

    /// Applies the edits to an ELF file.
    ///
    /// # Errors
    /// Those of [`elf_edit::shrink`].
    pub fn in_elf(self, data: &[u8]) -> Result<EditedFile<'_>, FormatError> {
        let unchanged = EditedFile { dropped: self.dropped, stays: self.stays, ..EditedFile::unchanged(data) };
        if self.edits.is_empty() {
            return Ok(unchanged);
        }
        let shrunk = elf_edit::shrink(data, &self.edits)?;
        Ok(EditedFile { bytes: Cow::Owned(shrunk.bytes), zeroed: shrunk.zeroed, ..unchanged })
    }

    /// Counts an image and returns whether it is dropped.
    fn decide(&mut self, row: &Row, place: Option<Place>, choice: &Choice) -> bool {
        let goes = choice.drops(row, place);
        if goes {
            self.dropped.push(row.clone());
        } else {
            self.kept += 1;
            let stays = place.map(|(container, number)| (self.stays.entry(container).or_default(), number));
            stays.into_iter().for_each(|(stays, number)| stays.push(number));
        }
        goes
    }
}

/// Finds the edits of the sections with device code.
pub(super) fn of_elf(data: &[u8], choice: &Choice) -> Result<Plan, FormatError> {
    let mut plan = Plan::default();
    for section in host_object::sections(data)? {
        let name = String::from_utf8_lossy(section.name);
        let place = format!("section {name}");
        let choice = &choice.within(&name);
        let contents = section.data(data).map_err(|e| e.within(&place))?;
        let found = match kind_of(&section) {
            SectionKind::Other => continue,
            SectionKind::Fatbins => of_fatbins(contents, section.offset, choice),
            SectionKind::Bundles => of_bundles(contents, section.offset, choice),
            SectionKind::OffloadBinaries => of_offload_binaries(contents, section.offset, choice),
            SectionKind::Registered => refuse_registered(contents, section.offset, choice),
        };
        let mut found = found.map_err(|e| e.within(&place))?;
        // What is left of a concatenation is compressed anew, and a better compressor may have written it.
        found.edits.iter().try_for_each(Replacement::require_room).map_err(|e| e.within(&place))?;
        for row in &mut found.dropped {
            row.section = Some(name.clone().into_owned());
        }
        plan.add(found);
    }
    plan.edits.sort_by_key(|edit| edit.offset);
    let overlap = plan.edits.windows(2).find(|pair| pair[0].end() > pair[1].offset);
    match overlap {
        Some(pair) => Err(FormatError::damaged(pair[1].offset, "two sections with device code overlap")),
        None => Ok(plan),
    }
}

enum SectionKind {
    Other,
    Fatbins,
    OffloadBinaries,
    Bundles,
    /// Images that the program finds by address.
    Registered,
}

fn kind_of(section: &Section<'_>) -> SectionKind {
    const SHT_LLVM_OFFLOADING: u32 = 0x6fff_4c0b;
    match section.name {
        b".nv_fatbin" | b"__nv_relfatbin" => SectionKind::Fatbins,
        b".hip_fatbin" => SectionKind::Bundles,
        b".llvm.offloading" if section.kind == SHT_LLVM_OFFLOADING => SectionKind::OffloadBinaries,
        name if name.starts_with(b".llvm.offloading") => SectionKind::Registered,
        _ if section.kind == SHT_LLVM_OFFLOADING => SectionKind::OffloadBinaries,
        _ => SectionKind::Other,
    }
}

fn refuse_registered(data: &[u8], base: u64, choice: &Choice) -> Result<Plan, FormatError> {
    let mut plan = of_offload_binaries(data, base, &Choice { allow_empty: true, ..choice.clone() })?;
    if let Some(row) = plan.dropped.first() {
        let error = EditError::Registered { image: row.image.clone(), target: row.target.clone() };
        return Err(FormatError::new(row.offset, error));
    }
    plan.edits.clear();
    Ok(plan)
}

/// Finds the edits of the HIP bundles in `data`, which starts at `base` of the file.
pub(super) fn of_bundles(data: &[u8], base: u64, choice: &Choice) -> Result<Plan, FormatError> {
    let mut plan = Plan::default();
    for bundle in hip_bundle::bundles(data).map_err(|e| e.shifted(base))? {
        let at = base.saturating_add(bundle.offset);
        let plain = bundle.plain().map_err(|e| e.shifted(base))?;
        let entries = hip_bundle::read_all(&plain).map_err(|e| e.shifted(at))?;
        let before = (plan.dropped.len(), plan.kept);
        // The empty image of the host stays.
        let mut goes = Vec::with_capacity(entries.len());
        let mut number = 0;
        plan.stays.entry(at).or_default();
        for entry in &entries {
            number += usize::from(!entry.image.is_empty());
            let drops =
                !entry.image.is_empty() && plan.decide(&listing::bundle_row(entry, at), Some((at, number)), choice);
            goes.push(drops);
        }
        if plan.dropped.len() == before.0 {
            continue;
        }
        refuse_empty(plan.kept == before.1, choice, "HIP bundle", at)?;
        let parts = bundle.without(&goes, base).map_err(|e| e.shifted(base))?;
        plan.edits.push(Replacement { offset: at, len: bundle.bytes.len() as u64, parts });
    }
    Ok(plan)
}

/// The same for a file of nothing but bundles. What lies behind one moves up by a multiple of the alignment that HIP requires.
pub(super) fn of_bundle_file(data: &[u8], choice: &Choice) -> Result<Plan, FormatError> {
    let mut plan = of_bundles(data, 0, choice)?;
    for edit in plan.edits.iter_mut().filter(|edit| edit.end() < data.len() as u64) {
        let padding = edit.len.saturating_sub(edit.size()) % hip_bundle::HIP_ALIGNMENT;
        edit.parts.push(ReplacementPart::Bytes(vec![0; usize::try_from(padding).unwrap_or(0)]));
    }
    Ok(plan)
}

/// Finds the edits of the fatbins in `data`, which starts at `base` of the file.
pub(super) fn of_fatbins(data: &[u8], base: u64, choice: &Choice) -> Result<Plan, FormatError> {
    let containers = fatbin::read_containers(data).map_err(|e| e.shifted(base))?;
    let images = listing::images_of_fatbin(data, base, OffloadKinds::CUDA)?;
    let mut images = images.iter();
    let mut plan = Plan::default();
    for container in containers {
        let before = plan.dropped.len();
        let at = base.saturating_add(container.offset);
        plan.stays.entry(at).or_default();
        let own = images.by_ref().take(container.entries.len()).zip(1..);
        let goes: Vec<bool> = own.map(|(found, number)| plan.decide(&found.row, Some((at, number)), choice)).collect();
        if plan.dropped.len() == before {
            continue;
        }
        refuse_empty(goes.iter().all(|goes| *goes), choice, "fatbin", at)?;
        plan.edits.push(fatbin::rewritten(data, base, &container, goes.iter().map(|goes| EntryEdit::drop_if(*goes)))?);
    }
    Ok(plan)
}

fn refuse_empty(is_empty: bool, choice: &Choice, container: &'static str, at: u64) -> Result<(), FormatError> {
    if is_empty && !choice.allow_empty {
        return Err(FormatError::new(at, EditError::NothingLeft { container }));
    }
    Ok(())
}

/// Makes one edit of all the offload binaries in `data`, which starts at `base` of the file: nothing refers to a single one of them.
pub(super) fn of_offload_binaries(data: &[u8], base: u64, choice: &Choice) -> Result<Plan, FormatError> {
    let mut plan = Plan::default();
    let mut bytes = Vec::new();
    let mut at = zeros_from(data, 0);
    while at < data.len() as u64 {
        let size = u64_at(data, at.saturating_add(8), "the size of the offload binary").map_err(|e| e.shifted(base))?;
        let blob = slice(data, at, size, "the offload binary").map_err(|e| e.shifted(base))?;
        // An empty one would be read in an endless loop.
        if blob.is_empty() {
            return Err(FormatError::damaged(
                base.saturating_add(at),
                "offload binary with an impossible size of 0 bytes",
            ));
        }
        append_blob(&mut bytes, blob, base.saturating_add(at), choice, &mut plan)?;
        at = at.saturating_add(size);
        at = at.saturating_add(zeros_from(data, at));
    }
    if plan.dropped.is_empty() {
        return Ok(plan);
    }
    refuse_empty(plan.kept == 0, choice, "set of offload binaries", base)?;
    plan.edits.push(Replacement { offset: base, len: data.len() as u64, parts: vec![ReplacementPart::Bytes(bytes)] });
    Ok(plan)
}

/// Appends one offload binary: unchanged if all of its images stay, else with those that stay.
fn append_blob(out: &mut Vec<u8>, blob: &[u8], base: u64, choice: &Choice, plan: &mut Plan) -> Result<(), FormatError> {
    let mut kept = Vec::new();
    let mut is_changed = false;
    let images = offload_binary::read_all(blob).map_err(|e| e.shifted(base))?;
    for image in &images {
        let found = listing::images_of_image(image, base.saturating_add(image.image_offset))?;
        let goes: Vec<bool> = found.iter().map(|found| plan.decide(&found.row, None, choice)).collect();
        is_changed |= goes.contains(&true);
        if goes.contains(&false) || goes.is_empty() {
            kept.push(what_stays(image, &found, &goes)?);
        }
    }
    if !is_changed {
        out.extend_from_slice(blob);
        pad_to_8(out);
        return Ok(());
    }
    for (image, bytes) in kept {
        let strings = image.strings.clone();
        let OffloadImage { image_kind, offload_kinds, flags, .. } = *image;
        out.extend(offload_binary::write(&ImageToWrite { image_kind, offload_kinds, flags, strings, image: &bytes }));
    }
    Ok(())
}

/// The image, or if it is a fatbin, its entries that stay.
fn what_stays<'i, 'a>(
    image: &'i OffloadImage<'a>,
    found: &[Found<'a>],
    goes: &[bool],
) -> Result<(&'i OffloadImage<'a>, Vec<u8>), FormatError> {
    if !goes.contains(&true) || found.first().is_none_or(|found| found.entry().is_none()) {
        return Ok((image, image.image.to_vec()));
    }
    let mut goes = goes.iter();
    let mut bytes = Vec::new();
    for container in fatbin::read_containers(image.image)? {
        let of_container = goes.by_ref().take(container.entries.len()).map(|goes| EntryEdit::drop_if(*goes));
        let edit = fatbin::rewritten(image.image, 0, &container, of_container)?;
        edit.parts.iter().for_each(|part| bytes.extend_from_slice(part.bytes(image.image)));
    }
    Ok((image, bytes))
}
