//! The exceptions of the module.

use std::path::PathBuf;

use offload_bundle::FileError;
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

create_exception!(fatlink, Error, PyValueError, "Bytes that are damaged, or a value that has no meaning.");
create_exception!(
    fatlink,
    FatbinError,
    Error,
    "An image that a fatbin cannot hold; `code` is nvFatbin's number for it."
);

create_exception!(fatlink, LinkError, Error, "A link that failed; `diagnostics` say why.");
create_exception!(fatlink, Cancelled, Error, "A link that its caller cancelled.");

/// Why a function fails.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A file that cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A container that cannot be read.
    #[error("{}{}{error}", place.as_deref().map_or(String::new(), |place| format!("{place}: ")), member(error))]
    Parse {
        /// The file, unless only its bytes are known.
        place: Option<String>,
        /// What is wrong.
        error: FileError,
    },
    /// An argument without a meaning.
    #[error("{0}")]
    Argument(String),
}

fn member(error: &FileError) -> String {
    error.member().map_or(String::new(), |member| format!("member {member}: "))
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match &failure {
            // Python chooses FileNotFoundError and its like by the number.
            Failure::Read { path, error } => match error.raw_os_error() {
                Some(number) => PyOSError::new_err((number, error.to_string(), path.display().to_string())),
                None => PyOSError::new_err(failure.to_string()),
            },
            Failure::Parse { .. } | Failure::Argument(_) => Error::new_err(failure.to_string()),
        }
    }
}

/// An exception with nvFatbin's number.
pub fn of_fatbin(py: Python<'_>, error: &offload_bundle::fatbin::FatbinError) -> PyErr {
    let raised = FatbinError::new_err(error.to_string());
    // An exception without the number is better than another exception.
    let _ = raised.value(py).setattr("code", error.code());
    raised
}
