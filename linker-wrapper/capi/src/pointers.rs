//! What C passes, as values of Rust. Nothing is kept of it.

use std::ffi::{CStr, OsStr, OsString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// Runs `work`; a panic, which is a defect, becomes this value.
pub fn guarded<T>(work: impl FnOnce() -> T, on_panic: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| on_panic())
}

/// The bytes of a text, without its zero. `None` for a null pointer.
///
/// # Safety
/// `text` is null or ends with a zero.
unsafe fn bytes<'t>(text: *const c_char) -> Option<&'t [u8]> {
    if text.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    Some(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// A text. What is no UTF-8 in it is replaced; a null pointer is an empty text.
///
/// # Safety
/// `text` is null or ends with a zero.
pub unsafe fn text(text: *const c_char) -> String {
    // SAFETY: as the caller promises.
    String::from_utf8_lossy(unsafe { bytes(text) }.unwrap_or_default()).into_owned()
}

/// A word of a command line.
///
/// # Safety
/// `text` is null or ends with a zero.
pub unsafe fn word(text: *const c_char) -> OsString {
    // SAFETY: as the caller promises.
    OsStr::from_bytes(unsafe { bytes(text) }.unwrap_or_default()).to_owned()
}

/// A path. A null pointer is an empty path.
///
/// # Safety
/// `text` is null or ends with a zero.
pub unsafe fn path(text: *const c_char) -> PathBuf {
    // SAFETY: as the caller promises.
    unsafe { word(text) }.into()
}

/// A path, or `None` for a null pointer.
///
/// # Safety
/// `text` is null or ends with a zero.
pub unsafe fn optional_path(text: *const c_char) -> Option<PathBuf> {
    // SAFETY: as the caller promises.
    (!text.is_null()).then(|| unsafe { path(text) })
}

/// A unit's bytes; none for a null pointer.
///
/// # Safety
/// `data` is null or points to `size` bytes.
pub unsafe fn slice<'d>(data: *const u8, size: usize) -> &'d [u8] {
    if data.is_null() || size == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(data, size) }
}

/// Changes what a handle holds, by a function that takes it and gives it back.
///
/// # Safety
/// `handle` is null or came from the library, was not freed, and no other thread uses it.
pub unsafe fn change<H: Replace>(handle: *mut H, change: impl FnOnce(H::Held) -> H::Held) {
    // SAFETY: as the caller promises.
    let Some(handle) = (unsafe { handle.as_mut() }) else { return };
    guarded(|| handle.replace(change), || ());
}

/// A handle that holds a value of a builder.
pub trait Replace {
    /// The value.
    type Held;

    /// Replaces the value.
    fn replace(&mut self, change: impl FnOnce(Self::Held) -> Self::Held);
}

/// Frees a handle.
///
/// # Safety
/// `handle` is null or came from `Box::into_raw`, was not freed, and nobody uses it.
pub unsafe fn free<H>(handle: *mut H) {
    if !handle.is_null() {
        // SAFETY: as the caller promises.
        let handle = unsafe { Box::from_raw(handle) };
        guarded(|| drop(handle), || ());
    }
}
