//! The sections of ELF files.

use object::elf::SHT_NOBITS;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, FileKind as ObjectKind};

use crate::FormatError;
use crate::bytes::slice;

/// One section of an ELF file, by its header alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) kind: u32,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl Section<'_> {
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
    for section in headers {
        sections.push(Section {
            name: section.name(endian, names).map_err(damaged)?,
            kind: section.sh_type(endian).0,
            offset: section.sh_offset(endian).into(),
            size: section.sh_size(endian).into(),
        });
    }
    Ok(sections)
}
