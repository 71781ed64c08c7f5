//! The lines that clang gives to a program `lld` and that are not for this one: every link but those of bitcode for AMD's GPUs.

use std::ffi::OsString;
use std::path::Path;

use offload_bundle::host_object::{self, FileKind};

use crate::cli::code_object_line::{self, CodeObjectLine};
use crate::sys::mapped_file::Mapped;

/// Whether this program was started as `lld` with a line for another.
pub fn is_needed(line: &[OsString], program: &str) -> bool {
    let takes = |line: CodeObjectLine<'_>| line.files().any(|file| may_have_bitcode(Path::new(file)));
    program == code_object_line::NAME && !CodeObjectLine::read(line).is_some_and(takes)
}

/// Whether a file is bitcode or an archive. What cannot be read is reported by who links the rest.
fn may_have_bitcode(file: &Path) -> bool {
    Mapped::open(file).is_ok_and(|content| {
        let kind = host_object::file_kind(content.bytes());
        matches!(kind, FileKind::Bitcode | FileKind::Archive | FileKind::ThinArchive)
    })
}
