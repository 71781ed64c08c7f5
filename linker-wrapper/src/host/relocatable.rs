//! The last step of `ld -r`: the object becomes final for device code.
//!
//! Its offload entries move to a section of their own name, so that the registration code in it finds only these, and its device images
//! are taken out, so that no later link links them again.

use std::path::Path;

use md5::{Digest, Md5};
use offload_bundle::FormatError;
use offload_bundle::elf_edit::ObjectPatch;

use crate::diag::error::Errors;
use crate::host::error::Error;
use crate::sys::temp_files;

const ENTRIES: &str = "llvm_offload_entries";
const IMAGES: &[u8] = b".llvm.offloading";

/// Rewrites what the linker made at `raw` and puts it at `output`.
///
/// # Errors
/// The linker made something that is no ELF object, or the disk is full.
pub fn seal(raw: &Path, output: &Path) -> Result<(), Errors> {
    let cannot = |error: &dyn std::fmt::Display| Error::Seal { output: output.to_owned(), reason: error.to_string() };
    let bytes = std::fs::read(raw).map_err(|error| cannot(&error))?;
    let suffix = suffix(&bytes);
    let sealed = sealed(&bytes, &suffix).map_err(|error| cannot(&error))?;
    temp_files::write_output(output, &sealed)
}

/// Names the offload entries by `suffix` and takes the device images out.
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
