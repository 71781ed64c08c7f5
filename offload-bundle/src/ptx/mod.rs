//! Reads PTX text: its header, its symbols and its debug information; joins several modules into one. (PTX ISA manual, chapters 4 and 5
//! and section 11.6.)

mod debug_info;
pub(crate) mod header;
pub mod join;
mod kernel_copies;
mod outline;
mod scan;
mod symbols;

pub use debug_info::DebugInfo;
pub use header::{target, version, with_version};
pub use kernel_copies::with_kernel_copies;
pub use outline::{Outline, outline};
pub use symbols::{defines_functions, symbols, symbols_and_local_kernels};

/// Whether the data is PTX: text whose first statement is `.version`, which the manual requires.
pub fn is_ptx(data: &[u8]) -> bool {
    version(data).is_some()
}
