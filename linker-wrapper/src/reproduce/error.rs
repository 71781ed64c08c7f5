//! Errors of `--reproduce`.

use std::path::PathBuf;

/// A link that no archive can be written of.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("--reproduce={}: this file is the same as {role} of the link; write the archive to another file", .file.display())]
    SameFile { file: PathBuf, role: &'static str },
    #[error("--reproduce is for links of ELF files; for Windows, lld-link has /reproduce: of its own")]
    WindowsHost,
}
