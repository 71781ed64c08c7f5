//! The description of a link.

use std::ffi::{c_char, c_void};

use fatlink::{Link, Ptx};

use crate::cancellation::fatlink_cancellation;
use crate::event::{Observer, fatlink_observer};
use crate::pointers::{Replace, change, free, path, slice, text, word};

/// The inputs of a link, and what is made of them.
pub struct fatlink_link(pub(crate) Link);

impl Replace for fatlink_link {
    type Held = Link;

    fn replace(&mut self, change: impl FnOnce(Link) -> Link) {
        self.0 = change(std::mem::take(&mut self.0));
    }
}

/// Returns a link without inputs.
#[unsafe(no_mangle)]
pub extern "C" fn fatlink_link_new() -> *mut fatlink_link {
    Box::into_raw(Box::new(fatlink_link(Link::new())))
}

/// Frees a link. Its results stay.
///
/// # Safety
/// `link` is null or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_link_free(link: *mut fatlink_link) {
    // SAFETY: as the caller promises.
    unsafe { free(link) };
}

/// Adds an input of bytes, which are copied: a host object with device code, an archive, an offload binary, or bare device code (LLVM
/// bitcode, PTX, a cubin, a fatbin). Diagnostics call it by `name`.
///
/// # Safety
/// `link` is null or was not freed; `data` is null or points to `size` bytes; `name` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_link_add_unit(
    link: *mut fatlink_link,
    data: *const u8,
    size: usize,
    name: *const c_char,
) {
    // SAFETY: as the caller promises.
    unsafe { change(link, |link| link.unit(slice(data, size), text(name))) };
}

/// Adds a file with what `fatlink_link_add_unit` takes. Of an archive, the members are linked that other inputs need.
///
/// # Safety
/// `link` is null or was not freed; `file` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_link_add_file(link: *mut fatlink_link, file: *const c_char) {
    // SAFETY: as the caller promises.
    unsafe { change(link, |link| link.file(path(file))) };
}

/// Adds an archive of which all members are linked.
///
/// # Safety
/// `link` is null or was not freed; `file` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_link_add_whole_archive(link: *mut fatlink_link, file: *const c_char) {
    // SAFETY: as the caller promises.
    unsafe { change(link, |link| link.whole_archive(path(file))) };
}

/// Adds a library, such as "foo" for libfoo.a in one of the folders of `fatlink_link_add_library_path`.
///
/// # Safety
/// `link` is null or was not freed; `name` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_link_add_library(link: *mut fatlink_link, name: *const c_char) {
    // SAFETY: as the caller promises.
    unsafe { change(link, |link| link.library(text(name))) };
}

/// Adds a folder in which libraries are searched.
///
/// # Safety
/// `link` is null or was not freed; `folder` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_link_add_library_path(link: *mut fatlink_link, folder: *const c_char) {
    // SAFETY: as the caller promises.
    unsafe { change(link, |link| link.library_path(path(folder))) };
}

/// Adds a target that machine code is made for, such as "sm_90". Without any, it is made for those that the units were compiled for.
///
/// # Safety
/// `link` is null or was not freed; `target` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_link_add_target(link: *mut fatlink_link, target: *const c_char) {
    // SAFETY: as the caller promises.
    unsafe { change(link, |link| link.target(text(target))) };
}

/// Says which PTX the image has: "objects" (what the units request), "none", "newest", "oldest", "all", or targets such as
/// "sm_80,sm_90".
///
/// # Safety
/// `link` is null or was not freed; `policy` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_link_set_ptx(link: *mut fatlink_link, policy: *const c_char) {
    // SAFETY: as the caller promises.
    unsafe { change(link, |link| link.ptx(Ptx::named(&text(policy)))) };
}

/// Keeps results of device links in a folder, and takes them from there.
///
/// # Safety
/// `link` is null or was not freed; `folder` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_link_set_cache(link: *mut fatlink_link, folder: *const c_char) {
    // SAFETY: as the caller promises.
    unsafe { change(link, |link| link.cache(path(folder))) };
}

/// Names the folder from which relative paths count. Without it they are errors.
///
/// # Safety
/// `link` is null or was not freed; `folder` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_link_set_base(link: *mut fatlink_link, folder: *const c_char) {
    // SAFETY: as the caller promises.
    unsafe { change(link, |link| link.base(path(folder))) };
}

/// Adds an option of the program fatlink, such as "--offload-compress=size".
///
/// # Safety
/// `link` is null or was not freed; `option` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_link_add_option(link: *mut fatlink_link, option: *const c_char) {
    // SAFETY: as the caller promises.
    unsafe { change(link, |link| link.option(word(option))) };
}

/// Makes the image alone, without a registration object.
///
/// # Safety
/// `link` is null or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_link_set_image_only(link: *mut fatlink_link) {
    // SAFETY: as the caller promises.
    unsafe { change(link, Link::image_only) };
}

/// Makes the report on the image, too.
///
/// # Safety
/// `link` is null or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_link_set_report(link: *mut fatlink_link) {
    // SAFETY: as the caller promises.
    unsafe { change(link, Link::report) };
}

/// Names a function that gets the events of the link, with `data`, in each thread that runs the link. Both must be valid as long as the
/// link is run. The function may not throw exceptions of C++.
///
/// # Safety
/// `link` is null or was not freed; `observer` may be called as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_link_set_observer(
    link: *mut fatlink_link,
    observer: fatlink_observer,
    data: *mut c_void,
) {
    let Some(observe) = observer else { return };
    let observer = Observer { observe, data };
    // SAFETY: as the caller promises.
    unsafe { change(link, |link| link.observed_by(move |event| observer.see(event))) };
}

/// Names what cancels the link.
///
/// # Safety
/// `link` and `cancellation` are null or were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_link_set_cancellation(
    link: *mut fatlink_link,
    cancellation: *const fatlink_cancellation,
) {
    // SAFETY: as the caller promises.
    if let Some(fatlink_cancellation(cancellation)) = unsafe { cancellation.as_ref() } {
        // SAFETY: as the caller promises.
        unsafe { change(link, |link| link.cancelled_by(cancellation)) };
    }
}
