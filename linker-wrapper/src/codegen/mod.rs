//! Code generation: from PTX, relocatable cubins and LTO-IR to one finished cubin per target.
//!
//! [`choose`] decides which backend does it, from facts alone. [`Backends`] gathers these facts, each at most once per link and
//! only if the decision needs it. [`Codegen`] is the chosen backend: it runs ptxas and nvlink, or calls a library.

pub mod backends;
pub mod choose;
pub mod code_generator;
pub mod cuda_driver;
pub mod device_object;
mod ffi;
pub mod image_linker;
pub mod library_link;
pub mod nvjitlink;
pub mod nvlink;
pub mod ptxas;
mod tools;

pub use backends::{BackendDecision, Backends};
pub use code_generator::Codegen;
pub use device_object::{DeviceObject, Form, PtxSource};
