//! Processors of the host: code of a target is compiled to one object, and the host linker makes a shared library of it.

mod image_linker;
pub mod job_code;
mod machine;
mod soundness;
mod steps;
pub mod target;
