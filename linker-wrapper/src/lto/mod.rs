//! Link-time optimization and code generation, for all machines.
//!
//! [`device_link`] links the targets of a machine in three steps. [`target`] reads the code of each target and plans its link;
//! the partitions of all targets are compiled as jobs of one queue, the longest first ([`partition`]); the machine joins the compiled
//! partitions into finished machine code. A small program is one partition, compiled in this process; the partitions of a large
//! one are compiled by [`worker`] processes, or elsewhere ([`distribution`]). All run a [`compile_job`], with LLVM and then the machine's
//! tools. Steps whose results are in the [`result_cache`] are skipped.

pub mod compile_job;
pub mod context;
pub mod culprit;
pub mod device_link;
pub mod distribution;
pub mod error;
pub mod job_list;
pub mod job_run;
pub mod llvm_messages;
pub mod partition;
pub mod pass_times;
pub mod plan_report;
pub mod private_images;
pub mod products;
pub mod result_cache;
pub mod run_job;
pub mod target;
pub mod target_images;
pub mod unit_file;
pub mod unit_merge;
pub mod worker;
