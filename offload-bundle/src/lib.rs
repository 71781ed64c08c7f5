//! The containers of offloaded device code, as bytes: no LLVM, no processes, no threads, no files, no GPU.
#![forbid(unsafe_code)]

pub mod arch;
pub mod archive;
mod bytes;
pub mod cubin;
mod error;
pub mod fatbin;
pub mod host_object;
pub mod listing;
pub mod offload_binary;

pub use arch::{ArchFeature, GpuArch, PtxVersion};
pub use error::FormatError;
