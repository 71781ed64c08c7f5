//! nvFatbin's C functions with this project's fatbin builder behind them: NVIDIA's names, codes, texts and call order.
//!
//! A program that was built against NVIDIA's `libnvfatbin.so.13` runs with ours in its place. `include/nvFatbin.h` declares the
//! functions. What is done otherwise than NVIDIA does it, and the options that only this library has, stand in `docs/how-to/nvfatbin.md`.
//!
//! 1. This file turns pointers into slices, and errors and panics into codes. It is the only one with `unsafe` code.
//! 2. `session.rs` enforces the rules: the order of calls, what is checked and in which order.
//! 3. `squeeze.rs` has the form in which nvFatbin 12 stores PTX.
// The names are NVIDIA's.
#![allow(non_snake_case, non_camel_case_types)]

mod session;
mod squeeze;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use offload_bundle::fatbin::FatbinError;
use session::Session;

/// A fatbin under construction.
pub struct nvFatbinHandleData(Session);

/// What the C type `nvFatbinHandle` is.
type Handle = *mut nvFatbinHandleData;

/// Runs `work` and answers with nvFatbin's code: 0, or that of the error, or 1 for a panic.
fn answer(work: impl FnOnce() -> Result<(), FatbinError>) -> c_int {
    const INTERNAL: c_int = 1;
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => c_int::try_from(error.code()).unwrap_or(INTERNAL),
        Err(_) => INTERNAL,
    }
}

/// The session behind a handle.
///
/// # Safety
/// `handle` is null or came from `nvFatbinCreate` and was not destroyed, and no other thread uses it.
unsafe fn session<'h>(handle: Handle) -> Result<&'h mut Session, FatbinError> {
    // SAFETY: as the caller promises.
    let found = unsafe { handle.as_mut() };
    found.map(|data| &mut data.0).ok_or(FatbinError::NullPointer("handle"))
}

/// The bytes of a string that may not be missing.
///
/// # Safety
/// `text` is null or a C string that lives as long as is needed.
unsafe fn required<'t>(text: *const c_char, name: &'static str) -> Result<&'t [u8], FatbinError> {
    if text.is_null() {
        return Err(FatbinError::NullPointer(name));
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// The bytes of a string that may be missing, which is the same as an empty one.
///
/// # Safety
/// That of [`required`].
unsafe fn optional<'t>(text: *const c_char) -> &'t [u8] {
    // SAFETY: as the caller promises.
    unsafe { required(text, "text") }.unwrap_or_default()
}

/// An image.
///
/// # Safety
/// `code` is null or points to `size` bytes that live as long as is needed.
unsafe fn image<'i>(code: *const c_void, size: usize) -> Result<&'i [u8], FatbinError> {
    if code.is_null() {
        return Err(FatbinError::NullPointer("code"));
    }
    if size == 0 {
        return Ok(&[]);
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts(code.cast(), size) })
}

/// nvFatbin's text for a code, null for success.
#[unsafe(no_mangle)]
pub extern "C" fn nvFatbinGetErrorString(result: c_int) -> *const c_char {
    FatbinError::text_of(result).map_or(std::ptr::null(), CStr::as_ptr)
}

/// Starts a fatbin.
///
/// # Safety
/// `handle` is null or may be written to; `options` is null or points to `count` pointers, each null or to a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvFatbinCreate(handle: *mut Handle, options: *const *const c_char, count: usize) -> c_int {
    answer(|| {
        if handle.is_null() || (options.is_null() && count > 0) {
            return Err(FatbinError::NullPointer("handle or options"));
        }
        let mut words = Vec::new();
        for index in 0..count {
            // SAFETY: there are `count` pointers, each null or to a C string.
            words.push(unsafe { required(*options.add(index), "options") }?);
        }
        let data = Box::new(nvFatbinHandleData(Session::create(&words)?));
        // SAFETY: it is not null, and the caller lets it be written to.
        unsafe { handle.write(Box::into_raw(data)) };
        Ok(())
    })
}

/// Ends a fatbin and makes the handle null.
///
/// # Safety
/// `handle` is null, or points to null or to a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvFatbinDestroy(handle: *mut Handle) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let place = unsafe { handle.as_mut() }.ok_or(FatbinError::NullPointer("handle"))?;
        let data = std::mem::replace(place, std::ptr::null_mut());
        if data.is_null() {
            return Err(FatbinError::NullPointer("handle"));
        }
        // SAFETY: it came from `Box::into_raw` in `nvFatbinCreate`.
        drop(unsafe { Box::from_raw(data) });
        Ok(())
    })
}

