//! Named metadata.

use std::ffi::CStr;
use std::ptr;

use inkwell::llvm_sys::core as llvm;
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::module::Module;

use super::copy_text;
use super::globals::constant_bytes;

/// The strings that are direct operands of the nodes in a named metadata list.
pub(crate) fn metadata_strings(module: &Module<'_>, list: &CStr) -> Vec<String> {
    let operands = metadata_nodes(module, list).into_iter().flatten();
    // SAFETY: an operand is null or lives as long as the module.
    operands.filter_map(|operand| unsafe { metadata_string(operand) }).collect()
}

/// The bytes of the variables that `llvm.embedded.objects` lists for `section`.
pub(crate) fn embedded_objects(module: &Module<'_>, section: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for operands in metadata_nodes(module, c"llvm.embedded.objects") {
        let [global, place, ..] = operands[..] else { continue };
        // SAFETY: an operand is null or lives as long as the module.
        unsafe {
            if metadata_string(place).as_deref() == Some(section) {
                found.extend(constant_bytes(global).map(<[u8]>::to_vec));
            }
        }
    }
    found
}

/// The operands of every node in a named metadata list.
fn metadata_nodes(module: &Module<'_>, list: &CStr) -> Vec<Vec<LLVMValueRef>> {
    let name = list.as_ptr();
    // SAFETY: LLVM gives the counts, and the buffers have as many elements; all values live as long as the module.
    unsafe {
        let count = llvm::LLVMGetNamedMetadataNumOperands(module.as_mut_ptr(), name) as usize;
        let mut nodes = vec![ptr::null_mut(); count];
        llvm::LLVMGetNamedMetadataOperands(module.as_mut_ptr(), name, nodes.as_mut_ptr());
        let operands = |node| {
            let mut operands = vec![ptr::null_mut(); llvm::LLVMGetMDNodeNumOperands(node) as usize];
            llvm::LLVMGetMDNodeOperands(node, operands.as_mut_ptr());
            operands
        };
        nodes.into_iter().map(operands).collect()
    }
}

/// The text of a metadata string; `None` for all other metadata.
///
/// # Safety
/// `value` must be null or a live value.
unsafe fn metadata_string(value: LLVMValueRef) -> Option<String> {
    // SAFETY: the text belongs to the context and is `length` bytes.
    unsafe {
        if value.is_null() {
            return None;
        }
        let mut length = 0;
        let text = llvm::LLVMGetMDString(value, &mut length);
        (!text.is_null()).then(|| copy_text(text, length as usize))
    }
}
