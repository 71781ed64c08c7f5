//! Loads modules of device code by the CUDA driver of this machine, and launches nothing.
//!
//! The driver may crash or hang on a damaged image, so the caller does this in a process of its own. `CUDA_MODULE_LOADING` decides whether
//! kernels are loaded with their module or when they are first looked up (CUDA driver API, "Lazy Loading").

mod error;
mod library;

pub use error::{Error, Failure};
pub use library::{Attributes, Driver, Module};
