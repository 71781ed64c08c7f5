//! Reading the bodies of functions and variables, for comparison.

use std::ffi::{c_char, c_void};

use inkwell::llvm_sys::prelude::LLVMModuleRef;
use inkwell::module::Module;

type VisitBody = extern "C" fn(*mut c_void, u32, *const c_char, usize, *const u32, usize);

unsafe extern "C" {
    fn fatlink_bodies(module: LLVMModuleRef, visitor: *mut c_void, visit: VisitBody) -> bool;
}

/// Receives the bodies of a module.
pub(crate) trait BodyVisitor {
    /// The body of a global, by index in [`fatlink::numberedGlobals`]: equal bytes for equal bodies, and the globals that it refers to, in
    /// the order in which the bytes number them.
    fn body(&mut self, global: u32, bytes: &[u8], references: &[u32]);
}

/// Visits the functions and variables of a module whose bodies are loaded, in order, but for those that cannot be compared. Returns whether the module
/// has debug information of any kind.
pub(crate) fn visit_bodies<V: BodyVisitor>(module: &Module<'_>, visitor: &mut V) -> bool {
    extern "C" fn visit<V: BodyVisitor>(
        visitor: *mut c_void,
        global: u32,
        bytes: *const c_char,
        length: usize,
        references: *const u32,
        count: usize,
    ) {
        // SAFETY: `visitor` is the one below, which nothing else uses during the call; the arrays are alive during it, and not null unless
        // they are empty.
        unsafe {
            let bytes = if length == 0 { &[][..] } else { std::slice::from_raw_parts(bytes.cast(), length) };
            let references = if count == 0 { &[][..] } else { std::slice::from_raw_parts(references, count) };
            (*visitor.cast::<V>()).body(global, bytes, references);
        }
    }
    let visitor: *mut V = visitor;
    // SAFETY: the module is alive, and the callback fits the visitor's type.
    unsafe { fatlink_bodies(module.as_mut_ptr(), visitor.cast(), visit::<V>) }
}
