//! The Python module `fatlink`: what [`offload_bundle`] reads, explains, checks and builds, as functions and types of Python, and
//! the links of [`fatlink`].
//!
//! It knows no format. Every error becomes `fatlink.Error`, whatever the bytes; work on large files runs without Python's global lock.
//! `fatlink/_fatlink.pyi` has the types, which Python's tests compare with the module.

mod builder;
mod check;
mod error;
mod explain;
mod images;
mod link;
mod source;

use pyo3::prelude::*;

/// What the package `fatlink` re-exports.
#[pymodule]
mod _fatlink {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::builder::FatbinBuilder;
    #[pymodule_export]
    use super::check::{CheckedContainer, Finding, check};
    #[pymodule_export]
    use super::error::{Cancelled, Error, FatbinError, LinkError};
    #[pymodule_export]
    use super::explain::{Container, Outcome, explain};
    #[pymodule_export]
    use super::images::{Image, extract, images};
    #[pymodule_export]
    use super::link::{_link, Cancellation, Diagnostic, Linked, PreparedLinker};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
