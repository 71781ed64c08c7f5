//! Finds device code in host files: the sections of ELF, PE/COFF and Mach-O objects, libraries and programs.

use object::{File, FileKind as ObjectKind, Object, ObjectSection};

use super::sections;
use crate::FormatError;
use crate::bytes::slice;
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
        Ok(
            ObjectKind::Coff
            | ObjectKind::CoffBig
            | ObjectKind::Pe32
            | ObjectKind::Pe64
            | ObjectKind::MachO32
            | ObjectKind::MachO64,
        ) => of_other(data)?,
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
            let bytes = section.device_code(data).map_err(|e| e.within(&format!("section {name}")))?;
            found.push(Carrier { kind, section: name.into_owned(), data: bytes, offset: section.offset });
        }
    }
    Ok(found)
}

/// The sections of a COFF, PE or Mach-O file.
fn of_other(data: &[u8]) -> Result<Vec<Carrier<'_>>, FormatError> {
    let damaged = |e: object::Error| FormatError::parser(0, "damaged object or program", e);
    let mut found = Vec::new();
    for section in File::parse(data).map_err(damaged)?.sections() {
        // What is no text is no name of these.
        let Ok(name) = section.name() else { continue };
        // Linkers for Windows also cut `.llvm.offloading` at its second dot; other sections may be called so.
        let is_cut = name == ".llvm";
        let Some(kind) = kind_of(name).or(is_cut.then_some(CarrierKind::OffloadBinaries)) else { continue };
        let (offset, size) = section.file_range().unwrap_or_default();
        let bytes = slice(data, offset, size, &format!("section {name}"))?;
        if !is_cut || bytes.starts_with(&offload_binary::MAGIC) {
            found.push(Carrier { kind, section: name.to_owned(), data: bytes, offset });
        }
    }
    Ok(found)
}
