//! AMD GPUs: which processors LLVM knows, and the sections of their objects.

use std::ffi::{c_char, c_void};
use std::sync::Once;

use inkwell::llvm_sys::prelude::LLVMModuleRef;
use inkwell::llvm_sys::target_machine::LLVMTargetMachineRef;
use inkwell::module::Module;
use inkwell::targets::{InitializationConfig, Target, TargetMachine};

use super::copy_text;

unsafe extern "C" {
    fn fatlink_construct_amdgpu();
    fn fatlink_called_declarations(
        module: LLVMModuleRef,
        visitor: *mut c_void,
        visit: extern "C" fn(*mut c_void, *const c_char, usize),
    );
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

/// The declared functions that the module calls directly, without intrinsics.
pub(crate) fn called_declarations(module: &Module<'_>) -> Vec<String> {
    extern "C" fn visit(names: *mut c_void, name: *const c_char, length: usize) {
        // SAFETY: the pointer is that of `names` below, alive during the visit, and so is the text of that length.
        unsafe { (*names.cast::<Vec<String>>()).push(copy_text(name, length)) };
    }
    let mut names: Vec<String> = Vec::new();
    // SAFETY: the module is alive, and `visit` gets the pointer that it expects.
    unsafe { fatlink_called_declarations(module.as_mut_ptr(), (&raw mut names).cast(), visit) };
    names
}
