//! The lines that clang gives to a program `lld` and that are not for this one: every link but those of bitcode for AMD's GPUs.

use std::ffi::OsString;
use std::path::Path;

use offload_bundle::host_object::{self, FileKind};

use crate::cli::{amd_lld, persona, response_file};
use crate::diag::error::Errors;
use crate::sys::mapped_file::Mapped;

/// Whether this program was started as `lld` with a line for another.
///
/// # Errors
/// Response files that cannot be read.
pub fn is_needed(arguments: &[OsString]) -> Result<bool, Errors> {
    if persona::program_name(arguments) != amd_lld::NAME {
        return Ok(false);
    }
    let line = response_file::expand(arguments.get(1..).unwrap_or_default())?;
    Ok(!amd_lld::is_device_link(&line) || !amd_lld::files(&line).iter().any(|file| may_have_bitcode(Path::new(file))))
}

/// Whether a file is bitcode or an archive. What cannot be read is reported by who links the rest.
fn may_have_bitcode(file: &Path) -> bool {
    Mapped::open(file).is_ok_and(|content| {
        let kind = host_object::file_kind(content.bytes());
        matches!(kind, FileKind::Bitcode | FileKind::Archive | FileKind::ThinArchive)
    })
}
