//! Reading the reference graph of a module.

use std::ffi::{CStr, c_char, c_void};
use std::mem::{align_of, offset_of, size_of};

use inkwell::llvm_sys::prelude::LLVMModuleRef;
use inkwell::module::Module;

use super::copy_text;

/// A function or variable; mirrored in references.cpp.
#[repr(C)]
pub(crate) struct RawGlobal {
    name: *const c_char,
    name_length: usize,
    content: *const c_char,
    content_length: usize,
    pub(crate) size: u64,
    pub(crate) address_space: u32,
    pub(crate) linkage: u32,
    pub(crate) instructions: u32,
    pub(crate) is_function: u8,
    pub(crate) is_definition: u8,
    pub(crate) is_kernel: u8,
    pub(crate) is_constant: u8,
    pub(crate) address_matters: u8,
    pub(crate) is_retained: u8,
    pub(crate) is_intrinsic: u8,
}

const _: () = {
    assert!(size_of::<RawGlobal>() == 64 && align_of::<RawGlobal>() == 8);
    assert!(offset_of!(RawGlobal, name) == 0);
    assert!(offset_of!(RawGlobal, name_length) == 8);
    assert!(offset_of!(RawGlobal, content) == 16);
    assert!(offset_of!(RawGlobal, content_length) == 24);
    assert!(offset_of!(RawGlobal, size) == 32);
    assert!(offset_of!(RawGlobal, address_space) == 40);
    assert!(offset_of!(RawGlobal, linkage) == 44);
    assert!(offset_of!(RawGlobal, instructions) == 48);
    assert!(offset_of!(RawGlobal, is_function) == 52);
    assert!(offset_of!(RawGlobal, is_definition) == 53);
    assert!(offset_of!(RawGlobal, is_kernel) == 54);
    assert!(offset_of!(RawGlobal, is_constant) == 55);
    assert!(offset_of!(RawGlobal, address_matters) == 56);
    assert!(offset_of!(RawGlobal, is_retained) == 57);
    assert!(offset_of!(RawGlobal, is_intrinsic) == 58);
};

impl RawGlobal {
    pub(crate) fn name(&self) -> String {
        // SAFETY: the text is alive during the visit, and has that length.
        unsafe { copy_text(self.name, self.name_length) }
    }

    /// The text that equal constants share.
    pub(crate) fn content(&self) -> Option<String> {
        // SAFETY: the text is alive during the visit, and has that length.
        (!self.content.is_null()).then(|| unsafe { copy_text(self.content, self.content_length) })
    }
}

unsafe extern "C" {
    fn fatlink_references(
        module: LLVMModuleRef,
        visitor: *mut c_void,
        visit_global: extern "C" fn(*mut c_void, *const RawGlobal),
        visit_reference: extern "C" fn(*mut c_void, u32, u32, u8),
    ) -> *const c_char;
}

/// Receives the reference graph of a module.
pub(crate) trait GraphVisitor {
    /// The next function or variable, in the module's order.
    fn global(&mut self, global: &RawGlobal);
    /// A reference from one global to another, both by index: as the callee of a call, or by its address.
    fn reference(&mut self, from: u32, to: u32, called: bool);
}

/// Visits all globals of a module whose bodies are loaded, then all references. Returns the reason if the module cannot be
/// partitioned.
pub(crate) fn visit_graph<V: GraphVisitor>(module: &Module<'_>, visitor: &mut V) -> Option<&'static str> {
    extern "C" fn visit_global<V: GraphVisitor>(visitor: *mut c_void, global: *const RawGlobal) {
        // SAFETY: `visitor` is the one below, which nothing else uses during the call; the global is alive during the visit.
        unsafe { (*visitor.cast::<V>()).global(&*global) }
    }
    extern "C" fn visit_reference<V: GraphVisitor>(visitor: *mut c_void, from: u32, to: u32, called: u8) {
        // SAFETY: as above.
        unsafe { (*visitor.cast::<V>()).reference(from, to, called != 0) }
    }
    let visitor: *mut V = visitor;
    // SAFETY: the module is alive, the callbacks fit the visitor's type, and the result is a literal or null.
    unsafe {
        let reason = fatlink_references(module.as_mut_ptr(), visitor.cast(), visit_global::<V>, visit_reference::<V>);
        (!reason.is_null()).then(|| CStr::from_ptr(reason).to_str().unwrap_or("it says so"))
    }
}
