//! The device side of the inputs: which members belong to the link, how units were compiled, what they define.

pub mod archive_selection;
pub mod compat_checks;
pub mod cudadevrt;
pub mod device_files;
pub mod lost_images;
pub mod recorded_ptx_flags;
pub mod symbol_errors;
pub mod symbols;
pub mod targets;
