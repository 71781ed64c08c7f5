//! What the link will do, decided before anything runs.

pub mod backend;
pub mod equal_kernels;
pub mod error;
pub mod image_policy;
mod kept_kernels;
pub mod link_context;
pub mod report;
mod report_text;
pub mod target_link;
pub mod unsupported;
