//! A partition's own copies of functions that it shares with other partitions.

use inkwell::llvm_sys::prelude::LLVMModuleRef;
use inkwell::module::Module;

unsafe extern "C" {
    fn fatlink_begin_copies(module: LLVMModuleRef);
    fn fatlink_end_copies(module: LLVMModuleRef);
}

/// Gives the partition copies of its own, until [`end_copies`], of all shared functions whose bodies are in the module.
pub(crate) fn begin_copies(module: &Module<'_>) {
    // SAFETY: the module is alive, and no values of it are held across the call.
    unsafe { fatlink_begin_copies(module.as_mut_ptr()) }
}

/// Makes everything that still takes the address of a copy refer to the owner's function again.
pub(crate) fn end_copies(module: &Module<'_>) {
    // SAFETY: as above.
    unsafe { fatlink_end_copies(module.as_mut_ptr()) }
}
