//! AMD's GPUs: LLVM emits objects, and ld.lld links them to a code object.

mod calls;
pub mod error;
pub mod images;
pub mod job_code;
mod join;
mod machine;
pub mod soundness;
pub mod spirv;
mod steps;
pub mod target;
