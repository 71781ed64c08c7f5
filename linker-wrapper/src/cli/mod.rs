//! The command line: the option table, response files, and the values that options stand for.

pub mod backend_choice;
pub mod device_linker_options;
pub mod device_options;
pub mod flags;
pub mod options;
pub mod persona;
pub mod response_file;
