//! NVIDIA's GPUs: LLVM emits PTX, and a [backend] of NVIDIA's makes and links machine code.

pub mod backend;
mod bytes_by_target;
pub mod codegen;
mod complete;
pub mod cubin_linker;
pub mod error;
mod generate;
pub mod image_policy;
mod input_objects;
mod job;
pub mod job_code;
mod join;
mod keys;
pub mod known_targets;
pub mod libraries;
mod machine;
pub mod outputs;
pub mod plan;
pub mod products;
mod soundness;
mod steps;
pub mod target;
pub mod unsupported;
