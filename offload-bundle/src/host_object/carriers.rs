//! Finds device code in host files: the sections of ELF, PE/COFF and Mach-O objects, libraries and programs.

use goblin::mach::{Mach, MachO};
use goblin::pe::header::CoffHeader;
use object::FileKind as ObjectKind;
use object::read::coff::CoffBigFile;
use object::{Object, ObjectSection};

use super::sections;
use crate::FormatError;
use crate::bytes::{slice, u32_at};
use crate::offload_binary;

/// What a section with device code holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CarrierKind {
    /// Offload binaries: read them with [`crate::offload_binary::read_all`].
    OffloadBinaries,
    /// Fatbins that the CUDA runtime loads: read them with [`crate::fatbin::read_containers`].
    Fatbins,
    /// Fatbins of relocatable device code, which a device link comes before.
    RelocatableFatbins,
    /// HIP's bundles: read them with [`crate::hip_bundle::read_all`].
    HipBundles,
}

/// A section with device code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carrier<'a> {
    /// Its contents.
    pub kind: CarrierKind,
    /// Its name in the file. Linkers for Windows cut names to 8 bytes.
    pub section: String,
    /// Its bytes.
    pub data: &'a [u8],
    /// Where they start, in bytes from the start of the file given.
    pub offset: u64,
}

/// The sections with device code of an ELF, COFF, PE or Mach-O file, in the order of the file; none of other files.
///
/// That is mostly the order of its section table, at whose end [`crate::strip`] puts what it had to cut off a section.
///
/// # Errors
/// A damaged file; the offset is one in the file.
pub fn carriers(data: &[u8]) -> Result<Vec<Carrier<'_>>, FormatError> {
    let mut found = match ObjectKind::parse(data) {
        Ok(ObjectKind::Elf32 | ObjectKind::Elf64) => of_elf(data)?,
        Ok(ObjectKind::Coff) => of_coff(data, 0)?,
        Ok(ObjectKind::CoffBig) => of_big_coff(data)?,
        Ok(ObjectKind::Pe32 | ObjectKind::Pe64) => of_pe(data)?,
        Ok(ObjectKind::MachO32 | ObjectKind::MachO64) => of_mach(data)?,
        _ => Vec::new(),
    };
    found.sort_by_key(|carrier| carrier.offset);
    Ok(found)
}

/// The names in ELF files, those that PE files cut to 8 bytes, and those of Mach-O, which are what clang writes for macOS.
fn kind_of(name: &str) -> Option<CarrierKind> {
    match name {
        ".nv_fatbin" | ".nv_fatb" | "__nv_fatbin" => Some(CarrierKind::Fatbins),
        "__nv_relfatbin" | "__nv_rel" => Some(CarrierKind::RelocatableFatbins),
        ".hip_fatbin" | ".hip_fat" | "__hip_fatbin" => Some(CarrierKind::HipBundles),
        ".llvm.of" | "__llvm_offload" => Some(CarrierKind::OffloadBinaries),
        _ if name.starts_with(".llvm.offloading") => Some(CarrierKind::OffloadBinaries),
        _ => None,
    }
}

fn of_elf(data: &[u8]) -> Result<Vec<Carrier<'_>>, FormatError> {
    let mut found = Vec::new();
    for section in sections(data)? {
        let name = String::from_utf8_lossy(section.name);
        let kind =
            kind_of(&name).or((section.kind == super::SHT_LLVM_OFFLOADING).then_some(CarrierKind::OffloadBinaries));
        if let Some(kind) = kind {
            let bytes = section.data(data).map_err(|e| e.within(&format!("section {name}")))?;
            found.push(Carrier { kind, section: name.into_owned(), data: bytes, offset: section.offset });
        }
    }
    Ok(found)
}

/// Reads the sections by the file's header, which starts at `start`: behind a signature in a program.
fn of_coff(data: &[u8], start: u64) -> Result<Vec<Carrier<'_>>, FormatError> {
    let damaged = |e: goblin::error::Error| FormatError::parser(start, "damaged COFF header", e);
    let mut at =
        usize::try_from(start).map_err(|_| FormatError::damaged(start, "COFF header beyond the end of the data"))?;
    let header = CoffHeader::parse(data, &mut at).map_err(damaged)?;
    at = at.saturating_add(header.size_of_optional_header.into());
    let mut found = Vec::new();
    for section in header.sections(data, &mut at).map_err(damaged)? {
        let name = section.name().map_err(damaged)?;
        // Linkers also cut `.llvm.offloading` at its second dot; other sections may be called so.
        let is_cut = name == ".llvm";
        let kind = kind_of(name).or(is_cut.then_some(CarrierKind::OffloadBinaries));
        let Some(kind) = kind else { continue };
        let offset = u64::from(section.pointer_to_raw_data);
        // In a program the raw data is padded; in an object the other size is 0.
        let size = match (section.virtual_size, section.size_of_raw_data) {
            (0, raw) => raw,
            (virtual_size, raw) => raw.min(virtual_size),
        };
        let bytes = slice(data, offset, size.into(), &format!("section {name}"))?;
        if !is_cut || bytes.starts_with(&offload_binary::MAGIC) {
            found.push(Carrier { kind, section: name.to_owned(), data: bytes, offset });
        }
    }
    Ok(found)
}

/// Objects with more sections than the usual header can count, which goblin does not read.
fn of_big_coff(data: &[u8]) -> Result<Vec<Carrier<'_>>, FormatError> {
    let damaged = |e: object::read::Error| FormatError::parser(0, "damaged COFF object", e);
    let mut found = Vec::new();
    for section in CoffBigFile::<&[u8]>::parse(data).map_err(damaged)?.sections() {
        let name = section.name().map_err(damaged)?;
        if let Some(kind) = kind_of(name) {
            let offset = section.file_range().map_or(0, |(offset, _)| offset);
            found.push(Carrier { kind, section: name.to_owned(), data: section.data().map_err(damaged)?, offset });
        }
    }
    Ok(found)
}

/// Skips the DOS program in front, whose header records its end.
fn of_pe(data: &[u8]) -> Result<Vec<Carrier<'_>>, FormatError> {
    const SIGNATURE_SIZE: u64 = 4;
    let start = u32_at(data, 0x3c, "the place of the PE header")?;
    of_coff(data, u64::from(start) + SIGNATURE_SIZE)
}

fn of_mach(data: &[u8]) -> Result<Vec<Carrier<'_>>, FormatError> {
    let damaged = |e: goblin::error::Error| FormatError::parser(0, "damaged Mach-O file", e);
    match Mach::parse(data).map_err(damaged)? {
        Mach::Binary(file) => of_mach_file(data, &file),
        Mach::Fat(_) => Ok(Vec::new()),
    }
}

fn of_mach_file<'a>(data: &'a [u8], file: &MachO<'a>) -> Result<Vec<Carrier<'a>>, FormatError> {
    let damaged = |e: goblin::error::Error| FormatError::parser(0, "damaged Mach-O section table", e);
    let mut found = Vec::new();
    for segment in &file.segments {
        for section in segment.into_iter() {
            let (section, _) = section.map_err(damaged)?;
            let name = section.name().map_err(damaged)?;
            let Some(kind) = kind_of(name) else { continue };
            let offset = u64::from(section.offset);
            let bytes = slice(data, offset, section.size, &format!("section {name}"))?;
            found.push(Carrier { kind, section: name.to_owned(), data: bytes, offset });
        }
    }
    Ok(found)
}
