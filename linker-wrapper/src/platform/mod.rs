//! The platforms: an offload kind with a target triple each.

pub mod openmp_host;
pub mod override_image;
