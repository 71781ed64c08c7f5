//! Moving chosen definitions from one module into another.

use std::ffi::{CString, c_char, c_void};
use std::marker::PhantomData;
use std::mem::{align_of, offset_of, size_of};
use std::ptr;

use inkwell::llvm_sys::prelude::{LLVMModuleRef, LLVMValueRef};
use inkwell::module::Module;
use inkwell::values::{AsValueRef, FunctionValue};

use serde::{Deserialize, Serialize};

use super::take_message;

/// How a global comes into a partition. The values are shared with mover.cpp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum How {
    /// As a copy of the partition's own.
    Copy = 0,
    /// With its body for the optimizer to use; another partition owns it.
    Available = 1,
    /// As a declaration; another partition owns it.
    Declaration = 2,
    /// As a weak definition, of which the final link keeps one.
    Folded = 3,
    /// As the definition that all partitions reference: this one owns it.
    Owned = 4,
}

/// The visibility of definitions that partitions share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// They are visible to everything, as PTX requires.
    All,
    /// Local ones become hidden, and all others keep theirs.
    Kept,
}

/// What becomes of one global of a unit; mirrored in mover.cpp.
#[repr(C)]
struct RawTake {
    index: u32,
    how: u8,
    name: *const c_char,
}

const _: () = {
    assert!(size_of::<RawTake>() == 16 && align_of::<RawTake>() == 8);
    assert!(offset_of!(RawTake, index) == 0);
    assert!(offset_of!(RawTake, how) == 4);
    assert!(offset_of!(RawTake, name) == 8);
    // The values of `How` in mover.cpp.
    assert!(How::Copy as u8 == 0 && How::Available as u8 == 1 && How::Declaration as u8 == 2);
    assert!(How::Folded as u8 == 3 && How::Owned as u8 == 4);
};

unsafe extern "C" {
    fn fatlink_delete_body(function: LLVMValueRef);
    fn fatlink_mover_new(destination: LLVMModuleRef, keeps_visibility: bool) -> *mut c_void;
    fn fatlink_mover_delete(mover: *mut c_void);
    fn fatlink_mover_move(
        mover: *mut c_void,
        source: LLVMModuleRef,
        takes: *const RawTake,
        count: usize,
    ) -> *mut c_char;
}

/// Turns a definition into a declaration.
pub(crate) fn delete_body(function: FunctionValue<'_>) {
    // SAFETY: the function lives in a live module.
    unsafe { fatlink_delete_body(function.as_value_ref()) }
}

/// Moves chosen definitions of several modules into one, loading only the bodies that are needed.
pub(crate) struct Mover<'m, 'ctx> {
    raw: *mut c_void,
    // The mover points at it.
    destination: PhantomData<&'m Module<'ctx>>,
}

impl<'m, 'ctx> Mover<'m, 'ctx> {
    pub(crate) fn new(destination: &'m Module<'ctx>, visibility: Visibility) -> Self {
        // SAFETY: the lifetimes make the module outlive the mover.
        let raw = unsafe { fatlink_mover_new(destination.as_mut_ptr(), visibility == Visibility::Kept) };
        Mover { raw, destination: PhantomData }
    }

    /// Moves the globals with these indices, and declarations of what they reference.
    pub(crate) fn take(&mut self, source: Module<'ctx>, takes: &[(u32, How, Option<CString>)]) -> Result<(), String> {
        let raw_takes: Vec<RawTake> = takes
            .iter()
            .map(|(index, how, name)| RawTake {
                index: *index,
                how: *how as u8,
                name: name.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
            })
            .collect();
        let module = source.as_mut_ptr();
        std::mem::forget(source);
        // SAFETY: both modules live in one context; LLVM consumes the source even if it fails; the names outlive the call; a
        // message is ours to free.
        match unsafe { take_message(fatlink_mover_move(self.raw, module, raw_takes.as_ptr(), raw_takes.len())) } {
            None => Ok(()),
            Some(message) => Err(message),
        }
    }
}

impl Drop for Mover<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: fatlink_mover_new created it, and it is deleted once.
        unsafe { fatlink_mover_delete(self.raw) }
    }
}
