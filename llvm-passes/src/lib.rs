//! LLVM for offload linking: everything of fatlink that touches IR. No files, no processes, no command line.
//!
//! The crate turns the bitcode of many translation units into code for one device target, and into the host object that
//! registers the result. It calls LLVM 22 or 23, linked statically, through inkwell; what inkwell lacks is in a private module, `sys`,
//! which is also where the unsafe code is.
//!
//! # How a program goes through it
//!
//! 1. [`unit::Unit`] opens the bitcode of each translation unit once and reads its [`symbols`], its references (as a
//!    [`reference_graph`]), its [`module_flags`] and its recorded command lines.
//! 2. [`resolve`] decides which unit's definition of each symbol prevails, and finds duplicate and undefined symbols.
//! 3. [`program::Program`] joins the references of all units into one graph, and [`partition::cut`] cuts it into partitions.
//!    A program that is small, or that cannot be cut, is compiled in one piece.
//! 4. For a partition, [`extract`](extract::extract) loads the chosen definitions into one module, in a [`session::Session`]; for a
//!    monolithic program [`OwnedProgram`] loads all units and [`pipeline::merge`] merges them.
//! 5. [`pipeline`] makes definitions internal, adds libdevice, optimizes, and emits PTX. ptxas takes over from there.
//!    For AMD GPUs, [`amdgpu`] does the same and emits an object, from which ld.lld makes the code object.
//! 6. [`registration`] builds the host object that hands the images to the runtime when the program starts.
//!
//! [`equal_kernels`] finds kernels of step 3 that one of them can stand for.
//!
//! Steps 2 and 3 are pure functions of plain values, without LLVM. [`crash`] and [`out_of_memory`] turn a crash of LLVM into an
//! error message; [`visible_functions`] and [`embedded`] serve special cases.
//!
//! # Example
//!
//! Two units, one of which calls the other, become one PTX module:
//!
//! ```
//! use std::collections::BTreeSet;
//!
//! use llvm_passes::pipeline::{self, CodeTarget, NamedBitcode, OptLevel};
//! use llvm_passes::session::Session;
//! # use inkwell::context::Context;
//! # fn bitcode(name: &str, calls: Option<&str>) -> Vec<u8> {
//! #     let context = Context::create();
//! #     let module = context.create_module(name);
//! #     module.set_triple(&inkwell::targets::TargetTriple::create("nvptx64-nvidia-cuda"));
//! #     let kind = context.void_type().fn_type(&[], false);
//! #     let function = module.add_function(name, kind, None);
//! #     let builder = context.create_builder();
//! #     builder.position_at_end(context.append_basic_block(function, ""));
//! #     if let Some(callee) = calls {
//! #         function.set_call_conventions(71);
//! #         builder.build_call(module.add_function(callee, kind, None), &[], "").unwrap();
//! #     }
//! #     builder.build_return(None).unwrap();
//! #     module.write_bitcode_to_memory().as_slice().to_vec()
//! # }
//! # let (kernel, helper) = (bitcode("kernel", Some("helper")), bitcode("helper", None));
//! let units = [
//!     NamedBitcode { name: "kernel.o", bitcode: &kernel },
//!     NamedBitcode { name: "helper.o", bitcode: &helper },
//! ];
//! let target = CodeTarget { arch: "sm_90".parse()?, ptx: pipeline::NEWEST_PTX, level: OptLevel::O2 };
//!
//! let session = Session::new();
//! let modules = pipeline::read_units(&session, &units).map_err(|errors| errors[0].clone())?;
//! let merged = pipeline::merge(&session, modules, &units)?;
//! pipeline::internalize(&merged, &BTreeSet::new());
//! pipeline::optimize(&session, &merged, target)?;
//! let ptx = String::from_utf8(pipeline::emit_ptx(&session, &merged, target)?)?;
//! assert!(ptx.contains(".visible .entry kernel"));
//! assert!(!ptx.contains("helper"), "it was inlined");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Terms
//!
//! docs/reference/glossary.md has them all. In this crate:
//!
//! - A *unit* is one compilation's device code, as bitcode.
//! - A *definition prevails* if the link keeps it of several definitions of one symbol.
//! - A *partition* is some kernels with everything that they reach; it is compiled by itself. A *monolithic* program is not cut.
//! - A definition is *copied* into each partition that needs it, or *owned* by one partition and referenced by name from others,
//!   or *folded*: each partition has it and the final link keeps one.
//! - To *internalize* is to give a definition internal linkage, so that the optimizer may change or remove it.

pub mod amdgpu;
pub mod bitcode;
mod command_lines;
pub mod crash;
pub mod embedded;
pub mod equal_kernels;
mod error;
pub mod extract;
pub mod host;
pub mod merged_unit;
mod message;
pub mod module_flags;
pub mod out_of_memory;
mod owned_program;
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
pub mod warm_up;

pub use error::{BitcodeError, CodegenError, IrError, LlvmError, Stage};
pub use inkwell::module::Module;
pub use owned_program::OwnedProgram;
pub use sys::{initialize, on_fatal_error, parse_llvm_options, print_report, remarks_file, take_time_report};
