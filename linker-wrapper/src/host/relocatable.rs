//! Finishes the output of `ld -r`, which is a final link for device code.
//!
//! Its offload entries are moved to a section with a name of its own, so that its registration code finds only these, and its
//! device images are removed, so that no later link links them again.

use std::collections::HashSet;
use std::path::Path;

use md5::{Digest, Md5};
use offload_bundle::FormatError;
use offload_bundle::elf_edit::ObjectPatch;
use offload_bundle::host_object::{StubAlias, host_symbols};

use crate::diag::error::Errors;
use crate::host::error::Error;
use crate::sys::temp_files;

const ENTRIES: &str = "llvm_offload_entries";
const IMAGES: &[u8] = b".llvm.offloading";

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
    patch.rename_sections(ENTRIES.as_bytes(), &format!("{ENTRIES}_{suffix}"))?;
    let bounds = ["__start_", "__stop_"].map(|bound| format!("{bound}{ENTRIES}"));
    let is_bound = |name: &[u8]| bounds.iter().find(|bound| bound.as_bytes() == name);
    patch.rename_symbols(|name| is_bound(name).map(|bound| format!("{bound}_{suffix}")))?;
    Ok(patch.finish())
}

/// The low 64 bits of the MD5 of the linker's output, as clang-linker-wrapper names the section.
fn suffix(bytes: &[u8]) -> String {
    let digest = Md5::digest(bytes);
    digest[..8].iter().rev().map(|byte| format!("{byte:02x}")).collect()
}
