//! Shared libraries that are loaded while the program runs, as safe types. With `mapped.rs` the only `unsafe` of this crate.
//!
//! A library stays loaded until the process ends: both have threads of their own.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;

use libloading::Library;
use offload_bundle::CudaRelease;

/// Of a library: its own result code; 0 is success.
pub type Code = c_int;

type Handle = *mut c_void;

/// Loads a library for good.
fn load(path: &Path) -> Result<ManuallyDrop<Library>, String> {
    // SAFETY: NVIDIA's libraries do nothing when they are loaded that could harm; the file is the one the user named, or
    // where the system's linker would find it.
    unsafe { Library::new(path) }.map(ManuallyDrop::new).map_err(|error| error.to_string())
}

/// The function of the first name that the library exports.
fn function<T: Copy>(library: &Library, names: impl IntoIterator<Item = String>) -> Option<T> {
    // SAFETY: every caller asks by a type that is written down beside the name, from NVIDIA's headers.
    names.into_iter().find_map(|name| unsafe { library.get::<T>(name.as_str()) }.ok().map(|symbol| *symbol))
}

/// The functions of nvJitLink.h.
#[derive(Debug)]
pub struct NvJitLink {
    _library: ManuallyDrop<Library>,
    release: CudaRelease,
    create: unsafe extern "C" fn(*mut Handle, u32, *const *const c_char) -> Code,
    destroy: unsafe extern "C" fn(*mut Handle) -> Code,
    add_data: unsafe extern "C" fn(Handle, c_int, *const c_void, usize, *const c_char) -> Code,
    complete: unsafe extern "C" fn(Handle) -> Code,
    cubin_size: GetSize,
    cubin: GetBytes,
    error_log_size: GetSize,
    error_log: GetBytes,
    info_log_size: GetSize,
    info_log: GetBytes,
}

type GetSize = unsafe extern "C" fn(Handle, *mut usize) -> Code;
type GetBytes = unsafe extern "C" fn(Handle, *mut c_char) -> Code;

impl NvJitLink {
    /// Loads the library and looks its functions up: by their plain names, else by the newest versioned ones, which are all
    /// that 12.0 to 12.2 export. Nothing is called to find out.
    ///
    /// # Errors
    /// The dynamic linker's words, or the name that is missing.
    pub fn load(path: &Path) -> Result<Self, String> {
        let library = load(path)?;
        let release = Self::release_of(&library)
            .ok_or_else(|| "it exports no nvJitLinkVersion and no __nvJitLinkCreate_<major>_<minor>".to_owned())?;
        macro_rules! find {
            ($name:literal) => {{
                let CudaRelease { major, minor } = release;
                let versioned = (0..=minor).rev().map(|minor| format!("__{}_{major}_{minor}", $name));
                function(&library, [$name.to_owned()].into_iter().chain(versioned))
                    .ok_or_else(|| format!("it exports no {}", $name))?
            }};
        }
        Ok(NvJitLink {
            release,
            create: find!("nvJitLinkCreate"),
            destroy: find!("nvJitLinkDestroy"),
            add_data: find!("nvJitLinkAddData"),
            complete: find!("nvJitLinkComplete"),
            cubin_size: find!("nvJitLinkGetLinkedCubinSize"),
            cubin: find!("nvJitLinkGetLinkedCubin"),
            error_log_size: find!("nvJitLinkGetErrorLogSize"),
            error_log: find!("nvJitLinkGetErrorLog"),
            info_log_size: find!("nvJitLinkGetInfoLogSize"),
            info_log: find!("nvJitLinkGetInfoLog"),
            _library: library,
        })
    }

