//! Parsing and merging modules; their flags and debug information.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_void};
use std::ptr;

use inkwell::context::{AsContextRef, Context};
use inkwell::llvm_sys::core as llvm;
use inkwell::llvm_sys::prelude::{LLVMContextRef, LLVMMemoryBufferRef, LLVMModuleRef};
use inkwell::llvm_sys::{bit_reader, linker};
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;

use serde::{Deserialize, Serialize};

use super::take_message;

/// How much debug information there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DebugKind {
    /// None.
    #[default]
    None,
    /// Line tables alone, which is what clang emits for `-g` in optimized device code.
    Lines,
    /// Full debug information.
    Full,
}

unsafe extern "C" {
    fn fatlink_upgrade_kernels(module: LLVMModuleRef);
    fn fatlink_load_bodies(module: LLVMModuleRef) -> *mut c_char;
    fn fatlink_unique_debug_types(context: LLVMContextRef);
    fn fatlink_visit_used(
        module: LLVMModuleRef,
        reader: *mut c_void,
        read: extern "C" fn(*mut c_void, *const c_char, usize),
    );
    fn fatlink_debug_information(module: LLVMModuleRef) -> i32;
    fn fatlink_drop_host_uses(module: LLVMModuleRef);
    fn fatlink_set_module_flag(module: LLVMModuleRef, name: *const c_char, length: usize, value: u32);
    fn fatlink_write_with_uses(
        module: LLVMModuleRef,
        reader: *mut c_void,
        read: extern "C" fn(*mut c_void, *const c_char, usize),
    );
}

/// Gives a module the data layout of another one. inkwell's modules keep the address of the layout that they were created with, which another
/// one replaces when units are merged into them.
pub fn copy_data_layout(from: &Module<'_>, to: &Module<'_>) {
    // SAFETY: both modules are alive, and LLVM copies the text.
    unsafe { llvm::LLVMSetDataLayout(to.as_mut_ptr(), llvm::LLVMGetDataLayoutStr(from.as_mut_ptr())) };
}

/// Parses a module whose function bodies are loaded when they are first needed. On `Err(())` the context's sink holds the
/// reason.
pub(crate) fn read_lazily<'ctx>(context: &'ctx Context, buffer: MemoryBuffer<'_>) -> Result<Module<'ctx>, ()> {
    let raw: LLVMMemoryBufferRef = buffer.as_mut_ptr();
    let mut module: LLVMModuleRef = ptr::null_mut();
    // SAFETY: on success the module owns the buffer, which is therefore forgotten here; on failure it stays ours.
    unsafe {
        if bit_reader::LLVMGetBitcodeModuleInContext2(context.as_ctx_ref(), raw, &mut module) != 0 {
            return Err(());
        }
        std::mem::forget(buffer);
        fatlink_upgrade_kernels(module);
        Ok(Module::new(module))
    }
}

/// Parses all function bodies of a module that was read lazily.
pub(crate) fn load_bodies(module: &Module<'_>) -> Result<(), String> {
    // SAFETY: the module is alive; a message is ours to free.
    match unsafe { take_message(fatlink_load_bodies(module.as_mut_ptr())) } {
        None => Ok(()),
        Some(message) => Err(message),
    }
}

/// Has the units that are read in a context share the types of debug information that they declare alike, as LLVM's LTO does.
pub(crate) fn unique_debug_types(context: &Context) {
    // SAFETY: the context is alive, and no module has been read in it.
    unsafe { fatlink_unique_debug_types(context.as_ctx_ref()) }
}

/// The names in `llvm.used` and `llvm.compiler.used`.
pub(crate) fn used_names(module: &Module<'_>) -> BTreeSet<String> {
    extern "C" fn read(names: *mut c_void, name: *const c_char, length: usize) {
        // SAFETY: `names` is the set below, which nothing else uses during the call; the name is alive during the call.
        let (names, name) =
            unsafe { (&mut *names.cast::<BTreeSet<String>>(), std::slice::from_raw_parts(name.cast::<u8>(), length)) };
        names.insert(String::from_utf8_lossy(name).into_owned());
    }
    let mut names = BTreeSet::new();
    // SAFETY: the module is alive, and the callback fits the set.
    unsafe { fatlink_visit_used(module.as_mut_ptr(), (&raw mut names).cast(), read) };
    names
}

/// Removes clang's list of what only host code uses and another unit defines.
pub(crate) fn drop_host_uses(module: &Module<'_>) {
    // SAFETY: the module is alive, and nothing else holds the list.
    unsafe { fatlink_drop_host_uses(module.as_mut_ptr()) }
}

/// Merges `source` into `destination`. On `Err(())` the context's sink holds the reason.
pub(crate) fn link_modules(destination: &Module<'_>, source: Module<'_>) -> Result<(), ()> {
    let raw = source.as_mut_ptr();
    std::mem::forget(source);
    // SAFETY: both modules live in one context, and LLVM consumes `source` even if it fails.
    match unsafe { linker::LLVMLinkModules2(destination.as_mut_ptr(), raw) } {
        0 => Ok(()),
        _ => Err(()),
    }
}

/// How much debug information a module has.
pub(crate) fn debug_information(module: &Module<'_>) -> DebugKind {
    // SAFETY: a query on a live module.
    match unsafe { fatlink_debug_information(module.as_mut_ptr()) } {
        0 => DebugKind::None,
        1 => DebugKind::Lines,
        _ => DebugKind::Full,
    }
}

/// Sets an integer module flag that overrides those of other modules.
pub(crate) fn set_module_flag(module: &Module<'_>, key: &str, value: u32) {
    // SAFETY: the key is that many bytes, alive during the call.
    unsafe { fatlink_set_module_flag(module.as_mut_ptr(), key.as_ptr().cast(), key.len(), value) }
}

/// Hashes a module: whatever LLVM makes of two modules with the same hash is the same.
pub(crate) fn hash(module: &Module<'_>) -> blake3::Hash {
    extern "C" fn read(hasher: *mut c_void, bytes: *const c_char, length: usize) {
        // SAFETY: `hasher` is the one below, which nothing else uses during the call; the bytes are alive during the call.
        unsafe { (*hasher.cast::<blake3::Hasher>()).update(std::slice::from_raw_parts(bytes.cast(), length)) };
    }
    let mut hasher = blake3::Hasher::new();
    // SAFETY: the module is alive, and the callback fits the hasher.
    unsafe { fatlink_write_with_uses(module.as_mut_ptr(), (&raw mut hasher).cast(), read) };
    hasher.finalize()
}

/// The value of an integer module flag; `None` if there is no such flag or its value is not an integer.
pub(crate) fn integer_module_flag(module: &Module<'_>, key: &str) -> Option<u64> {
    // SAFETY: the flag's metadata lives as long as the module, and the value is read only if it is an integer constant.
    unsafe {
        let metadata = llvm::LLVMGetModuleFlag(module.as_mut_ptr(), key.as_ptr().cast(), key.len());
        if metadata.is_null() {
            return None;
        }
        let context = llvm::LLVMGetModuleContext(module.as_mut_ptr());
        let value = llvm::LLVMMetadataAsValue(context, metadata);
        // Metadata wraps a constant; the only operand of the wrapper is the constant itself.
        let number = llvm::LLVMIsAConstantInt(llvm::LLVMGetOperand(value, 0));
        if number.is_null() { None } else { Some(llvm::LLVMConstIntGetZExtValue(number)) }
    }
}
