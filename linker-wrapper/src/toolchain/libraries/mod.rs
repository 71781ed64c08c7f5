//! NVIDIA's shared libraries, loaded while the program runs, as safe types. With `mapped_file.rs`, this folder has the only
//! `unsafe` of this crate.
//!
//! A library stays loaded until the process ends, because it may have started threads of its own.

mod cuda_driver;
mod loading;
mod nvjitlink;

pub use cuda_driver::CudaDriver;
pub use nvjitlink::NvJitLink;
