//! Code generators whose static constructors run when they are needed, not when the program starts: hundreds of options that most links never
//! use.

use std::sync::Once;

use inkwell::targets::{InitializationConfig, Target};

unsafe extern "C" {
    fn fatlink_construct_amdgpu();
    fn fatlink_construct_aarch64();
}

/// Registers the code generator for AMD GPUs. Cheap to call again.
pub(crate) fn initialize_amdgpu() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: static constructors run once, before anything of the code generator is used.
        unsafe { fatlink_construct_amdgpu() };
        // Machine code comes from LLVM itself, with inline assembly in it.
        Target::initialize_amd_gpu(&InitializationConfig { disassembler: false, ..Default::default() });
    });
}

/// Registers the code generator for hosts of the triple, if it is not one of those that every link has. Cheap to call again.
pub(crate) fn initialize_host(triple: &str) {
    static ONCE: Once = Once::new();
    if !triple.starts_with("aarch64") && !triple.starts_with("arm64") {
        return;
    }
    ONCE.call_once(|| {
        // SAFETY: static constructors run once, before anything of the code generator is used.
        unsafe { fatlink_construct_aarch64() };
        // OpenMP's device code may have inline assembly.
        let config = InitializationConfig { disassembler: false, ..Default::default() };
        Target::initialize_aarch64(&config);
    });
}
