//! Running out of memory: the process reports it, cleans up and ends, instead of crashing somewhere in LLVM or in Rust's library.
//! See [`crate::crash`].
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::Ordering;

use crate::crash;

/// A failed allocation of this size or more returns null instead of ending the process: the size may come from a damaged file, and
/// the caller may handle the failure.
const LARGE: usize = 1 << 30;

/// The system's allocator. If it has no memory left, [`crash::out_of_memory`] ends the process.
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

// SAFETY: all calls and results pass unchanged to and from the system's allocator.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller meets the same contract.
        Self::checked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller meets the same contract.
        Self::checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller meets the same contract.
        Self::checked(unsafe { System.realloc(pointer, layout, size) }, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller meets the same contract.
        unsafe { System.dealloc(pointer, layout) };
    }
}

/// Returns memory that is not in use to the system, for a process that goes on after LLVM is done.
pub fn return_free_memory() {
    // SAFETY: the call changes nothing that is in use.
    unsafe { libc::malloc_trim(0) };
}
