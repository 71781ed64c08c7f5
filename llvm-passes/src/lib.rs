//! IR. Everything of fatlink that touches LLVM, and nothing else: no files, no
//! processes, no command line.
//!
//! The story of one device link: [`session`] opens an LLVM context and reads
//! bitcode into it, [`symbols`] lists what every translation unit defines and
//! wants, [`resolve`] decides who defines what, [`partition`] cuts the work
//! into independent jobs, and [`pipeline`] merges, optimizes and emits one of
//! them as PTX. [`registration`] writes the host object that hands the finished
//! image to the CUDA runtime.

pub mod bitcode;
mod command_lines;
pub mod crash;
pub mod embedded;
mod error;
pub mod extract;
pub mod module_flags;
pub mod out_of_memory;
pub mod partition;
pub mod pipeline;
pub mod program;
pub mod reference_graph;
mod reflect;
pub mod registration;
pub mod resolve;
pub mod session;
mod structors;
pub mod symbols;
mod sys;
pub mod unit;
pub mod visible_functions;

pub use error::{BitcodeError, CodegenError, IrError, LlvmError, Stage};
pub use inkwell::module::Module;
pub use sys::{OwnedProgram, initialize, on_fatal_error, parse_llvm_options};
