//! What runs links.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use fatlink::{Error, Linker};

use crate::link::fatlink_link;
use crate::pointers::{Replace, change, free, guarded, optional_path, path, word};
use crate::result::{fatlink_result, fatlink_status};

/// The program fatlink, and the environment that it gets. It runs links.
pub struct fatlink_linker(Result<Linker, Error>);

impl Replace for fatlink_linker {
    type Held = Linker;

    fn replace(&mut self, change: impl FnOnce(Linker) -> Linker) {
        let taken = std::mem::replace(&mut self.0, Err(Error::Cancelled));
        self.0 = taken.map(change);
    }
}

/// Returns a linker that runs this program, or with a null pointer the one that is installed with the library. A program that is missing is
/// an error of the links that it should run.
///
/// # Safety
/// `program` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_linker_new(program: *const c_char) -> *mut fatlink_linker {
    // SAFETY: as the caller promises.
    let named = unsafe { optional_path(program) }.map(|program| Ok(Linker::at(program)));
    Box::into_raw(Box::new(fatlink_linker(named.unwrap_or_else(installed))))
}

/// The program beside the file that has this code: the shared library, or the program that the static library is linked into.
fn installed() -> Result<Linker, Error> {
    match own_file() {
        Some(file) if file.is_absolute() => Linker::beside(file),
        _ => Linker::found(),
    }
}

fn own_file() -> Option<PathBuf> {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let address = fatlink_linker_new as *const libc::c_void;
    // SAFETY: the structure may be written to; the function accepts any address.
    let is_found = unsafe { libc::dladdr(address, found.as_mut_ptr()) } != 0;
    if !is_found {
        return None;
    }
    // SAFETY: the function has succeeded, so that the structure is written.
    let name = unsafe { found.assume_init() }.dli_fname;
    if name.is_null() {
        return None;
    }
    // SAFETY: the name is a C string that the dynamic linker keeps.
    let name = unsafe { CStr::from_ptr(name) };
    // The library may be a link in a folder of its own.
    PathBuf::from(OsStr::from_bytes(name.to_bytes())).canonicalize().ok()
}

/// Names the CUDA toolkit whose tools links use.
///
/// # Safety
/// `linker` is null or was not freed; `root` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_linker_set_cuda(linker: *mut fatlink_linker, root: *const c_char) {
    // SAFETY: as the caller promises.
    unsafe { change(linker, |linker| linker.cuda(path(root))) };
}

/// Sets a variable of the program's environment, which is empty otherwise.
///
/// # Safety
/// `linker` is null or was not freed; the texts are null or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_linker_set_variable(
    linker: *mut fatlink_linker,
    name: *const c_char,
    value: *const c_char,
) {
    // SAFETY: as the caller promises.
    unsafe { change(linker, |linker| linker.variable(word(name), word(value))) };
}

/// Names the folder for temporary files; without it, /tmp.
///
/// # Safety
/// `linker` is null or was not freed; `folder` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_linker_set_temporary_folder(linker: *mut fatlink_linker, folder: *const c_char) {
    // SAFETY: as the caller promises.
    unsafe { change(linker, |linker| linker.temporary_files_in(path(folder))) };
}

/// Keeps this many processes of the program ready, so that links need not wait for their start.
///
/// # Safety
/// `linker` is null or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_linker_set_ahead(linker: *mut fatlink_linker, processes: usize) {
    // SAFETY: as the caller promises.
    unsafe { change(linker, |linker| linker.ahead(processes)) };
}

/// Frees a linker, and ends the processes that it keeps ready.
///
/// # Safety
/// `linker` is null or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_linker_free(linker: *mut fatlink_linker) {
    // SAFETY: as the caller promises.
    unsafe { free(linker) };
}

/// Runs a link, and returns what it has made, or its diagnostics if it failed. Never returns null. All that the link has started has ended
/// then, and its temporary files are gone.
///
/// # Safety
/// `linker` and `link` are null or were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_run(linker: *const fatlink_linker, link: *const fatlink_link) -> *mut fatlink_result {
    // SAFETY: as the caller promises.
    let handles = unsafe { linker.as_ref().zip(link.as_ref()) };
    let run = || match handles {
        Some((fatlink_linker(Ok(linker)), fatlink_link(link))) => fatlink_result::of(linker.run(link)),
        Some((fatlink_linker(Err(error)), _)) => fatlink_result::of(Err(missing(error))),
        None => {
            fatlink_result::of(Err(Error::Argument { what: "the linker or the link is a null pointer".to_owned() }))
        }
    };
    let result = guarded(run, || fatlink_result::empty(fatlink_status::Internal));
    Box::into_raw(Box::new(result))
}

/// The error of a linker without a program, once more.
fn missing(error: &Error) -> Error {
    match error {
        Error::NoProgram { searched } => Error::NoProgram { searched: searched.clone() },
        other => Error::Argument { what: other.to_string() },
    }
}