    /// What the library says (from 12.3 on), else the newest of its versioned names.
    fn release_of(library: &Library) -> Option<CudaRelease> {
        type Version = unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> Code;
        let (mut major, mut minor) = (0, 0);
        if let Some(version) = function::<Version>(library, ["nvJitLinkVersion".to_owned()]) {
            // SAFETY: two places for numbers, as the header says.
            if unsafe { version(&raw mut major, &raw mut minor) } == 0 {
                return Some(CudaRelease { major, minor });
            }
        }
        let named = |CudaRelease { major, minor }: &CudaRelease| {
            let name = format!("{}{major}_{minor}", crate::toolchain::NVJITLINK_CREATE);
            function::<*const c_void>(library, [name]).is_some()
        };
        (12..=13).rev().flat_map(|major| (0..=9).rev().map(move |minor| CudaRelease { major, minor })).find(named)
    }

    /// The release of CUDA that it belongs to.
    pub fn release(&self) -> CudaRelease {
        self.release
    }

    /// Begins a link.
    ///
    /// # Errors
    /// The library's code: an option or the target is nothing for it.
    pub fn create(&self, options: &[CString]) -> Result<NvJitLinking<'_>, Code> {
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = u32::try_from(pointers.len()).map_err(|_| -1)?;
        let mut handle = ptr::null_mut();
        // SAFETY: `count` strings that end in NUL and live through the call.
        match unsafe { (self.create)(&raw mut handle, count, pointers.as_ptr()) } {
            0 => Ok(NvJitLinking { library: self, handle }),
            code => Err(code),
        }
    }
}

/// A link under way in nvJitLink.
pub struct NvJitLinking<'l> {
    library: &'l NvJitLink,
    handle: Handle,
}

impl NvJitLinking<'_> {
    /// Adds an input; `kind` is a `nvJitLinkInputType`.
    ///
    /// # Errors
    /// The library's code; the error log says more.
    pub fn add(&mut self, kind: c_int, bytes: &[u8], name: &CStr) -> Result<(), Code> {
        // SAFETY: the bytes and the name live through the call, and the library copies what it keeps.
        succeeded(unsafe {
            (self.library.add_data)(self.handle, kind, bytes.as_ptr().cast(), bytes.len(), name.as_ptr())
        })
    }

    /// Links.
    ///
    /// # Errors
    /// The library's code; the error log says more.
    pub fn complete(&mut self) -> Result<(), Code> {
        // SAFETY: the handle is alive.
        succeeded(unsafe { (self.library.complete)(self.handle) })
    }

    /// The linked cubin, after [`NvJitLinking::complete`].
    ///
    /// # Errors
    /// The library's code.
    pub fn cubin(&self) -> Result<Vec<u8>, Code> {
        self.bytes(self.library.cubin_size, self.library.cubin)
    }

    /// What went wrong, in the library's words.
    pub fn error_log(&self) -> String {
        text(&self.bytes(self.library.error_log_size, self.library.error_log).unwrap_or_default())
    }

    /// What it wants to say: warnings, and resources if asked for.
    pub fn info_log(&self) -> String {
        text(&self.bytes(self.library.info_log_size, self.library.info_log).unwrap_or_default())
    }

    fn bytes(&self, size: GetSize, get: GetBytes) -> Result<Vec<u8>, Code> {
        let mut length = 0;
        // SAFETY: the handle is alive; the size comes back in `length`.
        succeeded(unsafe { size(self.handle, &raw mut length) })?;
        if length == 0 {
            return Ok(Vec::new());
        }
        // One more than asked for: a log's NUL is counted by some releases only.
        let mut bytes = vec![0; length + 1];
        // SAFETY: there is room for what the library said it would write.
        succeeded(unsafe { get(self.handle, bytes.as_mut_ptr().cast()) })?;
        bytes.truncate(length);
        Ok(bytes)
    }
}

impl Drop for NvJitLinking<'_> {
    fn drop(&mut self) {
        // SAFETY: made by create, destroyed once.
        unsafe { (self.library.destroy)(&raw mut self.handle) };
    }
}

fn succeeded(code: Code) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// A log up to its NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

