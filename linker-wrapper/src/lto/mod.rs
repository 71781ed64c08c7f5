//! Link-time optimization and code generation.
//!
//! [`link`] takes the targets of a platform through three steps. [`target`] reads the code of each target and plans its link;
//! the partitions of all targets are the jobs of one queue, the longest first ([`partition`]); [`join`] links what they
//! leave into finished machine code. A small program is one partition, compiled in this process; the partitions of a large one
//! are compiled by [`worker`] processes. The [`result_cache`] replaces steps whose results it has.

pub mod compile_job;
pub mod context;
pub mod cuda_libraries;
pub mod culprit;
pub mod device_link;
pub mod error;
pub mod join;
pub mod llvm_warnings;
pub mod partition;
pub mod plan_report;
pub mod private_images;
pub mod products;
pub mod result_cache;
pub mod target;
pub mod worker;
