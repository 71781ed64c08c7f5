//! NVIDIA's nvJitLink, as far as a test needs it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr;

type Handle = *mut c_void;

/// `NVJITLINK_INPUT_FATBIN`.
const FATBIN: c_int = 4;

/// Links the LTO-IR in a fatbin for sm_90 to a cubin.
pub fn link(fatbin: &[u8]) -> Vec<u8> {
    let root = PathBuf::from(std::env::var_os("CUDA_PATH").expect("CUDA_PATH"));
    let path = root.join("lib/libnvJitLink.so.13");
    // SAFETY: the library only sets up its own data when it is loaded.
    let library = unsafe { libloading::Library::new(&path) }.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    macro_rules! call {
        ($name:literal, $type:ty, $($argument:expr),*) => {
            // SAFETY: the type is that of nvJitLink.h, the pointers are good.
            unsafe {
                let function: libloading::Symbol<'_, $type> = library.get($name).expect("a function of nvJitLink");
                assert_eq!(function($($argument),*), 0, "{}", String::from_utf8_lossy($name));
            }
        };
    }
    let options: [&CStr; 2] = [c"-arch=sm_90", c"-lto"];
    let options = options.map(CStr::as_ptr);
    let mut handle: Handle = ptr::null_mut();
    type Create = unsafe extern "C" fn(*mut Handle, u32, *const *const c_char) -> c_int;
    call!(b"nvJitLinkCreate", Create, &mut handle, 2, options.as_ptr());
    type AddData = unsafe extern "C" fn(Handle, c_int, *const c_void, usize, *const c_char) -> c_int;
    call!(b"nvJitLinkAddData", AddData, handle, FATBIN, fatbin.as_ptr().cast(), fatbin.len(), c"k.fatbin".as_ptr());
    call!(b"nvJitLinkComplete", unsafe extern "C" fn(Handle) -> c_int, handle);
    let mut size = 0;
    type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
    call!(b"nvJitLinkGetLinkedCubinSize", Size, handle, &mut size);
    let mut cubin = vec![0_u8; size];
    type Get = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;
    call!(b"nvJitLinkGetLinkedCubin", Get, handle, cubin.as_mut_ptr().cast());
    call!(b"nvJitLinkDestroy", unsafe extern "C" fn(*mut Handle) -> c_int, &mut handle);
    cubin
}
