//! What the link will do, decided before anything runs.

pub mod backend;
pub mod image_policy;
pub mod unsupported;
