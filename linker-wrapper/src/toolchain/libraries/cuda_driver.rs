//! The CUDA driver's library.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;
use offload_bundle::CudaRelease;

use super::loading::{Code, function, load, succeeded, text};
use crate::toolchain::error::Error;

type Handle = *mut c_void;

/// The loaded library: the functions of cuda.h that link.
#[derive(Debug)]
pub struct CudaDriver {
    _library: ManuallyDrop<Library>,
    path: PathBuf,
    context: OnceLock<Result<Context, Code>>,
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

/// A context of the first GPU. The driver links only inside one.
#[derive(Debug, Clone, Copy)]
pub struct Context(Handle);

// SAFETY: a context may be made current on any thread (CUDA driver API, "Context Management").
unsafe impl Send for Context {}
// SAFETY: the handle is never written to, and the driver synchronizes its own calls.
unsafe impl Sync for Context {}

impl CudaDriver {
    /// Loads the library. Does not touch a GPU.
    ///
    /// # Errors
    /// The file is not a library, or not this one.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::load(path).map_err(|reason| Error::Driver { path: path.to_owned(), reason })
    }

    fn load(path: &Path) -> Result<Self, String> {
        let library = load(path)?;
        macro_rules! find {
            ($name:literal) => {
                function(&library, [$name.to_owned()]).ok_or_else(|| format!("it exports no {}", $name))?
            };
        }
        Ok(CudaDriver {
            path: path.to_owned(),
            context: OnceLock::new(),
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

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The CUDA release that the driver supports, if it reports one; needs no GPU.
    pub fn release(&self) -> Option<CudaRelease> {
        let mut version = 0;
        // SAFETY: the header declares a pointer to a number.
        succeeded(unsafe { (self.version)(&raw mut version) }).ok()?;
        let version = u32::try_from(version).ok().filter(|version| *version > 0)?;
        Some(CudaRelease { major: version / 1000, minor: version % 1000 / 10 })
    }

    /// The context on the first GPU, which the first call creates.
    ///
    /// # Errors
    /// The driver's code, for instance because there is no GPU.
    pub fn context(&self) -> Result<Context, Code> {
        *self.context.get_or_init(|| self.start())
    }

    fn start(&self) -> Result<Context, Code> {
        let (mut device, mut context) = (0, ptr::null_mut());
        // SAFETY: the header declares pointers to a number and a handle; the context is never released.
        unsafe {
            succeeded((self.init)(0))?;
            succeeded((self.device)(&raw mut device, 0))?;
            succeeded((self.retain)(&raw mut context, device))?;
        }
        Ok(Context(context))
    }

    /// The name of a code, such as "CUDA_ERROR_NO_DEVICE".
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

    /// Begins a link with these options of `CUjit_option` and those for the logs.
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
        // SAFETY: see above; the arrays have `count` elements each.
        succeeded(unsafe { (self.create)(count, names, values, &raw mut linking.state) })?;
        Ok(linking)
    }
}

/// The size of each of the driver's logs; the driver truncates longer ones.
const LOG_SIZE: usize = 1 << 20;

/// A link in progress, with everything that the driver points to.
pub struct CudaLinking<'d> {
    driver: &'d CudaDriver,
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
    /// The driver's code; the error log has details.
    pub fn add(&mut self, kind: c_int, bytes: &[u8], name: &CStr) -> Result<(), Code> {
        let data = bytes.as_ptr().cast_mut().cast();
        // SAFETY: the driver reads the bytes and the name during the call and writes to neither.
        succeeded(unsafe {
            let (no_options, no_values) = (ptr::null_mut(), ptr::null_mut());
            (self.driver.add_data)(self.state, kind, data, bytes.len(), name.as_ptr(), 0, no_options, no_values)
        })
    }

    /// Links, and returns the cubin.
    ///
    /// # Errors
    /// The driver's code; the error log has details.
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

    /// The driver's error messages.
    pub fn error_log(&self) -> String {
        text(&self.errors)
    }

    /// The driver's other messages.
    pub fn info_log(&self) -> String {
        text(&self.info)
    }
}

impl Drop for CudaLinking<'_> {
    fn drop(&mut self) {
        if !self.state.is_null() {
            // SAFETY: create returned the state, and it is destroyed once; the buffers are freed after this.
            unsafe { (self.driver.destroy)(self.state) };
        }
    }
}
