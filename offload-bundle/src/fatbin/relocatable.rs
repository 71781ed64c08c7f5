//! The relocatable PTX of host objects that nvcc compiled with `-rdc=true`.

use super::encode::{Description, WrittenEntry, encode_stored};
use super::read::{self, read};
use super::{EntryKind, FatbinEntry, FatbinError, Validation, recompress};
use crate::arch::GpuArch;
use crate::elf_sections;

/// An entry of such an object under its new name.
pub(super) struct RelocatableEntry<'a> {
    /// The name of the object's module, and the target: there may be one of each.
    pub(super) key: (Vec<u8>, GpuArch),
    pub(super) written: WrittenEntry<'a>,
}

impl RelocatableEntry<'_> {
    /// The same without the object that it came from.
    pub(super) fn into_owned(self) -> RelocatableEntry<'static> {
        let WrittenEntry { header, payload } = self.written;
        RelocatableEntry { key: self.key, written: WrittenEntry { header, payload: payload.into_owned().into() } }
    }
}

/// Reads the PTX in an object's section `__nv_relfatbin`, named after its section `__nv_module_id`.
pub(super) fn entries(object: &[u8], validation: Validation) -> Result<Vec<RelocatableEntry<'_>>, FatbinError> {
    // nvFatbin's limits: less than the identification of an ELF file is nothing.
    if object.len() < 16 {
        return Err(FatbinError::EmptyInput);
    }
    let sections = elf_sections::sections(object).map_err(FatbinError::Internal)?;
    let data = |name: &[u8]| {
        let section = sections.iter().find(|section| section.name == name);
        section.map(|section| section.data(object).map(|data| (section.offset, data))).transpose()
    };
    let fatbins = data(b"__nv_relfatbin").map_err(FatbinError::Internal)?;
    let module = data(b"__nv_module_id").map_err(FatbinError::Internal)?;
    let mut found = Vec::new();
    if let (Some((offset, fatbins)), Some((_, module))) = (fatbins, module) {
        let module = module.split(|&byte| byte == 0).next().unwrap_or_default();
        let read = read(fatbins).map_err(|error| FatbinError::Internal(error.shifted(offset)))?;
        for entry in read.iter().filter(|entry| entry.kind == EntryKind::Ptx) {
            found.push(renamed(entry, module)?);
        }
    }
    if found.is_empty() && validation == Validation::Strict {
        return Err(FatbinError::MissingFatbin);
    }
    Ok(found)
}

fn renamed<'a>(entry: &FatbinEntry<'a>, module: &[u8]) -> Result<RelocatableEntry<'a>, FatbinError> {
    let alone = recompress::alone(entry).map_err(FatbinError::Internal)?;
    let own = read::entry(&alone.header, &alone.payload, entry.offset).map_err(FatbinError::Internal)?;
    let options = entry.options.unwrap_or_default();
    let description = Description {
        flags: own.flags,
        ..Description::of_code(EntryKind::RelocatablePtx, entry.arch, entry.code_version, module, options)
    };
    let (compression, size) = (own.compression, own.uncompressed_size);
    let written = encode_stored(&description, alone.payload, compression, size)?;
    Ok(RelocatableEntry { key: (module.to_vec(), entry.arch), written })
}
