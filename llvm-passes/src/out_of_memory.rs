//! What happens when no memory is left: the process says so, cleans up and ends, instead of a crash somewhere in LLVM or in
//! the Rust library. See [`crate::crash`].
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::Ordering;

use crate::{crash, sys};

/// From this size on whoever asks may well be prepared for a refusal: the size may be one that a damaged file gives.
const LARGE: usize = 1 << 30;

/// The system's allocator. Where it has no memory left, [`crash::out_of_memory`] ends the process.
#[derive(Debug)]
pub struct Allocator;

impl Allocator {
    fn checked(pointer: *mut u8, size: usize) -> *mut u8 {
        match (pointer.is_null(), size < LARGE) {
            (true, true) => crash::out_of_memory(),
            (true, false) => crash::LARGE_REFUSED.store(true, Ordering::Release),
            (false, _) => {}
        }
        pointer
    }
}

// SAFETY: all calls go to the system's allocator as they come, and so do its answers.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duties are the same.
        Self::checked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duties are the same.
        Self::checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's duties are the same.
        Self::checked(unsafe { System.realloc(pointer, layout, size) }, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's duties are the same.
        unsafe { System.dealloc(pointer, layout) };
    }
}

/// The same for what LLVM allocates.
pub(crate) fn watch_llvm() {
    extern "C" fn report() {
        crash::out_of_memory();
    }
    sys::on_out_of_memory(report);
}
