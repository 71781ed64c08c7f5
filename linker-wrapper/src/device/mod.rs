//! The device side of the inputs: selects archive members, resolves symbols and checks how units were compiled.

mod amd_files;
pub mod amd_targets;
pub mod archive_selection;
pub mod compat_checks;
pub mod cudadevrt;
pub mod definitions;
pub mod device_files;
pub mod error;
pub mod former_driver;
pub mod former_entries;
mod host_extraction;
pub mod host_hints;
pub mod host_words;
pub mod launchable_kernels;
mod line_parts;
pub mod lost_images;
pub mod lto_definitions;
pub mod rdc_targets;
pub mod recorded_ptx_flags;
pub mod stub_aliases;
pub mod symbol_errors;
pub mod symbols;
pub mod target_files;
pub mod targets;
