//! Functions, variables and aliases.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr;

use inkwell::llvm_sys::core as llvm;
use inkwell::llvm_sys::prelude::{LLVMModuleRef, LLVMValueRef};
use inkwell::llvm_sys::{LLVMLinkage, LLVMOpcode, LLVMVisibility, comdat};
use inkwell::module::Module;
use inkwell::values::{AsValueRef, FunctionValue, GlobalValue, PointerValue};

use super::copy_text;

unsafe extern "C" {
    fn fatlink_exclude_from_sanitizers(variable: LLVMValueRef);
    fn fatlink_declared_size(variable: LLVMValueRef) -> u64;
    fn fatlink_move_used_last(module: LLVMModuleRef);
}

/// Keeps sanitizers from changing the layout of a variable that a runtime reads.
pub(crate) fn exclude_from_sanitizers(variable: GlobalValue<'_>) {
    // SAFETY: the value is a variable of a live module.
    unsafe { fatlink_exclude_from_sanitizers(variable.as_value_ref()) }
}

/// Moves `llvm.used` and `llvm.compiler.used` behind all other variables, so that NVPTX's printer emits the same text in every process.
pub(crate) fn move_used_last(module: &Module<'_>) {
    // SAFETY: the module is alive, and nothing holds the lists.
    unsafe { fatlink_move_used_last(module.as_mut_ptr()) }
}

/// The bytes of a variable for units that declare it, without a zone that a sanitizer appends; 0 if its type does not say, as that of an array of
/// unknown length.
pub(crate) fn declared_size(variable: GlobalValue<'_>) -> u64 {
    // SAFETY: the value is a variable of a live module.
    unsafe { fatlink_declared_size(variable.as_value_ref()) }
}

/// An alias or ifunc, which inkwell does not list.
#[derive(Clone, Copy)]
pub(crate) struct Indirect<'m> {
    value: LLVMValueRef,
    module: PhantomData<&'m ()>,
}

impl Indirect<'_> {
    pub(crate) fn name(self) -> String {
        let mut length = 0;
        // SAFETY: the value is a global of a live module; its name is `length` bytes.
        unsafe {
            let name = llvm::LLVMGetValueName2(self.value, &mut length);
            copy_text(name, length)
        }
    }

    pub(crate) fn linkage(self) -> LLVMLinkage {
        // SAFETY: the value is a global of a live module.
        unsafe { llvm::LLVMGetLinkage(self.value) }
    }

    pub(crate) fn make_internal(self) {
        // SAFETY: the value is a global of a live module.
        unsafe { llvm::LLVMSetLinkage(self.value, LLVMLinkage::LLVMInternalLinkage) }
    }
}

/// All aliases and ifuncs of a module.
pub(crate) fn indirects<'m>(module: &'m Module<'_>) -> Vec<Indirect<'m>> {
    let mut found = Vec::new();
    let mut add = |value| found.push(Indirect { value, module: PhantomData });
    // SAFETY: iteration over the lists of a live module.
    unsafe {
        let mut alias = llvm::LLVMGetFirstGlobalAlias(module.as_mut_ptr());
        while !alias.is_null() {
            add(alias);
            alias = llvm::LLVMGetNextGlobalAlias(alias);
        }
        let mut ifunc = llvm::LLVMGetFirstGlobalIFunc(module.as_mut_ptr());
        while !ifunc.is_null() {
            add(ifunc);
            ifunc = llvm::LLVMGetNextGlobalIFunc(ifunc);
        }
    }
    found
}

/// Adds a hidden alias of a function: a second name of the same address, which this output file alone sees.
pub(crate) fn add_hidden_alias<'ctx>(module: &Module<'ctx>, name: &CStr, function: FunctionValue<'ctx>) {
    let aliasee = function.as_value_ref();
    // SAFETY: the function lives in the live module; the name ends with a NUL and is copied.
    unsafe {
        let kind = llvm::LLVMGlobalGetValueType(aliasee);
        let alias = llvm::LLVMAddAlias2(module.as_mut_ptr(), kind, 0, aliasee, name.as_ptr());
        llvm::LLVMSetVisibility(alias, LLVMVisibility::LLVMHiddenVisibility);
    }
}

/// Takes a global out of its comdat: an internal symbol may not stay in one that others can drop.
pub(crate) fn leave_comdat(global: GlobalValue<'_>) {
    // SAFETY: the global lives in a live module; a null comdat stands for none.
    unsafe { comdat::LLVMSetComdat(global.as_value_ref(), ptr::null_mut()) }
}

