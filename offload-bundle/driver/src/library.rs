//! The driver's library: the functions of cuda.h that load modules.
#![allow(unsafe_code)]

use std::error::Error as _;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;

use libloading::Library;

use crate::error::{Error, Failure};

/// The result of a function; 0 is success.
type Code = c_int;
type Handle = *mut c_void;

/// The driver, with a context on the first GPU.
pub struct Driver {
    /// Never unloaded: the driver has threads.
    _library: ManuallyDrop<Library>,
    version: unsafe extern "C" fn(*mut c_int) -> Code,
    device_attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> Code,
    device_name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> Code,
    error_name: unsafe extern "C" fn(Code, *mut *const c_char) -> Code,
    load: unsafe extern "C" fn(*mut Handle, *const c_void) -> Code,
    unload: unsafe extern "C" fn(Handle) -> Code,
    function: unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> Code,
    function_attribute: unsafe extern "C" fn(*mut c_int, c_int, Handle) -> Code,
}

/// What the driver says of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Registers of a thread.
    pub registers: i32,
    /// Ten times the version of the PTX's target, as 80.
    pub ptx_version: i32,
    /// Ten times the version of the machine code's GPU, as 90.
    pub binary_version: i32,
}

/// The numbers of `CUdevice_attribute` and `CUfunction_attribute`.
const CAPABILITY: [c_int; 2] = [75, 76];
const REGISTERS: c_int = 4;
const PTX_VERSION: c_int = 5;
const BINARY_VERSION: c_int = 6;

/// What the dynamic linker says.
fn reason(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

impl Driver {
    /// Loads the library, and creates a context on the first GPU.
    ///
    /// # Errors
    /// There is no driver, or no GPU.
    pub fn start(path: &Path) -> Result<Self, Error> {
        // SAFETY: the initializers of the driver's library have no effect outside it; the file is the one that the dynamic linker finds
        // under this name for any CUDA program.
        let library = unsafe { Library::new(path) }.map_err(|error| Error::Library(reason(&error)))?;
        let library = ManuallyDrop::new(library);
        macro_rules! find {
            ($name:literal) => {
                // SAFETY: the type of each place is that which cuda.h declares for the name.
                *unsafe { library.get($name) }.map_err(|error| Error::Library(reason(&error)))?
            };
        }
        let init: unsafe extern "C" fn(c_uint) -> Code = find!("cuInit");
        let device: unsafe extern "C" fn(*mut c_int, c_int) -> Code = find!("cuDeviceGet");
        let retain: unsafe extern "C" fn(*mut Handle, c_int) -> Code = find!("cuDevicePrimaryCtxRetain");
        let set_current: unsafe extern "C" fn(Handle) -> Code = find!("cuCtxSetCurrent");
        let driver = Driver {
            version: find!("cuDriverGetVersion"),
            device_attribute: find!("cuDeviceGetAttribute"),
            device_name: find!("cuDeviceGetName"),
            error_name: find!("cuGetErrorName"),
            load: find!("cuModuleLoadData"),
            unload: find!("cuModuleUnload"),
            function: find!("cuModuleGetFunction"),
            function_attribute: find!("cuFuncGetAttribute"),
            _library: library,
        };
        let (mut number, mut context) = (0, ptr::null_mut());
        // SAFETY: the header declares pointers to a number and a handle; the context is never released.
        let mut begin = || unsafe {
            driver.check(init(0))?;
            driver.check(device(&raw mut number, 0))?;
            driver.check(retain(&raw mut context, number))?;
            driver.check(set_current(context))
        };
        begin().map_err(Error::Start)?;
        Ok(driver)
    }

    /// The CUDA release that the driver supports, as 13000.
    pub fn cuda_version(&self) -> i32 {
        let mut version = 0;
        // SAFETY: the header declares a pointer to a number.
        let found = self.check(unsafe { (self.version)(&raw mut version) });
        if found.is_ok() { version } else { 0 }
    }

    /// The number of the first GPU's architecture: 90 of sm_90.
    ///
    /// # Errors
    /// The driver's code.
    pub fn capability(&self) -> Result<u32, Failure> {
        let mut numbers = [0; 2];
        for (number, attribute) in numbers.iter_mut().zip(CAPABILITY) {
            // SAFETY: the header declares a pointer to a number; the device was started.
            self.check(unsafe { (self.device_attribute)(number, attribute, 0) })?;
        }
        Ok(numbers.iter().fold(0, |sum, number| sum * 10 + u32::try_from(*number).unwrap_or(0)))
    }

    /// The name of the first GPU.
    pub fn gpu_name(&self) -> String {
        let mut name = [0_u8; 128];
        let size = c_int::try_from(name.len() - 1).unwrap_or(0);
        // SAFETY: the driver writes at most `size` bytes, and the last byte stays 0.
        let found = self.check(unsafe { (self.device_name)(name.as_mut_ptr().cast(), size, 0) });
        let text = CStr::from_bytes_until_nul(&name).map(CStr::to_string_lossy).unwrap_or_default();
        if found.is_ok() { text.into_owned() } else { String::new() }
    }

    /// Loads a fatbin, a cubin, or PTX that ends with a NUL. Its header decides how many bytes the driver reads: the caller has read it
    /// before, and found it whole.
    ///
    /// # Errors
    /// The driver's code.
    pub fn load(&self, image: &[u8]) -> Result<Module<'_>, Failure> {
        let mut module = ptr::null_mut();
        // SAFETY: the driver reads the image during the call alone. It trusts the sizes in it, which the caller has checked.
        self.check(unsafe { (self.load)(&raw mut module, image.as_ptr().cast()) })?;
        Ok(Module { driver: self, handle: module, _alone: PhantomData })
    }

    fn check(&self, code: Code) -> Result<(), Failure> {
        if code == 0 {
            return Ok(());
        }
        let mut name = ptr::null();
        // SAFETY: the name is a constant of the library.
        let name = unsafe {
            match (self.error_name)(code, &raw mut name) {
                0 if !name.is_null() => CStr::from_ptr(name).to_string_lossy().into_owned(),
                _ => format!("error {code}"),
            }
        };
        Err(Failure(name))
    }
}

