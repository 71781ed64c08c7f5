//! The library fatlink for C: opaque handles, and results that hold their diagnostics.
//!
//! `include/fatlink.h` is made of these files by cbindgen, and says who owns what, and what threads may do. This crate is the only part of the
//! library with `unsafe` code: it turns pointers into references and slices, and panics into results.
//!
//! 1. `link.rs` describes a link, `linker.rs` runs it.
//! 2. `result.rs` has what a link has made, `event.rs` what it reports meanwhile.
//! 3. `pointers.rs` reads what C passes.
// The names are those of C.
#![allow(non_camel_case_types)]

mod cancellation;
mod event;
mod link;
mod linker;
mod pointers;
mod result;

use std::ffi::{CStr, c_char};

/// Returns the version of the library, such as "0.1.0". The program fatlink must be of the same version.
#[unsafe(no_mangle)]
pub extern "C" fn fatlink_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };
    VERSION.as_ptr()
}
