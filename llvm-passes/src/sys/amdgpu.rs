//! AMD GPUs: which processors LLVM knows, and the sections of their objects.

use std::ffi::c_char;
use std::sync::Once;

use inkwell::llvm_sys::target_machine::LLVMTargetMachineRef;
use inkwell::targets::{InitializationConfig, Target, TargetMachine};

unsafe extern "C" {
    fn fatlink_construct_amdgpu();
    fn fatlink_is_amd_processor(name: *const c_char, length: usize) -> bool;
    fn fatlink_use_sections(machine: LLVMTargetMachineRef);
}

/// Registers the code generator for AMD GPUs. Cheap to call again.
///
/// Its static constructors do not run when the program starts, because most links have no code for AMD GPUs.
pub(crate) fn initialize() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: static constructors run once, before anything of the code generator is used.
        unsafe { fatlink_construct_amdgpu() };
        // Machine code comes from LLVM itself, with inline assembly in it.
        Target::initialize_amd_gpu(&InitializationConfig { disassembler: false, ..Default::default() });
    });
}

/// Whether LLVM generates code for a processor of that name.
pub(crate) fn is_amd_processor(name: &str) -> bool {
    initialize();
    // SAFETY: the name is that many bytes, alive during the call.
    unsafe { fatlink_is_amd_processor(name.as_ptr().cast(), name.len()) }
}

/// Makes the machine emit each function and variable into a section of its own.
pub(crate) fn use_sections(machine: &TargetMachine) {
    // SAFETY: the machine is alive during the call.
    unsafe { fatlink_use_sections(machine.as_mut_ptr()) }
}
