//! Finishes the output of `ld -r`.
//!
//! If it is a final link for device code, its offload entries are moved to a section with a name of its own, so that its registration
//! code finds only these, and its device images are removed, so that no later link links them again. If its device code is merged, the
//! merged code takes the place of the images, and a later link registers the entries.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use md5::{Digest, Md5};
use object::{SectionFlags, SectionKind, elf};
use offload_bundle::elf_edit::ObjectPatch;
use offload_bundle::host_object::{ENTRY_SECTIONS, SECTIONS_OF_COMPILERS, StubAlias, host_symbols};
use offload_bundle::{FormatError, kept_results};

use crate::diag::error::Errors;
use crate::host::error::Error;
use crate::host::linker_kind::LinkerKind;
use crate::host::registration_object;
use crate::sys;
use crate::sys::temp_files;

const IMAGES: &[u8] = b".llvm.offloading";
/// Of offload binaries and of kept results.
const ALIGNMENT: u64 = 16;

/// The section that linkers copy the merged code in, where it is not mixed up with the images that it replaces.
const MERGED: &str = ".llvm.offloading.merged";
/// The same for the kept results.
const MERGED_RESULTS: &str = ".fatlink.results.merged";
/// `sh_type` of sections of device images.
const SHT_LLVM_OFFLOADING: elf::SectionType = elf::SectionType(0x6fff_4c0b);
/// `SHF_EXCLUDE`: linkers leave the section out of programs, and keep it in relocatable links.
const SHF_EXCLUDE: elf::SectionFlags = elf::SectionFlags(0x8000_0000);

/// The device code of a relocatable link that later links take.
pub struct MergedCode {
    /// Offload binaries, one after the other.
    pub binaries: Vec<u8>,
    /// The contents of the section of kept results; empty without any.
    pub results: Vec<u8>,
}

/// Writes an object with the merged code for the host linker, like one of its inputs or for a host triple.
///
/// # Errors
/// A host triple of an unknown machine, or those of the file system.
pub fn write_merged(code: MergedCode, path: &Path, like: Option<&[u8]>, triple: &str) -> Result<(), Errors> {
    let mut object = registration_object::empty(like, triple)?;
    let sections = [(MERGED, SHT_LLVM_OFFLOADING, code.binaries), (MERGED_RESULTS, elf::SHT_PROGBITS, code.results)];
    for (name, kind, content) in sections.into_iter().filter(|(_, _, content)| !content.is_empty()) {
        let id = object.add_section(Vec::new(), name.as_bytes().to_vec(), SectionKind::Unknown);
        let section = object.section_mut(id);
        section.set_data(content, ALIGNMENT);
        section.flags = SectionFlags::Elf { sh_type: kind, sh_flags: SHF_EXCLUDE };
    }
    // Without it, GNU ld makes the stack of the program executable.
    object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Metadata);
    let written = object.write().map_err(io::Error::other);
    let written = written.and_then(|bytes| std::fs::write(path, bytes));
    written.map_err(|source| sys::error::Error::Write { path: path.to_owned(), source }.into())
}

/// Arguments with which a linker does not join the sections of the merged units: what a program reaches in one of them would be all of them
/// (`--offload-gc=host`). Sections whose names users choose may be tables, which linkers join. Only GNU ld has such an option for sections
/// by name.
pub fn keeping_units_apart(kind: LinkerKind) -> Vec<OsString> {
    let names = if kind == LinkerKind::Gnu { &SECTIONS_OF_COMPILERS[..] } else { &[] };
    names.iter().map(|name| format!("--unique={name}").into()).collect()
}

/// Edits the output `raw` of a linker that read the merged code: the merged code takes the place of the images, and the result goes to
/// `output`.
///
/// # Errors
/// The linker's output is not an ELF object, the linker dropped the merged code, or the disk is full.
pub fn seal_merged(raw: &Path, output: &Path, linker: &Path) -> Result<(), Errors> {
    let cannot = |error: &dyn std::fmt::Display| Error::Seal { output: output.to_owned(), reason: error.to_string() };
    let bytes = std::fs::read(raw).map_err(|error| cannot(&error))?;
    let mut patch = ObjectPatch::new(&bytes).map_err(|error| cannot(&error))?;
    if !patch.has_section(MERGED.as_bytes()).map_err(|error| cannot(&error))? {
        return Err(Error::MergedCodeDropped { linker: linker.to_owned() }.into());
    }
    let replace = |patch: &mut ObjectPatch<'_>, old: &[u8], new: &str| {
        patch.empty_sections(old)?;
        patch.rename_sections(new.as_bytes(), &String::from_utf8_lossy(old))
    };
    replace(&mut patch, IMAGES, MERGED).map_err(|error| cannot(&error))?;
    replace(&mut patch, kept_results::SECTION.as_bytes(), MERGED_RESULTS).map_err(|error| cannot(&error))?;
    temp_files::write_output(output, &patch.finish())
}

/// Edits the linker's output `raw` and writes the result to `output`. `linker` had to define the names of `aliases`.
///
/// # Errors
/// The linker's output is not an ELF object or lacks a name, or the disk is full.
pub fn seal(raw: &Path, output: &Path, linker: &Path, aliases: &[StubAlias]) -> Result<(), Errors> {
    let cannot = |error: &dyn std::fmt::Display| Error::Seal { output: output.to_owned(), reason: error.to_string() };
    let bytes = std::fs::read(raw).map_err(|error| cannot(&error))?;
    if let Some(alias) = first_undefined(&bytes, aliases).map_err(|error| cannot(&error))? {
        return Err(Error::AliasIgnored { linker: linker.to_owned(), name: alias.name.clone() }.into());
    }
    let suffix = suffix(&bytes);
    let sealed = sealed(&bytes, &suffix).map_err(|error| cannot(&error))?;
    temp_files::write_output(output, &sealed)
}

/// The first name that the linker left undefined. mold 1.10 ignores `--defsym` in a relocatable link.
fn first_undefined<'a>(object: &[u8], aliases: &'a [StubAlias]) -> Result<Option<&'a StubAlias>, FormatError> {
    if aliases.is_empty() {
        return Ok(None);
    }
    let symbols = host_symbols(object, false)?;
    let undefined: HashSet<&[u8]> = symbols.iter().filter(|symbol| !symbol.defined).map(|symbol| symbol.name).collect();
    Ok(aliases.iter().find(|alias| undefined.contains(alias.name.as_bytes())))
}

/// Renames the section of offload entries with `suffix` and removes the device images.
fn sealed(object: &[u8], suffix: &str) -> Result<Vec<u8>, FormatError> {
    let mut patch = ObjectPatch::new(object)?;
    patch.empty_sections(IMAGES)?;
    patch.empty_sections(kept_results::SECTION.as_bytes())?;
    for entries in ENTRY_SECTIONS {
        patch.rename_sections(entries.as_bytes(), &format!("{entries}_{suffix}"))?;
    }
    let bounds: Vec<_> =
        ENTRY_SECTIONS.iter().flat_map(|name| [format!("__start_{name}"), format!("__stop_{name}")]).collect();
    let is_bound = |name: &[u8]| bounds.iter().find(|bound| bound.as_bytes() == name);
    patch.rename_symbols(|name| is_bound(name).map(|bound| format!("{bound}_{suffix}")))?;
    Ok(patch.finish())
}

/// The low 64 bits of the MD5 of the linker's output, as clang-linker-wrapper names the section.
fn suffix(bytes: &[u8]) -> String {
    let digest = Md5::digest(bytes);
    digest[..8].iter().rev().map(|byte| format!("{byte:02x}")).collect()
}
