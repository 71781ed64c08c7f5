//! The host side of the link: its input files, its linker, and the object that registers device code.

pub mod coff;
pub mod dead_kernels;
pub mod dependency_file;
pub mod embedded_images;
pub mod error;
pub mod export_list;
pub mod folded_stubs;
pub mod host_linker;
pub mod host_lto;
pub mod host_machine;
pub mod image_section;
pub mod input_files;
pub mod kept_results;
pub mod library_folders;
pub mod link_roots;
pub mod linker_kind;
pub mod linker_script;
pub mod needed_libraries;
pub mod registration_object;
pub mod relocatable;
mod remembered;
pub mod section_reach;
