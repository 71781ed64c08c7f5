//! The tools that make machine code.

pub mod nvlink;
pub mod ptxas;
