//! ELF objects: a section grows, and what lies behind it moves.

use std::collections::BTreeSet;

use super::{Annotated, rewrite};
use crate::bytes::{slice, u64_at};
use crate::error::{EditError, FormatError};
use crate::host_object;

/// Places in the headers of 64-bit ELF files.
const E_SHOFF: u64 = 0x28;
const FILE_HEADER_SIZE: u64 = 64;
const SECTION_HEADER_SIZE: u64 = 64;
const SH_OFFSET: u64 = 24;
const SH_SIZE: u64 = 32;
const SH_ADDRALIGN: u64 = 48;
/// 64-bit, little endian.
const CLASS_AND_ORDER: [u8; 2] = [2, 1];
/// What is moved is moved by a multiple of this at least, so that all tables stay aligned.
const LEAST_ALIGNMENT: u64 = 8;
/// More than any compiler asks for in an object.
const MOST_ALIGNMENT: u64 = 1 << 16;

/// A section that is written anew.
struct Edit {
    index: u64,
    offset: u64,
    old_size: u64,
    content: Vec<u8>,
    /// How far everything behind it moves, in bytes.
    growth: u64,
}

/// `None`: the object has no device images.
pub(super) fn annotate(elf: &[u8], key: &str, value: &str) -> Result<Option<Annotated>, FormatError> {
    if elf.get(4..6) != Some(&CLASS_AND_ORDER[..]) {
        return Err(FormatError::new(4, EditError::AnnotateOtherElf));
    }
    let sections = host_object::sections(elf)?;
    let table = u64_at(elf, E_SHOFF, "the section table")?;
    let header = |index: u64| table.saturating_add(index.saturating_mul(SECTION_HEADER_SIZE));
    let mut alignment = LEAST_ALIGNMENT;
    for index in 0..sections.len() as u64 {
        let place = header(index) + SH_ADDRALIGN;
        let wanted = u64_at(elf, place, "an alignment")?;
        // Everything behind a section moves by as much: no number in a file may decide how much memory that takes.
        if wanted > MOST_ALIGNMENT || !(wanted == 0 || wanted.is_power_of_two()) {
            return Err(FormatError::new(place, EditError::Alignment(wanted)));
        }
        alignment = alignment.max(wanted);
    }
    let mut edits = Vec::new();
    let mut images = 0;
    for (index, section) in (0_u64..).zip(&sections).filter(|(_, section)| host_object::holds_device_code(section)) {
        let place = format!("section {}", String::from_utf8_lossy(section.name));
        let data = section.data(elf).map_err(|e| e.within(&place))?;
        let written = rewrite(data, key, value).map_err(|e| e.shifted(section.offset).within(&place))?;
        images += written.images;
        let growth = (written.bytes.len() as u64).saturating_sub(section.size);
        let growth = growth
            .checked_next_multiple_of(alignment)
            .ok_or_else(|| FormatError::damaged(header(index), "an impossible alignment"))?;
        edits.push(Edit { index, offset: section.offset, old_size: data.len() as u64, content: written.bytes, growth });
    }
    if images == 0 {
        return Ok(None);
    }
    edits.sort_by_key(|edit| edit.offset);
    nothing_else_is_in(&edits, &sections, table)?;
    let mut bytes = moved(elf, &edits)?;
    let shifted = |offset: u64| {
        let before = edits.iter().filter(|edit| edit.offset < offset);
        before.fold(offset, |offset, edit| offset.saturating_add(edit.growth))
    };
    let new_table = shifted(table);
    put(&mut bytes, E_SHOFF, new_table)?;
    for (index, section) in (0_u64..).zip(&sections) {
        put(&mut bytes, new_table + index * SECTION_HEADER_SIZE + SH_OFFSET, shifted(section.offset))?;
    }
    for edit in &edits {
        put(&mut bytes, new_table + edit.index * SECTION_HEADER_SIZE + SH_SIZE, edit.content.len() as u64)?;
    }
    Ok(Some(Annotated { bytes, images }))
}

/// An error where the headers or another section have bytes in common with a section that is written anew.
fn nothing_else_is_in(edits: &[Edit], sections: &[host_object::Section<'_>], table: u64) -> Result<(), FormatError> {
    let all_headers = (sections.len() as u64).saturating_mul(SECTION_HEADER_SIZE);
    let headers = [(0, FILE_HEADER_SIZE, false), (table, table.saturating_add(all_headers), false)];
    let edited: BTreeSet<u64> = edits.iter().map(|edit| edit.index).collect();
    let others = (0_u64..).zip(sections).filter(|(index, _)| !edited.contains(index));
    let others = others.filter(|(_, section)| section.in_file() > 0);
    let others = others.map(|(_, section)| (section.offset, section.offset.saturating_add(section.in_file()), false));
    let ours = edits.iter().map(|edit| (edit.offset, edit.offset.saturating_add(edit.old_size), true));
    let mut ranges: Vec<(u64, u64, bool)> = headers.into_iter().chain(others).chain(ours).collect();
    ranges.sort_unstable();
    // The largest ends so far: of anything, and of what is written anew.
    let (mut any, mut written) = (0, 0);
    for (start, end, ours) in ranges {
        if start < written || (ours && start < any) {
            return Err(FormatError::damaged(start, "sections that overlap"));
        }
        any = any.max(end);
        if ours {
            written = written.max(end);
        }
    }
    Ok(())
}

/// The file with the new contents in place, headers still as they were.
fn moved(elf: &[u8], edits: &[Edit]) -> Result<Vec<u8>, FormatError> {
    let mut bytes = Vec::with_capacity(elf.len());
    let mut at = 0;
    for edit in edits {
        let between =
            edit.offset.checked_sub(at).ok_or_else(|| FormatError::damaged(edit.offset, "sections that overlap"))?;
        bytes.extend_from_slice(slice(elf, at, between, "what lies before a section")?);
        let room = usize::try_from(edit.old_size.saturating_add(edit.growth)).unwrap_or(usize::MAX);
        bytes.extend_from_slice(&edit.content);
        bytes.extend(std::iter::repeat_n(0, room.saturating_sub(edit.content.len())));
        at = edit.offset.saturating_add(edit.old_size);
    }
    bytes.extend_from_slice(slice(elf, at, (elf.len() as u64).saturating_sub(at), "what lies behind a section")?);
    Ok(bytes)
}

fn put(bytes: &mut [u8], at: u64, number: u64) -> Result<(), FormatError> {
    let place = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at..)?.first_chunk_mut::<8>());
    let place = place.ok_or_else(|| FormatError::truncated(at, "a header"))?;
    *place = number.to_le_bytes();
    Ok(())
}
