//! What the link will do, decided before anything runs.

pub mod image_policy;
