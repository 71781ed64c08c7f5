//! Adds sections to an ELF file, bytes to the ends of others, and replaces contents. Nothing changes its place in a table: headers, symbols and names that
//! other parts of the file refer to by number keep their numbers.

use std::collections::BTreeMap;

use super::tables::{
    E_PHOFF, E_SHNUM, E_SHOFF, FILE_HEADER_SIZE, PT_LOAD, SECTION_SIZE, SEGMENT_SIZE, SHT_NOBITS, SectionHeader, Tables,
};
use crate::bytes::{put, slice};
use crate::error::{EditError, FormatError};

/// Least unit by which parts of the file move.
const LEAST_ALIGNMENT: u64 = 16;
/// Largest supported alignment.
const MOST_ALIGNMENT: u64 = 1 << 16;
/// Section numbers from here on have other meanings.
const RESERVED_NUMBERS: usize = 0xff00;
/// `p_flags` of a segment that can be written to.
const PF_W: u32 = 2;

/// A file that is extended.
pub(crate) struct ExtendedElf<'a> {
    data: &'a [u8],
    tables: Tables,
    /// What is appended to sections, by number.
    appended: BTreeMap<usize, Vec<u8>>,
    added: Vec<Added>,
    /// Bytes in place of others, by their offsets in the file as it was.
    overwritten: Vec<(u64, Vec<u8>)>,
}

/// A new section.
struct Added {
    header: SectionHeader,
    content: Vec<u8>,
    /// The section behind whose contents it is placed.
    behind: usize,
}

/// Bytes that are put in front of an offset of the file, and by how much what is there moves.
#[derive(Default)]
struct Insertion {
    bytes: Vec<u8>,
    growth: u64,
}

impl<'a> ExtendedElf<'a> {
    /// Reads the tables.
    ///
    /// # Errors
    /// A file of another class or byte order, damaged tables, or alignments that no file needs.
    pub fn new(data: &'a [u8]) -> Result<Self, FormatError> {
        let tables = Tables::read(data)?;
        for (index, section) in tables.sections.iter().enumerate() {
            if section.align > MOST_ALIGNMENT || !(section.align == 0 || section.align.is_power_of_two()) {
                return Err(FormatError::new(tables.section_at(index), EditError::Alignment(section.align)));
            }
        }
        Ok(ExtendedElf { data, tables, appended: BTreeMap::new(), added: Vec::new(), overwritten: Vec::new() })
    }

    /// The headers of the sections that the file has already.
    pub fn headers(&self) -> &[SectionHeader] {
        &self.tables.sections
    }

    /// The number of the section that has the names of sections.
    pub fn section_names(&self) -> usize {
        self.tables.names
    }

