//! What device code runs on. Each machine implements [`interface::Machine`]; `lto/` links the code of all of them by it.

pub mod amdgcn;
pub mod error;
pub mod image_linker;
pub mod interface;
pub mod job_code;
pub mod llvm_programs;
pub mod nvptx;
pub mod unknown_input;
