//! The file header, program headers and section headers of a 64-bit little-endian ELF file, which can be changed and written back.

use crate::bytes::{slice, u16_at, u32_at, u64_at};
use crate::error::{EditError, FormatError};

pub(super) const PT_LOAD: u32 = 1;
pub(super) const PT_INTERP: u32 = 3;
pub(super) const PT_PHDR: u32 = 6;
pub(super) const SHT_SYMTAB: u32 = 2;
pub(super) const SHT_NOTE: u32 = 7;
pub(super) const SHT_NOBITS: u32 = 8;
pub(super) const SHT_DYNSYM: u32 = 11;
pub(super) const SEGMENT_SIZE: u64 = 56;
pub(super) const SECTION_SIZE: u64 = 64;
const SYMBOL_SIZE: u64 = 24;
pub(super) const FILE_HEADER_SIZE: u64 = 64;
pub(super) const SHT_PROGBITS: u32 = 1;
/// Places in the file header.
pub(super) const E_PHOFF: u64 = 32;
pub(super) const E_SHOFF: u64 = 40;
pub(super) const E_PHNUM: u64 = 56;
pub(super) const E_SHNUM: u64 = 60;
/// Places in a section header.
pub(super) const SH_NAME: u64 = 0;
pub(super) const SH_TYPE: u64 = 4;
pub(super) const SH_FLAGS: u64 = 8;
pub(super) const SH_OFFSET: u64 = 24;
pub(super) const SH_SIZE: u64 = 32;
/// The size in a symbol.
pub(super) const ST_SIZE: u64 = 16;

/// A program header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub address: u64,
    pub physical: u64,
    pub file_size: u64,
    pub memory_size: u64,
    pub align: u64,
}

impl Segment {
    fn read(data: &[u8], at: u64) -> Result<Self, FormatError> {
        let what = "a program header";
        let number = |field: u64| u64_at(data, at.saturating_add(field), what);
        Ok(Self {
            kind: u32_at(data, at, what)?,
            flags: u32_at(data, at.saturating_add(4), what)?,
            offset: number(8)?,
            address: number(16)?,
            physical: number(24)?,
            file_size: number(32)?,
            memory_size: number(40)?,
            align: number(48)?,
        })
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = [self.kind.to_le_bytes(), self.flags.to_le_bytes()].concat();
        for number in [self.offset, self.address, self.physical, self.file_size, self.memory_size, self.align] {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }

    /// Whether it loads these bytes of the file.
    pub fn holds(&self, from: u64, to: u64) -> bool {
        self.kind == PT_LOAD && self.offset <= from && to <= self.offset.saturating_add(self.file_size)
    }

    /// The address of a byte of the file that it loads.
    pub fn address_of(&self, offset: u64) -> u64 {
        self.address.wrapping_add(offset.wrapping_sub(self.offset))
    }
}

/// A section header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SectionHeader {
    pub name: u32,
    pub kind: u32,
    pub flags: u64,
    pub address: u64,
    pub offset: u64,
    pub size: u64,
    pub link: u32,
    pub info: u32,
    pub align: u64,
    pub entry_size: u64,
}

impl SectionHeader {
    fn read(data: &[u8], at: u64) -> Result<Self, FormatError> {
        let what = "a section header";
        let number = |field: u64| u64_at(data, at.saturating_add(field), what);
        let small = |field: u64| u32_at(data, at.saturating_add(field), what);
        Ok(Self {
            name: small(0)?,
            kind: small(4)?,
            flags: number(8)?,
            address: number(16)?,
            offset: number(24)?,
            size: number(32)?,
            link: small(40)?,
            info: small(44)?,
            align: number(48)?,
            entry_size: number(56)?,
        })
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = [self.name.to_le_bytes(), self.kind.to_le_bytes()].concat();
        for number in [self.flags, self.address, self.offset, self.size] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([self.link.to_le_bytes(), self.info.to_le_bytes()].concat());
        for number in [self.align, self.entry_size] {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }

    /// Offsets in the file of the symbols of a symbol table.
    pub fn symbols(&self) -> impl Iterator<Item = u64> + use<> {
        let start = self.offset;
        (0..self.size / SYMBOL_SIZE).map(move |index| start.saturating_add(index * SYMBOL_SIZE))
    }

    /// Offset in the file at which its bytes end.
    pub fn end(&self) -> u64 {
        if self.kind == SHT_NOBITS { self.offset } else { self.offset.saturating_add(self.size) }
    }
}

/// All headers of a file.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    pub is_object: bool,
    /// Whether it is a program with a fixed address.
    pub is_fixed: bool,
    /// `e_machine`.
    pub machine: u64,
    /// Offset of the program headers in the file.
    pub segments_at: u64,
    pub segments: Vec<Segment>,
    /// Offset of the section headers in the file.
    pub sections_at: u64,
    pub sections: Vec<SectionHeader>,
    /// The section with the names of the sections.
    pub names: usize,
}

impl Tables {
    /// Reads the tables.
    ///
    /// # Errors
    /// A file of another class or byte order, or tables that lie outside.
    pub fn read(data: &[u8]) -> Result<Self, FormatError> {
        if !is_supported(data) {
            return Err(FormatError::new(4, EditError::OtherElf));
        }
        let half = |at: u64| u16_at(data, at, "the ELF header").map(u64::from);
        let (segments_at, sections_at) =
            (u64_at(data, E_PHOFF, "the ELF header")?, u64_at(data, E_SHOFF, "the ELF header")?);
        let (segment_count, mut section_count) = (half(E_PHNUM)?, half(E_SHNUM)?);
        if segment_count == 0xffff || (segment_count > 0 && half(54)? != SEGMENT_SIZE) || half(58)? != SECTION_SIZE {
            return Err(FormatError::unsupported(54, "ELF file with headers of an unknown size or number"));
        }
        if section_count == 0 {
            // More than the field can count: the first section header counts them.
            section_count = u64_at(data, sections_at.saturating_add(32), "the first section header")?;
        }
        let names = match half(62)? {
            // More sections than the field can count: the first section header names it.
            0xffff => u32_at(data, sections_at.saturating_add(40), "the first section header")? as usize,
            index => index as usize,
        };
        let segments = slice(data, segments_at, segment_count.saturating_mul(SEGMENT_SIZE), "the program headers")?;
        let sections = slice(data, sections_at, section_count.saturating_mul(SECTION_SIZE), "the section headers")?;
        Ok(Self {
            is_object: half(16)? == 1,
            is_fixed: half(16)? == 2,
            machine: half(18)?,
            segments_at,
            segments: (0..segment_count)
                .map(|i| Segment::read(segments, i * SEGMENT_SIZE))
                .collect::<Result<_, _>>()?,
            sections_at,
            sections: (0..section_count)
                .map(|i| SectionHeader::read(sections, i * SECTION_SIZE))
                .collect::<Result<_, _>>()?,
            names,
        })
    }

    /// Where the header of a section is in the file.
    pub fn section_at(&self, index: usize) -> u64 {
        self.sections_at.saturating_add((index as u64).saturating_mul(SECTION_SIZE))
    }
}

/// Whether a file has the class and byte order whose tables are known here.
pub(super) fn is_supported(data: &[u8]) -> bool {
    const CLASS_64: u8 = 2;
    const LITTLE_ENDIAN: u8 = 1;
    data.get(4..6) == Some(&[CLASS_64, LITTLE_ENDIAN])
}
