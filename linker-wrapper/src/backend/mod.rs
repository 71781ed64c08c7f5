//! The tools that make machine code.

pub mod host_linker;
pub mod nvlink;
pub mod ptxas;
