//! Loads shared libraries and looks up their functions.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::path::Path;

use libloading::Library;

/// The result of a library's function; 0 is success.
pub type Code = c_int;

/// Loads a library until the process ends.
///
/// # Errors
/// The dynamic linker's message.
pub fn load(path: &Path) -> Result<ManuallyDrop<Library>, String> {
    // SAFETY: the initializers of NVIDIA's libraries have no effect outside them; the file is the one that the user named or that
    // the dynamic linker would find.
    unsafe { Library::new(path) }.map(ManuallyDrop::new).map_err(|error| error.to_string())
}

/// Looks up the function with the first of these names that the library exports.
pub fn function<T: Copy>(library: &Library, names: impl IntoIterator<Item = String>) -> Option<T> {
    // SAFETY: every caller passes the type that NVIDIA's headers declare for the name beside it.
    names.into_iter().find_map(|name| unsafe { library.get::<T>(name.as_str()) }.ok().map(|symbol| *symbol))
}

/// The code as a result.
pub fn succeeded(code: Code) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// The text of a log up to its NUL.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}
