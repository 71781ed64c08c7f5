//! Code generation: from PTX, relocatable cubins and LTO-IR to one finished cubin per target.
//!
//! The plan decides which backend does it ([`crate::machines::nvptx::backend`]). [`Codegen`] is that backend as a value: it runs ptxas and
//! nvlink, or calls a library. [`Backends`] holds the tools of a link and makes one [`Codegen`] per target. In a worker process,
//! [`Assembler`] alone is the [`PtxBackend`].

mod backends;
mod code_generator;
mod cubins;
mod cuda_driver;
mod decisions;
mod device_object;
pub mod error;
mod host_references;
mod library_link;
mod nvjitlink;
mod nvlink;
mod nvlink_inputs;
mod nvlink_messages;
mod ptx_backend;
mod ptxas;
mod symbol_messages;

pub use backends::Backends;
pub use code_generator::Codegen;
pub use device_object::{DeviceObject, Form, PtxSource};
pub use host_references::HostReferences;
pub use nvlink::Linked;
pub use ptx_backend::{Attempted, PtxBackend, lower_version};
pub use ptxas::{Assembler, keeps_kernels};
