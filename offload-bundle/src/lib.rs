//! The containers of offloaded device code, as bytes: no LLVM, no processes, no files, no GPU, and no threads but
//! rayon's, on which [`fatbin::FatbinBuilder`] compresses.
//!
//! A compiler for GPUs puts the device code of a source file into its host object, and the linker's wrapper takes it out again. The way
//! of a device image through this crate is that way:
//!
//! 1. [`host_object`] tells what a file is. Of an ELF object it finds the sections with device code, and the offload entries: the
//!    kernels and variables that the host code wants. [`archive`] opens libraries into such objects.
//! 2. [`offload_binary`] takes those sections apart: each image with its target triple, architecture and kind.
//! 3. [`cubin`] reads an image that is machine code of an NVIDIA GPU: what it was made for, what it defines, what it lacks.
//!    [`ptx`] and [`ltoir`] do so for the forms that still have to be compiled.
//! 4. [`arch`] knows which GPU runs which code, and which PTX version it takes to write for it.
//! 5. [`fatbin`] bundles machine code, PTX and LTO-IR for the CUDA runtime, byte for byte as NVIDIA's `fatbinary` and nvFatbin do, and
//!    reads such bundles again.
//! 6. [`coverage`] tells what the driver will run of such a bundle on each GPU, and what is wrong with it. The programs
//!    `offload-bundle explain` and `offload-bundle check` print it.
//! 7. [`listing`] walks all of these for people: what does this file carry? The program `offload-bundle` prints it, and takes it out.
//!    [`selection`] is how people say which of the images they mean.
//!    [`difference`] compares two files so, and [`usage`] tells what their kernels take of a GPU.
//! 8. [`strip`] drops images from programs, libraries and objects that are linked already; [`annotate`] writes a string into the
//!    offload binaries of objects that are compiled already.
//!
//! Every reader takes bytes that anybody may have written. It answers with what is there or with a [`FormatError`] that says what is
//! wrong and where; it does not panic, and it takes no memory because a number in the bytes asks for it. Images are borrowed from the
//! data given, as they may be large. `damaged_input_tests.rs` tests that for all readers; the tests in `tests/` hold our bytes against those of the real
//! tools.
#![forbid(unsafe_code)]

pub mod annotate;
pub mod arch;
pub mod archive;
mod bytes;
mod compression;
pub mod coverage;
pub mod cubin;
#[cfg(test)]
mod damaged_input_tests;
pub mod difference;
pub mod elf_edit;
mod error;
pub mod fatbin;
mod file_kind;
pub mod hip_bundle;
pub mod host_object;
pub mod listing;
pub mod ltoir;
pub mod offload_binary;
pub mod printable;
pub mod ptx;
#[cfg(test)]
mod samples;
pub mod selection;
pub mod strip;
pub mod usage;

pub use arch::{ArchFeature, CudaRelease, GpuArch, PtxVersion};
pub use compression::CompressionError;
pub use error::{EditError, FileError, FormatError, FormatErrorKind};