/// A loaded module.
pub struct Module<'d> {
    driver: &'d Driver,
    handle: Handle,
    /// A context is current on one thread.
    _alone: PhantomData<*mut ()>,
}

impl Module<'_> {
    /// Looks up a kernel; with lazy loading, this loads it.
    ///
    /// # Errors
    /// The driver's code; a name with a NUL in it is not found.
    pub fn kernel(&self, name: &str) -> Result<Attributes, Failure> {
        let name = CString::new(name).map_err(|_| Failure("CUDA_ERROR_NOT_FOUND".to_owned()))?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded, and the name ends with a NUL.
        self.driver.check(unsafe { (self.driver.function)(&raw mut function, self.handle, name.as_ptr()) })?;
        let attribute = |number| {
            let mut value = 0;
            // SAFETY: the header declares a pointer to a number; the function is of a module that is loaded.
            self.driver
                .check(unsafe { (self.driver.function_attribute)(&raw mut value, number, function) })
                .map(|()| value)
        };
        Ok(Attributes {
            registers: attribute(REGISTERS)?,
            ptx_version: attribute(PTX_VERSION)?,
            binary_version: attribute(BINARY_VERSION)?,
        })
    }
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        // SAFETY: the module is loaded, and its functions are not used afterwards. A failure leaves it loaded.
        let _ = unsafe { (self.driver.unload)(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_driver_is_an_error() {
        let missing = Driver::start(Path::new("/nonexistent/libcuda.so.1")).err();
        assert!(
            matches!(&missing, Some(Error::Library(why)) if why.contains("/nonexistent/libcuda.so.1")),
            "{missing:?}"
        );
        // A library that exports none of the functions.
        let other = Driver::start(Path::new("libc.so.6")).err();
        assert!(matches!(&other, Some(Error::Library(why)) if why.contains("cuInit")), "{other:?}");
    }
}