    /// The contents of a section.
    ///
    /// # Errors
    /// They lie outside of the file.
    pub fn content(&self, number: usize) -> Result<&'a [u8], FormatError> {
        match self.tables.sections.get(number) {
            Some(header) if header.kind != SHT_NOBITS => slice(self.data, header.offset, header.size, "a section"),
            _ => Ok(&[]),
        }
    }

    /// Size of a section with what was appended to it.
    pub fn size(&self, number: usize) -> u64 {
        let own = self.tables.sections.get(number).map_or(0, |header| header.size);
        own.saturating_add(self.appended.get(&number).map_or(0, |bytes| bytes.len() as u64))
    }

    /// Appends to the contents of a section. Returns where the bytes are in it.
    pub fn append(&mut self, number: usize, bytes: &[u8]) -> u64 {
        let at = self.size(number);
        self.appended.entry(number).or_default().extend_from_slice(bytes);
        at
    }

    /// Replaces the contents of a section. Shorter contents leave zeros behind them, so that nothing moves.
    ///
    /// # Errors
    /// The headers or another section overlap the section.
    pub fn rewrite(&mut self, number: usize, content: &[u8]) -> Result<(), FormatError> {
        let Some(header) = self.tables.sections.get(number).filter(|header| header.end() > header.offset) else {
            return Ok(());
        };
        let (start, room) = (header.offset, usize::try_from(header.size).unwrap_or(usize::MAX));
        if self.is_overlapped(number, header) {
            return Err(FormatError::damaged(start, "sections that overlap"));
        }
        let (inside, behind) = content.split_at_checked(room).unwrap_or((content, &[]));
        let mut inside = inside.to_vec();
        if behind.is_empty() {
            inside.resize(slice(self.data, start, room as u64, "a section")?.len(), 0);
            self.change(number, |header| header.size = content.len() as u64);
        } else {
            self.append(number, behind);
        }
        self.overwritten.push((start, inside));
        Ok(())
    }

    /// Whether the headers or another section have bytes of a section.
    fn is_overlapped(&self, number: usize, section: &SectionHeader) -> bool {
        let sections = &self.tables.sections;
        let others =
            sections.iter().enumerate().filter(|(index, other)| *index != number && other.end() > other.offset);
        let headers = [(0, FILE_HEADER_SIZE), (self.tables.sections_at, self.tables.section_at(sections.len()))];
        let mut ranges = others.map(|(_, other)| (other.offset, other.end())).chain(headers);
        ranges.any(|(start, end)| start < section.end() && section.offset < end)
    }

    /// The number that the next new section gets.
    pub fn next_number(&self) -> usize {
        self.tables.sections.len() + self.added.len()
    }

    /// Adds a section behind the contents of another one. Its header has everything but the offset and the size of contents.
    pub fn add(&mut self, header: SectionHeader, content: Vec<u8>, behind: usize) {
        let size = if header.kind == SHT_NOBITS { header.size } else { content.len() as u64 };
        self.added.push(Added { header: SectionHeader { size, ..header }, content, behind });
    }

    /// Changes the header of a section that the file has already.
    pub fn change(&mut self, number: usize, change: impl FnOnce(&mut SectionHeader)) {
        if let Some(header) = self.tables.sections.get_mut(number) {
            change(header);
        }
    }

    /// The extended file.
    ///
    /// # Errors
    /// More sections than section numbers, or a layout in which nothing can be inserted.
    pub fn finish(mut self) -> Result<Vec<u8>, FormatError> {
        let count = self.next_number();
        if count >= RESERVED_NUMBERS && !self.added.is_empty() {
            return Err(FormatError::unsupported(E_SHNUM, format!("{count} sections, more than section numbers")));
        }
        let insertions = self.insertions()?;
        let shifted = |offset: u64| {
            let before = insertions.range(..=offset);
            before.fold(offset, |offset, (_, insertion)| offset.saturating_add(insertion.growth))
        };
        let mut file = Vec::with_capacity(self.data.len());
        let mut from = 0;
        for (at, insertion) in &insertions {
            file.extend_from_slice(slice(self.data, from, at - from, "what lies before a section")?);
            file.extend_from_slice(&insertion.bytes);
            file.resize(file.len() + (insertion.growth as usize).saturating_sub(insertion.bytes.len()), 0);
            from = *at;
        }
        file.extend_from_slice(slice(self.data, from, self.data.len() as u64 - from, "what lies behind a section")?);
        for (at, bytes) in &self.overwritten {
            put(&mut file, shifted(*at), bytes);
        }
        for header in &mut self.tables.sections {
            header.offset = shifted(header.offset);
        }
        let added: Vec<SectionHeader> = self.added.iter().map(|added| added.header).collect();
        let memory: u64 = added.iter().filter(|header| header.kind == SHT_NOBITS).fold(0_u64, |sum, header| {
            sum.saturating_add(header.size.checked_next_multiple_of(header.align.max(1)).unwrap_or(u64::MAX))
        });
        self.put_headers(&mut file, shifted(self.tables.sections_at), &added);
        self.put_segments(&mut file, shifted, memory);
        Ok(file)
    }

    /// What is inserted where, and the offsets of the new sections.
    fn insertions(&mut self) -> Result<BTreeMap<u64, Insertion>, FormatError> {
        let alignment = self.tables.sections.iter().map(|header| header.align).fold(LEAST_ALIGNMENT, u64::max);
        let damaged = |at: u64| FormatError::damaged(at, "sections of an impossible size");
        let mut insertions: BTreeMap<u64, Insertion> = BTreeMap::new();
        for (number, bytes) in &self.appended {
            let Some(header) = self.tables.sections.get_mut(*number) else { continue };
            let end = header.end();
            let insertion = insertions.entry(end).or_default();
            if header.kind == SHT_NOBITS
                || header.size == 0
                || !insertion.bytes.is_empty()
                || end > self.data.len() as u64
            {
                return Err(damaged(end));
            }
            insertion.bytes.extend_from_slice(bytes);
        }
        for (number, bytes) in &self.appended {
            if let Some(header) = self.tables.sections.get_mut(*number) {
                header.size = header.size.saturating_add(bytes.len() as u64);
            }
        }
        let ends: Vec<u64> = self.added.iter().map(|added| self.end_of_old(added.behind)).collect();
        // Relative to the place of the insertion, until it is known how far that moves.
        let mut places = Vec::with_capacity(self.added.len());
        for (added, end) in self.added.iter().zip(&ends) {
            if *end > self.data.len() as u64 {
                return Err(damaged(*end));
            }
            let insertion = insertions.entry(*end).or_default();
            if added.header.kind != SHT_NOBITS {
                let start = (end + insertion.bytes.len() as u64).next_multiple_of(added.header.align.max(1)) - end;
                insertion.bytes.resize(start as usize, 0);
            }
            places.push(insertion.bytes.len() as u64);
            insertion.bytes.extend_from_slice(&added.content);
        }
        let headers = (self.added.len() as u64).saturating_mul(SECTION_SIZE);
        let table_end = self.tables.section_at(self.tables.sections.len());
        if insertions.get(&table_end).is_some_and(|insertion| !insertion.bytes.is_empty()) {
            return Err(damaged(table_end));
        }
        insertions.entry(table_end).or_default().bytes.resize(headers as usize, 0);
        let mut moved = 0;
        let mut starts = BTreeMap::new();
        for (at, insertion) in &mut insertions {
            starts.insert(*at, at + moved);
            insertion.growth = (insertion.bytes.len() as u64).next_multiple_of(alignment);
            moved += insertion.growth;
        }
        for ((added, end), place) in self.added.iter_mut().zip(ends).zip(places) {
            added.header.offset = starts.get(&end).copied().unwrap_or_default() + place;
        }
        Ok(insertions)
    }

    /// Where the contents of a section end in the file as it was.
    fn end_of_old(&self, number: usize) -> u64 {
        let Some(header) = self.tables.sections.get(number) else { return 0 };
        header.end() - self.appended.get(&number).map_or(0, |bytes| bytes.len() as u64)
    }

    fn put_headers(&self, file: &mut [u8], table: u64, added: &[SectionHeader]) {
        for (index, header) in (0_u64..).zip(self.tables.sections.iter().chain(added)) {
            put(file, table + index * SECTION_SIZE, &header.bytes());
        }
        put(file, E_SHOFF, &table.to_le_bytes());
        if !added.is_empty() {
            put(file, E_SHNUM, &(self.next_number() as u16).to_le_bytes());
        }
    }

    /// `memory`: size of the new sections without contents.
    fn put_segments(&self, file: &mut [u8], shifted: impl Fn(u64) -> u64, memory: u64) {
        if self.tables.segments.is_empty() {
            return;
        }
        let table = shifted(self.tables.segments_at);
        put(file, E_PHOFF, &table.to_le_bytes());
        for (index, segment) in (0_u64..).zip(&self.tables.segments) {
            let mut segment = *segment;
            let end = segment.offset.saturating_add(segment.file_size);
            let offset = shifted(segment.offset);
            // What is inserted at its end belongs to it; an empty one only moves.
            let size = if segment.file_size == 0 { 0 } else { shifted(end).saturating_sub(offset) };
            let grown = size.saturating_sub(segment.file_size);
            segment.memory_size = segment.memory_size.saturating_add(grown);
            if segment.kind == PT_LOAD && segment.flags & PF_W != 0 {
                segment.memory_size = segment.memory_size.saturating_add(memory);
            }
            (segment.offset, segment.file_size) = (offset, size);
            put(file, table + index * SEGMENT_SIZE, &segment.bytes());
        }
    }
}
