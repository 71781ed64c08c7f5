//! The sections of ELF files.

use std::ops::Range;

use object::elf::{FileHeader64, SHF_COMPRESSED, SHT_NOBITS};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, FileKind as ObjectKind};

use crate::FormatError;
use crate::bytes::slice;

/// One section of an ELF file, by its header alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section<'a> {
    /// Its index in the table of sections.
    pub(crate) index: usize,
    pub(crate) name: &'a [u8],
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl Section<'_> {
    /// The bytes of a section with device code. Nothing else than debug information is compressed by the section.
    pub(crate) fn device_code<'a>(&self, elf: &'a [u8]) -> Result<&'a [u8], FormatError> {
        if self.flags & SHF_COMPRESSED.0 != 0 {
            let what = "a section that objcopy or a linker has compressed (SHF_COMPRESSED)";
            return Err(FormatError::unsupported(self.offset, what));
        }
        self.data(elf)
    }

    /// The section's bytes; empty if it has none in the file.
    pub(crate) fn data<'a>(&self, elf: &'a [u8]) -> Result<&'a [u8], FormatError> {
        slice(elf, if self.in_file() == 0 { 0 } else { self.offset }, self.in_file(), "its body")
    }

    /// Number of bytes that it takes in the file.
    pub(crate) fn in_file(&self) -> u64 {
        if self.kind == SHT_NOBITS.0 { 0 } else { self.size }
    }
}

/// The sections of an ELF file of any class and byte order.
pub(crate) fn sections(elf: &[u8]) -> Result<Vec<Section<'_>>, FormatError> {
    match ObjectKind::parse(elf) {
        Ok(ObjectKind::Elf32) => sections_of::<object::elf::FileHeader32<Endianness>>(elf),
        Ok(ObjectKind::Elf64) => sections_of::<object::elf::FileHeader64<Endianness>>(elf),
        _ => Err(FormatError::wrong_format(0, "not an ELF file")),
    }
}

fn sections_of<H: FileHeader<Endian = Endianness>>(elf: &[u8]) -> Result<Vec<Section<'_>>, FormatError> {
    let header = H::parse(elf).map_err(|e| FormatError::parser(0, "damaged ELF header", e))?;
    let endian = header.endian().map_err(|e| FormatError::parser(0, "damaged ELF header", e))?;
    let table = header.e_shoff(endian).into();
    let damaged = |e: object::Error| FormatError::parser(table, "damaged ELF section table", e);
    let headers = header.section_headers(endian, elf).map_err(damaged)?;
    let names = header.section_strings(endian, elf, headers).map_err(damaged)?;
    let mut sections = Vec::with_capacity(headers.len());
    for (index, section) in headers.iter().enumerate() {
        sections.push(Section {
            index,
            name: section.name(endian, names).map_err(damaged)?,
            kind: section.sh_type(endian).0,
            flags: section.sh_flags(endian).0,
            address: section.sh_addr(endian).into(),
            offset: section.sh_offset(endian).into(),
            size: section.sh_size(endian).into(),
        });
    }
    Ok(sections)
}

/// Whether a section of an ELF file has this type. False for a file whose table of sections cannot be found.
pub(crate) fn has_kind(elf: &[u8], kind: u32) -> bool {
    match ObjectKind::parse(elf) {
        Ok(ObjectKind::Elf32) => has_kind_in::<object::elf::FileHeader32<Endianness>>(elf, kind),
        Ok(ObjectKind::Elf64) => has_kind_in::<object::elf::FileHeader64<Endianness>>(elf, kind),
        _ => false,
    }
}

fn has_kind_in<H: FileHeader<Endian = Endianness>>(elf: &[u8], kind: u32) -> bool {
    let headers = || {
        let header = H::parse(elf).ok()?;
        let endian = header.endian().ok()?;
        Some((header.section_headers(endian, elf).ok()?, endian))
    };
    headers().is_some_and(|(headers, endian)| headers.iter().any(|section| section.sh_type(endian).0 == kind))
}

/// Checks that the tables and sections of an ELF file are all inside of it: a file that was cut off lacks its end.
///
/// # Errors
/// What is outside, or why the data is no ELF file.
pub fn require_whole(elf: &[u8]) -> Result<(), FormatError> {
    sections(elf)?.iter().try_for_each(|section| section.data(elf).map(drop))
}

/// Where the sections of a 64-bit ELF file are that can be left out, and everything else.
#[derive(Debug)]
pub(crate) struct ElfParts {
    /// The table of sections.
    pub(crate) table: Range<u64>,
    left_out: Vec<Range<u64>>,
    others: Vec<Range<u64>>,
}

impl ElfParts {
    /// The header and its tables. `None` if it does not say how large they are.
    pub(crate) fn of_header(header: &FileHeader64<Endianness>, endian: Endianness) -> Option<Self> {
        let table = |at: u64, count: u16, size: u16| range(at, u64::from(count) * u64::from(size));
        let sections = table(header.e_shoff(endian), header.e_shnum(endian), header.e_shentsize(endian))?;
        let segments = table(header.e_phoff(endian), header.e_phnum(endian), header.e_phentsize(endian))?;
        let own = 0..size_of::<FileHeader64<Endianness>>() as u64;
        Some(Self { table: sections.clone(), left_out: Vec::new(), others: vec![own, sections, segments] })
    }

    /// A section, and whether it can be left out. `None` if it reaches beyond any file.
    pub(crate) fn add(&mut self, offset: u64, size: u64, is_left_out: bool) -> Option<()> {
        let parts = if is_left_out { &mut self.left_out } else { &mut self.others };
        parts.push(range(offset, size)?);
        Some(())
    }

    /// What can be left out, in order. `None` if something overlaps it, which would be lost with it. (Other sections do overlap: ptxas has
    /// two names for one.)
    pub(crate) fn apart(self) -> Option<Vec<Range<u64>>> {
        let left_out = self.left_out.into_iter().map(|range| (range, true));
        let parts = left_out.chain(self.others.into_iter().map(|range| (range, false)));
        let mut all: Vec<(Range<u64>, bool)> = parts.filter(|(range, _)| !range.is_empty()).collect();
        all.sort_by_key(|(range, _)| range.start);
        let (mut end, mut end_of_left_out) = (0, 0);
        for (range, is_left_out) in &all {
            if range.start < if *is_left_out { end } else { end_of_left_out } {
                return None;
            }
            end = range.end.max(end);
            end_of_left_out = if *is_left_out { range.end } else { end_of_left_out };
        }
        Some(all.into_iter().filter(|(_, is_left_out)| *is_left_out).map(|(range, _)| range).collect())
    }
}

fn range(start: u64, size: u64) -> Option<Range<u64>> {
    Some(start..start.checked_add(size)?)
}

/// The parts of `size` bytes that are in none of these ranges, which are in order; all of them, if a range reaches beyond.
pub(crate) fn between(ranges: &[Range<u64>], size: u64) -> Vec<Range<u64>> {
    let ranges = if ranges.last().is_some_and(|last| last.end > size) { &[] } else { ranges };
    let starts = std::iter::once(0).chain(ranges.iter().map(|range| range.end));
    let ends = ranges.iter().map(|range| range.start).chain([size]);
    starts.zip(ends).filter(|(start, end)| start < end).map(|(start, end)| start..end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_cut_off_is_not_whole() {
        let code = crate::samples::amd_code(40, &[0; 16]);
        assert_eq!(require_whole(&code), Ok(()));
        for end in 0..code.len() {
            assert!(require_whole(&code[..end]).is_err(), "{end} of {}", code.len());
        }
    }
}
