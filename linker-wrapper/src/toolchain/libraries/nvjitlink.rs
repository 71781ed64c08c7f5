//! libnvJitLink.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::Library;
use offload_bundle::CudaRelease;

use super::loading::{Code, function, load, succeeded, text};
use crate::toolchain::error::Error;
use crate::toolchain::versions::NVJITLINK_CREATE;

type Handle = *mut c_void;

/// The loaded library: the functions of nvJitLink.h.
#[derive(Debug)]
pub struct NvJitLink {
    _library: ManuallyDrop<Library>,
    path: PathBuf,
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
    /// Loads the library.
    ///
    /// # Errors
    /// The file is not a library, or not this one.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::load(path).map_err(|reason| Error::NvJitLink { path: path.to_owned(), reason })
    }

    /// Looks up the functions by their plain names, else by the newest versioned ones, which are all that 12.0 to 12.2 export.
    fn load(path: &Path) -> Result<Self, String> {
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
            path: path.to_owned(),
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

    /// The release that the library reports (from 12.3 on), else that of the newest of its versioned names.
    fn release_of(library: &Library) -> Option<CudaRelease> {
        type Version = unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> Code;
        let (mut major, mut minor) = (0, 0);
        if let Some(version) = function::<Version>(library, ["nvJitLinkVersion".to_owned()]) {
            // SAFETY: the header declares two pointers to numbers.
            if unsafe { version(&raw mut major, &raw mut minor) } == 0 {
                return Some(CudaRelease { major, minor });
            }
        }
        let named = |CudaRelease { major, minor }: &CudaRelease| {
            let name = format!("{NVJITLINK_CREATE}{major}_{minor}");
            function::<*const c_void>(library, [name]).is_some()
        };
        (12..=13).rev().flat_map(|major| (0..=9).rev().map(move |minor| CudaRelease { major, minor })).find(named)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The CUDA release that it belongs to.
    pub fn release(&self) -> CudaRelease {
        self.release
    }

    /// Begins a link.
    ///
    /// # Errors
    /// The library's code: an option or the target is unsupported.
    pub fn create(&self, options: &[CString]) -> Result<NvJitLinking<'_>, Code> {
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = u32::try_from(pointers.len()).map_err(|_| -1)?;
        let mut handle = ptr::null_mut();
        // SAFETY: `count` strings end in NUL and outlive the call.
        match unsafe { (self.create)(&raw mut handle, count, pointers.as_ptr()) } {
            0 => Ok(NvJitLinking { library: self, handle, names: Vec::new() }),
            code => Err(code),
        }
    }
}

/// A link in progress.
pub struct NvJitLinking<'l> {
    library: &'l NvJitLink,
    handle: Handle,
    /// The names of the inputs: the library copies the bytes of an input, and of its name no more than the address.
    names: Vec<CString>,
}

impl NvJitLinking<'_> {
    /// Adds an input; `kind` is a `nvJitLinkInputType`.
    ///
    /// # Errors
    /// The library's code; the error log has details.
    pub fn add(&mut self, kind: c_int, bytes: &[u8], name: CString) -> Result<(), Code> {
        // Moving the string into the list does not move its bytes.
        let text = name.as_ptr();
        self.names.push(name);
        // SAFETY: the bytes outlive the call, which copies them; the name lives as long as the handle.
        succeeded(unsafe { (self.library.add_data)(self.handle, kind, bytes.as_ptr().cast(), bytes.len(), text) })
    }

    /// Links.
    ///
    /// # Errors
    /// The library's code; the error log has details.
    pub fn complete(&mut self) -> Result<(), Code> {
        // SAFETY: the handle has not been destroyed.
        succeeded(unsafe { (self.library.complete)(self.handle) })
    }

    /// The linked cubin, after [`NvJitLinking::complete`].
    ///
    /// # Errors
    /// The library's code.
    pub fn cubin(&self) -> Result<Vec<u8>, Code> {
        self.bytes(self.library.cubin_size, self.library.cubin)
    }

    /// The library's error messages.
    pub fn error_log(&self) -> String {
        text(&self.bytes(self.library.error_log_size, self.library.error_log).unwrap_or_default())
    }

    /// The library's warnings, and the resources of kernels if an option requests them.
    pub fn info_log(&self) -> String {
        text(&self.bytes(self.library.info_log_size, self.library.info_log).unwrap_or_default())
    }

    fn bytes(&self, size: GetSize, get: GetBytes) -> Result<Vec<u8>, Code> {
        let mut length = 0;
        // SAFETY: the handle has not been destroyed; the library writes the size to `length`.
        succeeded(unsafe { size(self.handle, &raw mut length) })?;
        if length == 0 {
            return Ok(Vec::new());
        }
        // One byte more than that: only some releases count the NUL of a log.
        let mut bytes = vec![0; length + 1];
        // SAFETY: the buffer has at least the size that the library reported.
        succeeded(unsafe { get(self.handle, bytes.as_mut_ptr().cast()) })?;
        bytes.truncate(length);
        Ok(bytes)
    }
}

impl Drop for NvJitLinking<'_> {
    fn drop(&mut self) {
        // SAFETY: `create` returned the handle, which is destroyed only here.
        unsafe { (self.library.destroy)(&raw mut self.handle) };
    }
}
