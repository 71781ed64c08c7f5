//! The command line: the table of options, response files, and the values of options.

pub mod amd_options;
pub mod code_object_line;
mod device_linker_words;
pub mod device_options;
pub mod device_words;
pub mod dlink;
pub mod environment;
mod error;
pub mod flags;
pub mod help;
pub mod host_triple;
pub mod keyed_options;
mod lld_lto_options;
pub mod mistyped;
mod nvcc_options;
pub mod nvcc_to_clang;
pub mod options;
pub mod other_lines;
pub mod parse;
pub mod persona;
pub mod plugin_options;
mod referenced_symbols;
pub mod response_file;
pub mod unsupported;
pub mod values;
pub mod words;