/// Adds PTX.
///
/// # Safety
/// Those of the handle, of `size` bytes at `code`, and of C strings, each of which may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvFatbinAddPTX(
    handle: Handle,
    code: *const c_char,
    size: usize,
    arch: *const c_char,
    identifier: *const c_char,
    options: *const c_char,
) -> c_int {
    // SAFETY: as the caller promises.
    answer(|| unsafe {
        let (session, arch) = (session(handle)?, required(arch, "arch")?);
        session.add_ptx(image(code.cast(), size)?, arch, optional(identifier), optional(options))
    })
}

/// Adds machine code.
///
/// # Safety
/// Those of [`nvFatbinAddPTX`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvFatbinAddCubin(
    handle: Handle,
    code: *const c_void,
    size: usize,
    arch: *const c_char,
    identifier: *const c_char,
) -> c_int {
    // SAFETY: as the caller promises.
    answer(|| unsafe {
        let (session, arch) = (session(handle)?, required(arch, "arch")?);
        session.add_cubin(image(code, size)?, arch, optional(identifier))
    })
}

/// Adds LTO-IR.
///
/// # Safety
/// Those of [`nvFatbinAddPTX`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvFatbinAddLTOIR(
    handle: Handle,
    code: *const c_void,
    size: usize,
    arch: *const c_char,
    identifier: *const c_char,
    options: *const c_char,
) -> c_int {
    // SAFETY: as the caller promises.
    answer(|| unsafe {
        let (session, arch) = (session(handle)?, required(arch, "arch")?);
        session.add_ltoir(image(code, size)?, arch, optional(identifier), optional(options))
    })
}

/// Always fails to add an index: its format is known to NVIDIA alone.
///
/// # Safety
/// Those of [`nvFatbinAddPTX`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvFatbinAddIndex(
    handle: Handle,
    code: *const c_void,
    size: usize,
    _identifier: *const c_char,
) -> c_int {
    // SAFETY: as the caller promises.
    answer(|| unsafe { session(handle)?.add_index(image(code, size)?) })
}

/// Adds the relocatable PTX of a host object.
///
/// # Safety
/// Those of [`nvFatbinAddPTX`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvFatbinAddReloc(handle: Handle, code: *const c_void, size: usize) -> c_int {
    // SAFETY: as the caller promises.
    answer(|| unsafe { session(handle)?.add_relocatable(image(code, size)?) })
}

/// Adds Tile IR.
///
/// # Safety
/// Those of [`nvFatbinAddPTX`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvFatbinAddTileIR(
    handle: Handle,
    code: *const c_void,
    size: usize,
    identifier: *const c_char,
    options: *const c_char,
) -> c_int {
    // SAFETY: as the caller promises.
    answer(|| unsafe { session(handle)?.add_tile_ir(image(code, size)?, optional(identifier), optional(options)) })
}

/// Builds the fatbin of what was added so far, and returns how many bytes [`nvFatbinGet`] writes.
///
/// # Safety
/// That of the handle; `size` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvFatbinSize(handle: Handle, size: *mut usize) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let session = unsafe { session(handle) }?;
        if size.is_null() {
            return Err(FatbinError::NullPointer("size"));
        }
        let found = session.size()?;
        // SAFETY: it is not null, and the caller lets it be written to.
        unsafe { size.write(found) };
        Ok(())
    })
}

/// Writes the fatbin.
///
/// # Safety
/// That of the handle; `buffer` is null or has room for as many bytes as [`nvFatbinSize`] returned last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvFatbinGet(handle: Handle, buffer: *mut c_void) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let session = unsafe { session(handle) }?;
        if buffer.is_null() {
            return Err(FatbinError::NullPointer("buffer"));
        }
        session.write_pieces(|offset, piece| {
            // SAFETY: all pieces together are as many bytes as `nvFatbinSize` returned, and `buffer` has room for them.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), buffer.cast::<u8>().add(offset), piece.len()) };
        })
    })
}

/// The version of nvFatbin whose behaviour this is.
///
/// # Safety
/// Both are null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvFatbinVersion(major: *mut c_uint, minor: *mut c_uint) -> c_int {
    answer(|| {
        if major.is_null() || minor.is_null() {
            return Err(FatbinError::NullPointer("major or minor"));
        }
        let version = session::VERSION;
        // SAFETY: neither is null, and the caller lets both be written to.
        unsafe {
            major.write(version.0);
            minor.write(version.1);
        }
        Ok(())
    })
}
