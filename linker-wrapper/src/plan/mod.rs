//! What the link will do, decided before anything runs.

pub mod equal_kernels;
pub mod link_context;
pub mod report;
mod report_text;
mod retained_kernels;
pub mod target_plan;