/// Whether anything in the module uses this global.
pub(crate) fn is_used(value: impl AsValueRef) -> bool {
    // SAFETY: a query on a live value.
    unsafe { !llvm::LLVMGetFirstUse(value.as_value_ref()).is_null() }
}

/// Removes `llvm.global_ctors` or `llvm.global_dtors` from the module and returns the functions with their priorities.
pub(crate) fn take_structors<'ctx>(module: &Module<'ctx>, list: &str) -> Vec<(u64, PointerValue<'ctx>)> {
    let Some(global) = module.get_global(list) else { return Vec::new() };
    let mut found = Vec::new();
    // SAFETY: the verifier guarantees that the initializer is an array of {priority, function, data}; nothing refers to the
    // list itself, and the functions outlive it.
    unsafe {
        let array = llvm::LLVMGetInitializer(global.as_value_ref());
        let count = if array.is_null() { 0 } else { llvm::LLVMGetNumOperands(array) };
        for index in 0..count.max(0) as u32 {
            let record = llvm::LLVMGetOperand(array, index);
            if llvm::LLVMGetNumOperands(record) < 2 {
                continue;
            }
            let (priority, function) = (llvm::LLVMGetOperand(record, 0), llvm::LLVMGetOperand(record, 1));
            if !llvm::LLVMIsAConstantInt(priority).is_null() && llvm::LLVMIsNull(function) == 0 {
                found.push((llvm::LLVMConstIntGetZExtValue(priority), PointerValue::new(function)));
            }
        }
        llvm::LLVMDeleteGlobal(global.as_value_ref());
    }
    found
}

/// Replaces every call of `reflect` (`__nvvm_reflect`) by the number that `value_of` returns for its string argument. Calls
/// whose argument is not a constant string stay, and code generation rejects them.
pub(crate) fn replace_reflect_calls(reflect: FunctionValue<'_>, value_of: &dyn Fn(&str) -> u32) {
    let mut calls = Vec::new();
    // SAFETY: the uses are collected first, because erasing a call changes the list; the new value has the call's own
    // integer type.
    unsafe {
        let mut edge = llvm::LLVMGetFirstUse(reflect.as_value_ref());
        while !edge.is_null() {
            calls.push(llvm::LLVMGetUser(edge));
            edge = llvm::LLVMGetNextUse(edge);
        }
        for call in calls {
            if llvm::LLVMIsACallInst(call).is_null() {
                continue;
            }
            if let Some(name) = constant_string(llvm::LLVMGetOperand(call, 0)) {
                let number = llvm::LLVMConstInt(llvm::LLVMTypeOf(call), u64::from(value_of(&name)), 0);
                llvm::LLVMReplaceAllUsesWith(call, number);
                llvm::LLVMInstructionEraseFromParent(call);
            }
        }
    }
}

/// The text behind a pointer to a constant string, through casts and zero offsets.
///
/// # Safety
/// `pointer` must be a live value.
unsafe fn constant_string(mut pointer: LLVMValueRef) -> Option<String> {
    // SAFETY: the operands of a live constant are alive; the string is `length` bytes of the initializer.
    unsafe {
        while !llvm::LLVMIsAConstantExpr(pointer).is_null() {
            match llvm::LLVMGetConstOpcode(pointer) {
                LLVMOpcode::LLVMAddrSpaceCast | LLVMOpcode::LLVMBitCast | LLVMOpcode::LLVMGetElementPtr => {
                    pointer = llvm::LLVMGetOperand(pointer, 0);
                }
                _ => return None,
            }
        }
        let bytes = constant_bytes(pointer)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

/// The bytes of a variable's initializer, if it is an array of bytes.
///
/// # Safety
/// `value` must be null or a live value. The bytes live as long as its module.
pub(super) unsafe fn constant_bytes<'m>(value: LLVMValueRef) -> Option<&'m [u8]> {
    // SAFETY: the initializer of a live variable is alive, and its data is `size` bytes.
    unsafe {
        if value.is_null() || llvm::LLVMIsAGlobalVariable(value).is_null() {
            return None;
        }
        let initializer = llvm::LLVMGetInitializer(value);
        let is_data = !initializer.is_null() && !llvm::LLVMIsAConstantDataSequential(initializer).is_null();
        // LLVM calls any array of bytes a string.
        if !is_data || llvm::LLVMIsConstantString(initializer) == 0 {
            return None;
        }
        let mut size = 0;
        let data = llvm::LLVMGetAsString(initializer, &mut size);
        Some(std::slice::from_raw_parts(data.cast::<u8>(), size))
    }
}