/// The functions of cuda.h that link.
#[derive(Debug)]
pub struct Cuda {
    _library: ManuallyDrop<Library>,
    init: unsafe extern "C" fn(c_uint) -> Code,
    version: unsafe extern "C" fn(*mut c_int) -> Code,
    device: unsafe extern "C" fn(*mut c_int, c_int) -> Code,
    retain: unsafe extern "C" fn(*mut Handle, c_int) -> Code,
    set_current: unsafe extern "C" fn(Handle) -> Code,
    error_name: unsafe extern "C" fn(Code, *mut *const c_char) -> Code,
    create: unsafe extern "C" fn(c_uint, *mut c_int, *mut *mut c_void, *mut Handle) -> Code,
    add_data: AddData,
    complete: unsafe extern "C" fn(Handle, *mut *mut c_void, *mut usize) -> Code,
    destroy: unsafe extern "C" fn(Handle) -> Code,
}

type AddData = unsafe extern "C" fn(
    Handle,
    c_int,
    *mut c_void,
    usize,
    *const c_char,
    c_uint,
    *mut c_int,
    *mut *mut c_void,
) -> Code;

/// A context of the first GPU: the driver links only inside one.
#[derive(Debug, Clone, Copy)]
pub struct Context(Handle);

// SAFETY: a context may be made current on any thread (CUDA driver API, "Context Management").
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Cuda {
    /// Loads the driver's library and looks its functions up.
    ///
    /// # Errors
    /// The dynamic linker's words, or the name that is missing.
    pub fn load(path: &Path) -> Result<Self, String> {
        let library = load(path)?;
        macro_rules! find {
            ($name:literal) => {
                function(&library, [$name.to_owned()]).ok_or_else(|| format!("it exports no {}", $name))?
            };
        }
        Ok(Cuda {
            init: find!("cuInit"),
            version: find!("cuDriverGetVersion"),
            device: find!("cuDeviceGet"),
            retain: find!("cuDevicePrimaryCtxRetain"),
            set_current: find!("cuCtxSetCurrent"),
            error_name: find!("cuGetErrorName"),
            create: find!("cuLinkCreate_v2"),
            add_data: find!("cuLinkAddData_v2"),
            complete: find!("cuLinkComplete"),
            destroy: find!("cuLinkDestroy"),
            _library: library,
        })
    }

    /// The release of CUDA that the driver is for; needs no GPU.
    pub fn release(&self) -> Option<CudaRelease> {
        let mut version = 0;
        // SAFETY: a place for a number, as the header says.
        succeeded(unsafe { (self.version)(&raw mut version) }).ok()?;
        let version = u32::try_from(version).ok().filter(|version| *version > 0)?;
        Some(CudaRelease { major: version / 1000, minor: version % 1000 / 10 })
    }

    /// Starts the driver and makes a context on the first GPU.
    ///
    /// # Errors
    /// The driver's code: there is no GPU, say.
    pub fn context(&self) -> Result<Context, Code> {
        let (mut device, mut context) = (0, ptr::null_mut());
        // SAFETY: places for a number and a handle, as the header says; the context is never released.
        unsafe {
            succeeded((self.init)(0))?;
            succeeded((self.device)(&raw mut device, 0))?;
            succeeded((self.retain)(&raw mut context, device))?;
        }
        Ok(Context(context))
    }

    /// "CUDA_ERROR_NO_DEVICE".
    pub fn error_name(&self, code: Code) -> String {
        let mut name = ptr::null();
        // SAFETY: the name is a constant of the library.
        unsafe {
            match (self.error_name)(code, &raw mut name) {
                0 if !name.is_null() => CStr::from_ptr(name).to_string_lossy().into_owned(),
                _ => format!("error {code}"),
            }
        }
    }

    /// Begins a link with these options of `CUjit_option`, beside the logs.
    ///
    /// # Errors
    /// The driver's code.
    pub fn create(&self, context: Context, options: &[(c_int, usize)]) -> Result<CudaLinking<'_>, Code> {
        const INFO_LOG: [c_int; 2] = [3, 4];
        const ERROR_LOG: [c_int; 2] = [5, 6];
        let mut linking = CudaLinking {
            driver: self,
            state: ptr::null_mut(),
            options: Vec::new(),
            values: Vec::new(),
            info: vec![0; LOG_SIZE],
            errors: vec![0; LOG_SIZE],
        };
        let logs = [(INFO_LOG, linking.info.as_mut_ptr()), (ERROR_LOG, linking.errors.as_mut_ptr())];
        for ([buffer, size], place) in logs {
            linking.options.extend([buffer, size]);
            linking.values.extend([place.cast(), ptr::without_provenance_mut(LOG_SIZE - 1)]);
        }
        linking.options.extend(options.iter().map(|(option, _)| *option));
        linking.values.extend(options.iter().map(|(_, value)| ptr::without_provenance_mut::<c_void>(*value)));
        let count = c_uint::try_from(linking.options.len()).map_err(|_| -1)?;
        let (names, values) = (linking.options.as_mut_ptr(), linking.values.as_mut_ptr());
        // SAFETY: the context is alive. The arrays and the buffers belong to `linking`, are never moved or grown again, and are
        // freed after `cuLinkDestroy`: until then the driver writes to them.
        succeeded(unsafe { (self.set_current)(context.0) })?;
        // SAFETY: as above.
        succeeded(unsafe { (self.create)(count, names, values, &raw mut linking.state) })?;
        Ok(linking)
    }
}

