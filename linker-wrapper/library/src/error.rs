//! Why a link has no result.

use std::io;
use std::path::PathBuf;

use crate::diagnostic::Diagnostic;

/// Why a link has no result.
///
/// ```
/// # use fatlink::{Error, Link, Linker};
/// let failed = Linker::at("/no/such/program").run(&Link::new().file("/build/kernel.o"));
/// assert!(matches!(failed, Err(Error::Start { .. })));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The link failed. The diagnostics have at least one error.
    #[error("{}", texts(.diagnostics))]
    Failed {
        /// All messages of the link, in order.
        diagnostics: Vec<Diagnostic>,
    },
    /// The caller cancelled the link.
    #[error("the link was cancelled")]
    Cancelled,
    /// There is no program `fatlink` where the library looked.
    #[error("there is no program fatlink in {}; name it with Linker::at", folders(.searched))]
    NoProgram {
        /// The folders.
        searched: Vec<PathBuf>,
    },
    /// The program cannot be started.
    #[error("{}: cannot start: {source}; name the program fatlink with Linker::at", .program.display())]
    Start {
        /// Its path.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The program is not that of this library: it does not know the library's requests, or is of another release.
    #[error("{} does not serve this library, which has version {version}; install both of one release", .program.display())]
    OtherRelease {
        /// Its path.
        program: PathBuf,
        /// The version of the library.
        version: &'static str,
    },
    /// A file of the link cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Something that the link got has no meaning.
    #[error("{what}")]
    Argument {
        /// What, and what would have one.
        what: String,
    },
}

impl Error {
    /// The messages of the link: those of [`Error::Failed`], or the error itself as a diagnostic. At least one is an error.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        match self {
            Error::Failed { diagnostics } => diagnostics.clone(),
            Error::File { path, .. } => {
                let file = Some(path.display().to_string());
                vec![Diagnostic { file, ..Diagnostic::error(self.to_string()) }]
            }
            _ => vec![Diagnostic::error(self.to_string())],
        }
    }
}

fn texts(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn folders(searched: &[PathBuf]) -> String {
    let names: Vec<String> = searched.iter().map(|folder| folder.display().to_string()).collect();
    if names.is_empty() { "no folder".to_owned() } else { names.join(" or ") }
}
