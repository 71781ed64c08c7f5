//! Cancellations.

use fatlink::Cancellation;

use crate::pointers::free;

/// Cancels links from any thread.
pub struct fatlink_cancellation(pub(crate) Cancellation);

/// Returns a cancellation that cancels nothing yet, or null if the process has too many open files.
#[unsafe(no_mangle)]
pub extern "C" fn fatlink_cancellation_new() -> *mut fatlink_cancellation {
    Cancellation::new().map_or(std::ptr::null_mut(), |new| Box::into_raw(Box::new(fatlink_cancellation(new))))
}

/// Cancels the links that were given this cancellation, also those that are run later. Returns at once; each `fatlink_run` returns
/// within 0.2 seconds.
///
/// # Safety
/// `cancellation` is null or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_cancellation_cancel(cancellation: *const fatlink_cancellation) {
    // SAFETY: as the caller promises.
    if let Some(fatlink_cancellation(cancellation)) = unsafe { cancellation.as_ref() } {
        cancellation.cancel();
    }
}

/// Frees a cancellation. Links that were given it keep what they need of it.
///
/// # Safety
/// `cancellation` is null or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_cancellation_free(cancellation: *mut fatlink_cancellation) {
    // SAFETY: as the caller promises.
    unsafe { free(cancellation) };
}