/// Bytes of each of the driver's logs; what is longer is cut off by the driver.
const LOG_SIZE: usize = 1 << 20;

/// A link under way in the driver, with all that the driver points to.
pub struct CudaLinking<'d> {
    driver: &'d Cuda,
    /// Null until it was created.
    state: Handle,
    options: Vec<c_int>,
    values: Vec<*mut c_void>,
    info: Vec<u8>,
    errors: Vec<u8>,
}

impl CudaLinking<'_> {
    /// Adds an input; `kind` is a `CUjitInputType`.
    ///
    /// # Errors
    /// The driver's code; the error log says more.
    pub fn add(&mut self, kind: c_int, bytes: &[u8], name: &CStr) -> Result<(), Code> {
        let data = bytes.as_ptr().cast_mut().cast();
        // SAFETY: the driver reads the bytes and the name during the call and writes to neither.
        succeeded(unsafe {
            let (no_options, no_values) = (ptr::null_mut(), ptr::null_mut());
            (self.driver.add_data)(self.state, kind, data, bytes.len(), name.as_ptr(), 0, no_options, no_values)
        })
    }

    /// Links; the cubin comes back.
    ///
    /// # Errors
    /// The driver's code; the error log says more.
    pub fn complete(&mut self) -> Result<Vec<u8>, Code> {
        let (mut cubin, mut size) = (ptr::null_mut(), 0);
        // SAFETY: the cubin belongs to the driver until `cuLinkDestroy`, and is copied before.
        unsafe {
            succeeded((self.driver.complete)(self.state, &raw mut cubin, &raw mut size))?;
            if cubin.is_null() || size == 0 {
                return Ok(Vec::new());
            }
            Ok(std::slice::from_raw_parts(cubin.cast::<u8>(), size).to_vec())
        }
    }

    /// What went wrong, in the driver's words.
    pub fn error_log(&self) -> String {
        text(&self.errors)
    }

    /// What it wants to say.
    pub fn info_log(&self) -> String {
        text(&self.info)
    }
}

impl Drop for CudaLinking<'_> {
    fn drop(&mut self) {
        if !self.state.is_null() {
            // SAFETY: made by create, destroyed once; the buffers are freed after this.
            unsafe { (self.driver.destroy)(self.state) };
        }
    }
}
