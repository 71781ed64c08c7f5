//! What the distributors of fatlink share: the list of jobs, in the format of LLVM's distributed ThinLTO, and jobs that run here.
#![forbid(unsafe_code)]

pub mod job_list;
pub mod local;

pub use job_list::{Job, JobList};
