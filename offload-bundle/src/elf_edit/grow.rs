//! Enlarges sections of an object and moves what lies behind them.

use std::collections::BTreeSet;

use super::tables::{self, E_SHOFF, FILE_HEADER_SIZE, SECTION_SIZE, SH_ADDRESS_ALIGNMENT, SH_OFFSET, SH_SIZE};
use crate::bytes::{put, slice, u64_at};
use crate::elf_sections::{self, Section};
use crate::error::{EditError, FormatError};

/// Least unit by which parts of the file move, so that all tables stay aligned.
const LEAST_ALIGNMENT: u64 = 8;
/// Largest supported alignment, more than any compiler writes into an object.
const MOST_ALIGNMENT: u64 = 1 << 16;

/// A section with new contents.
struct Edit {
    index: u64,
    offset: u64,
    old_size: u64,
    content: Vec<u8>,
    /// Number of bytes by which everything behind it moves.
    growth: u64,
}

/// An object whose sections get new, possibly larger contents.
pub(crate) struct GrowingObject<'a> {
    object: &'a [u8],
    /// Offset of the section headers.
    table: u64,
    /// The largest alignment of a section.
    alignment: u64,
    sections: Vec<Section<'a>>,
    edits: Vec<Edit>,
}

impl<'a> GrowingObject<'a> {
    /// Reads the section headers.
    ///
    /// # Errors
    /// A file of another class or byte order, damaged headers, or a section that cannot be moved.
    pub fn new(object: &'a [u8]) -> Result<Self, FormatError> {
        if !tables::is_supported(object) {
            return Err(FormatError::new(4, EditError::OtherElf));
        }
        let sections = elf_sections::sections(object)?;
        let table = u64_at(object, E_SHOFF, "the section table")?;
        let mut growing = Self { object, table, alignment: LEAST_ALIGNMENT, sections, edits: Vec::new() };
        for index in 0..growing.sections.len() as u64 {
            let place = growing.header(index) + SH_ADDRESS_ALIGNMENT;
            let wanted = u64_at(object, place, "an alignment")?;
            // Everything behind a section moves by a multiple of the alignment, so the file must not be able to choose it freely.
            if wanted > MOST_ALIGNMENT || !(wanted == 0 || wanted.is_power_of_two()) {
                return Err(FormatError::new(place, EditError::Alignment(wanted)));
            }
            growing.alignment = growing.alignment.max(wanted);
        }
        Ok(growing)
    }

    /// The sections by number.
    pub fn sections(&self) -> &[Section<'a>] {
        &self.sections
    }

    /// Replaces the contents of the section with this number.
    ///
    /// # Errors
    /// Contents of an impossible size.
    pub fn replace(&mut self, number: usize, content: Vec<u8>) -> Result<(), FormatError> {
        let index = number as u64;
        let Some(section) = self.sections.get(number) else { return Ok(()) };
        let growth = (content.len() as u64).saturating_sub(section.size);
        let growth = growth
            .checked_next_multiple_of(self.alignment)
            .ok_or_else(|| FormatError::damaged(self.header(index), "an impossible alignment"))?;
        self.edits.push(Edit { index, offset: section.offset, old_size: section.in_file(), content, growth });
        Ok(())
    }

    /// The object with the new contents.
    ///
    /// # Errors
    /// Sections that overlap.
    pub fn finish(mut self) -> Result<Vec<u8>, FormatError> {
        let (sections, table) = (&self.sections, self.table);
        self.edits.sort_by_key(|edit| edit.offset);
        nothing_else_is_in(&self.edits, sections, table)?;
        let mut bytes = moved(self.object, &self.edits)?;
        let shifted = |offset: u64| {
            let before = self.edits.iter().filter(|edit| edit.offset < offset);
            before.fold(offset, |offset, edit| offset.saturating_add(edit.growth))
        };
        let new_table = shifted(table);
        put(&mut bytes, E_SHOFF, &new_table.to_le_bytes());
        for (index, section) in (0_u64..).zip(sections) {
            put(&mut bytes, new_table + index * SECTION_SIZE + SH_OFFSET, &shifted(section.offset).to_le_bytes());
        }
        for edit in &self.edits {
            let size = edit.content.len() as u64;
            put(&mut bytes, new_table + edit.index * SECTION_SIZE + SH_SIZE, &size.to_le_bytes());
        }
        Ok(bytes)
    }

    /// Where the header of a section is.
    fn header(&self, index: u64) -> u64 {
        self.table.saturating_add(index.saturating_mul(SECTION_SIZE))
    }
}

/// Rejects an object in which the headers or another section overlap a replaced section.
fn nothing_else_is_in(edits: &[Edit], sections: &[Section<'_>], table: u64) -> Result<(), FormatError> {
    let all_headers = (sections.len() as u64).saturating_mul(SECTION_SIZE);
    let headers = [(0, FILE_HEADER_SIZE, false), (table, table.saturating_add(all_headers), false)];
    let edited: BTreeSet<u64> = edits.iter().map(|edit| edit.index).collect();
    let others = (0_u64..).zip(sections).filter(|(index, _)| !edited.contains(index));
    let others = others.filter(|(_, section)| section.in_file() > 0);
    let others = others.map(|(_, section)| (section.offset, section.offset.saturating_add(section.in_file()), false));
    let ours = edits.iter().map(|edit| (edit.offset, edit.offset.saturating_add(edit.old_size), true));
    let mut ranges: Vec<(u64, u64, bool)> = headers.into_iter().chain(others).chain(ours).collect();
    ranges.sort_unstable();
    // The largest ends so far: of any range, and of replaced sections.
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

/// The file with the new contents in place, and the headers unchanged.
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
