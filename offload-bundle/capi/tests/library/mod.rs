//! nvFatbin's functions, ours or NVIDIA's, for safe use.
#![allow(dead_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

type Handle = *mut c_void;
type Text = *const c_char;

/// The functions of one library.
pub struct Library {
    pub name: &'static str,
    create: unsafe extern "C" fn(*mut Handle, *const Text, usize) -> c_int,
    destroy: unsafe extern "C" fn(*mut Handle) -> c_int,
    add_ptx: unsafe extern "C" fn(Handle, Text, usize, Text, Text, Text) -> c_int,
    add_cubin: unsafe extern "C" fn(Handle, Text, usize, Text, Text) -> c_int,
    add_ltoir: unsafe extern "C" fn(Handle, Text, usize, Text, Text, Text) -> c_int,
    add_index: unsafe extern "C" fn(Handle, Text, usize, Text) -> c_int,
    add_reloc: unsafe extern "C" fn(Handle, Text, usize) -> c_int,
    /// Of 13.1 and later.
    add_tile_ir: Option<unsafe extern "C" fn(Handle, Text, usize, Text, Text) -> c_int>,
    size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    get: unsafe extern "C" fn(Handle, *mut c_void) -> c_int,
    version: unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> Text,
    /// Keeps it loaded.
    _loaded: libloading::Library,
}

/// NVIDIA's nvFatbin 13.0.
pub fn nvidia_13() -> Library {
    let root = PathBuf::from(std::env::var_os("CUDA_PATH").unwrap_or_default());
    Library::load("nvFatbin 13.0", &root.join("lib/libnvfatbin.so.13"))
}

/// NVIDIA's nvFatbin 13.5, whose version ours tells: it lies beside the CUDA tree.
pub fn nvidia_13_5() -> Library {
    let root = PathBuf::from(std::env::var_os("CUDA_PATH").unwrap_or_default());
    let root = root.parent().unwrap_or(&root);
    Library::load("nvFatbin 13.5", &root.join("nvfatbin-13/nvidia/cu13/lib/libnvfatbin.so.13"))
}

/// NVIDIA's nvFatbin 12.9.
pub fn nvidia_12() -> Library {
    let root = PathBuf::from(std::env::var_os("CUDA_PATH").unwrap_or_default());
    let root = root.canonicalize().unwrap_or(root);
    Library::load("nvFatbin 12.9", &root.join("../nvfatbin/lib/libnvfatbin.so.12"))
}

/// Ours as it is shipped, which `cargo xtask test` has built before it starts the tests.
pub fn ours() -> Library {
    let dist = std::env::var_os("FATLINK_DIST").map(PathBuf::from);
    let dist = dist.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist"));
    Library::load("ours", &dist.join("lib/libnvfatbin.so.13"))
}

impl Library {
    fn load(name: &'static str, path: &Path) -> Self {
        assert!(
            path.exists(),
            "no {}: run `cargo xtask setup` and `cargo xtask dist`, then `eval $(cargo xtask env)`",
            path.display()
        );
        macro_rules! function {
            ($loaded:expr, $name:literal) => {
                // SAFETY: the types are those of nvFatbin.h, and the library stays loaded.
                *unsafe { $loaded.get($name) }.expect("a function of nvFatbin")
            };
        }
        // SAFETY: both libraries only set up their own data when they are loaded.
        let loaded = unsafe { libloading::Library::new(path) }.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        // SAFETY: the type is that of nvFatbin.h, and the library stays loaded.
        let add_tile_ir = unsafe { loaded.get(b"nvFatbinAddTileIR") }.ok().map(|found| *found);
        Self {
            name,
            create: function!(loaded, b"nvFatbinCreate"),
            destroy: function!(loaded, b"nvFatbinDestroy"),
            add_ptx: function!(loaded, b"nvFatbinAddPTX"),
            add_cubin: function!(loaded, b"nvFatbinAddCubin"),
            add_ltoir: function!(loaded, b"nvFatbinAddLTOIR"),
            add_index: function!(loaded, b"nvFatbinAddIndex"),
            add_reloc: function!(loaded, b"nvFatbinAddReloc"),
            add_tile_ir,
            size: function!(loaded, b"nvFatbinSize"),
            get: function!(loaded, b"nvFatbinGet"),
            version: function!(loaded, b"nvFatbinVersion"),
            error_string: function!(loaded, b"nvFatbinGetErrorString"),
            _loaded: loaded,
        }
    }

    /// A fatbin of these options, or the code.
    pub fn create(&self, options: &[&str]) -> Result<Fatbin<'_>, i32> {
        let words: Vec<CString> = options.iter().map(|word| c_string(word.as_bytes())).collect();
        let pointers: Vec<Text> = words.iter().map(|word| word.as_ptr()).collect();
        let mut handle = ptr::null_mut();
        // SAFETY: all pointers are good.
        match unsafe { (self.create)(&mut handle, pointers.as_ptr(), pointers.len()) } {
            0 => Ok(Fatbin { library: self, handle }),
            code => Err(code),
        }
    }

    /// The codes of `nvFatbinCreate` without options but with a count, with a null option, and without a handle.
    pub fn create_with_nulls(&self) -> [i32; 3] {
        let mut handle = ptr::null_mut();
        let nulls = [ptr::null()];
        // SAFETY: null pointers are allowed.
        unsafe {
            [
                (self.create)(&mut handle, ptr::null(), 1),
                (self.create)(&mut handle, nulls.as_ptr(), 1),
                (self.create)(ptr::null_mut(), ptr::null(), 0),
            ]
        }
    }

    /// The codes of ending nothing, and of ending a fatbin twice.
    pub fn destroy_twice(&self) -> [i32; 3] {
        let mut handle = ptr::null_mut();
        // SAFETY: the pointer is good, and null pointers are allowed.
        unsafe {
            assert_eq!((self.create)(&mut handle, ptr::null(), 0), 0);
            [(self.destroy)(ptr::null_mut()), (self.destroy)(&mut handle), (self.destroy)(&mut handle)]
        }
    }

    /// Code, major, minor.
    pub fn version(&self) -> (i32, u32, u32) {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the pointers are good.
        let code = unsafe { (self.version)(&mut major, &mut minor) };
        (code, major, minor)
    }

    /// The text of a code.
    pub fn text_of(&self, code: i32) -> Option<String> {
        // SAFETY: any number is allowed.
        let text = unsafe { (self.error_string)(code) };
        // SAFETY: it is null or a string of the library.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    /// The codes of all functions that take a handle, without one.
    pub fn without_handle(&self) -> Vec<i32> {
        let fatbin = std::mem::ManuallyDrop::new(Fatbin { library: self, handle: ptr::null_mut() });
        let image = Some(&b"x"[..]);
        vec![
            fatbin.add_ptx(image, Some("90"), None, None),
            fatbin.add_cubin(image, Some("90"), None),
            fatbin.add_ltoir(image, Some("90"), None, None),
            fatbin.add_index(image),
            fatbin.add_reloc(image),
            fatbin.size().0,
            fatbin.get_into(&mut [0; 8]),
        ]
    }
}

fn c_string(text: &[u8]) -> CString {
    CString::new(text).expect("no NUL inside")
}

/// A fatbin under construction.
pub struct Fatbin<'l> {
    library: &'l Library,
    handle: Handle,
}

/// An image as pointer and size; null if it is missing. NVIDIA's library reads behind its end: there are a NUL, and numbers too large for
/// anything.
struct Image(Option<Vec<u8>>);

impl Image {
    fn new(image: Option<&[u8]>) -> Self {
        Self(image.map(|image| [image, &[0], &[0x11; 63]].concat()))
    }

    fn pointer(&self) -> Text {
        self.0.as_ref().map_or(ptr::null(), |bytes| bytes.as_ptr().cast())
    }

    fn size(&self) -> usize {
        self.0.as_ref().map_or(0, |bytes| bytes.len() - 64)
    }
}

/// A string or null.
struct OptionalText(Option<CString>);

impl OptionalText {
    fn new(text: Option<&[u8]>) -> Self {
        Self(text.map(c_string))
    }

    fn pointer(&self) -> Text {
        self.0.as_ref().map_or(ptr::null(), |text| text.as_ptr())
    }
}

impl Fatbin<'_> {
    pub fn add_ptx(&self, code: Option<&[u8]>, arch: Option<&str>, name: Option<&[u8]>, options: Option<&[u8]>) -> i32 {
        let (code, arch) = (Image::new(code), OptionalText::new(arch.map(str::as_bytes)));
        let (name, options) = (OptionalText::new(name), OptionalText::new(options));
        let (pointer, size) = (code.pointer(), code.size());
        // SAFETY: every pointer is null or good.
        unsafe { (self.library.add_ptx)(self.handle, pointer, size, arch.pointer(), name.pointer(), options.pointer()) }
    }

    pub fn add_cubin(&self, code: Option<&[u8]>, arch: Option<&str>, name: Option<&[u8]>) -> i32 {
        let (code, arch, name) =
            (Image::new(code), OptionalText::new(arch.map(str::as_bytes)), OptionalText::new(name));
        // SAFETY: every pointer is null or good.
        unsafe { (self.library.add_cubin)(self.handle, code.pointer(), code.size(), arch.pointer(), name.pointer()) }
    }

    /// Without a copy, for timing.
    pub fn add_ptx_in_place(&self, code: &[u8], arch: &CStr) -> i32 {
        // SAFETY: every pointer is null or good.
        unsafe {
            (self.library.add_ptx)(
                self.handle,
                code.as_ptr().cast(),
                code.len(),
                arch.as_ptr(),
                ptr::null(),
                ptr::null(),
            )
        }
    }

    /// Without a copy, for timing.
    pub fn add_cubin_in_place(&self, code: &[u8], arch: &CStr) -> i32 {
        // SAFETY: every pointer is null or good.
        unsafe { (self.library.add_cubin)(self.handle, code.as_ptr().cast(), code.len(), arch.as_ptr(), ptr::null()) }
    }

    pub fn add_ltoir(
        &self,
        code: Option<&[u8]>,
        arch: Option<&str>,
        name: Option<&[u8]>,
        options: Option<&[u8]>,
    ) -> i32 {
        let (code, arch) = (Image::new(code), OptionalText::new(arch.map(str::as_bytes)));
        let (name, options) = (OptionalText::new(name), OptionalText::new(options));
        let (pointer, size) = (code.pointer(), code.size());
        // SAFETY: every pointer is null or good.
        unsafe {
            (self.library.add_ltoir)(self.handle, pointer, size, arch.pointer(), name.pointer(), options.pointer())
        }
    }

    pub fn add_index(&self, code: Option<&[u8]>) -> i32 {
        let code = Image::new(code);
        // SAFETY: every pointer is null or good.
        unsafe { (self.library.add_index)(self.handle, code.pointer(), code.size(), ptr::null()) }
    }

    pub fn add_reloc(&self, code: Option<&[u8]>) -> i32 {
        let code = Image::new(code);
        // SAFETY: every pointer is null or good.
        unsafe { (self.library.add_reloc)(self.handle, code.pointer(), code.size()) }
    }

    /// `None` of a library that lacks the function.
    pub fn add_tile_ir(&self, code: Option<&[u8]>, name: Option<&[u8]>, options: Option<&[u8]>) -> Option<i32> {
        let (code, add) = (Image::new(code), self.library.add_tile_ir?);
        let (name, options) = (OptionalText::new(name), OptionalText::new(options));
        // SAFETY: every pointer is null or good.
        Some(unsafe { add(self.handle, code.pointer(), code.size(), name.pointer(), options.pointer()) })
    }

    /// Code and size.
    pub fn size(&self) -> (i32, usize) {
        let mut size = 0;
        // SAFETY: the handle is null or good, the pointer is good.
        let code = unsafe { (self.library.size)(self.handle, &mut size) };
        (code, size)
    }

    /// The codes of asking for the size and the bytes without a place for them.
    pub fn without_place(&self) -> [i32; 2] {
        // SAFETY: null pointers are allowed.
        unsafe { [(self.library.size)(self.handle, ptr::null_mut()), (self.library.get)(self.handle, ptr::null_mut())] }
    }

    /// Into a buffer that must have room for as many bytes as the size was last.
    pub fn get_into(&self, buffer: &mut [u8]) -> i32 {
        // SAFETY: the handle is null or good, the buffer is large enough.
        unsafe { (self.library.get)(self.handle, buffer.as_mut_ptr().cast()) }
    }

    /// The whole fatbin.
    pub fn finish(&self) -> Vec<u8> {
        let (code, size) = self.size();
        assert_eq!(code, 0, "{}", self.library.name);
        let mut bytes = vec![0xee; size];
        assert_eq!(self.get_into(&mut bytes), 0, "{}", self.library.name);
        bytes
    }
}

impl Drop for Fatbin<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is good, and nobody else has it.
        assert_eq!(unsafe { (self.library.destroy)(&mut self.handle) }, 0);
        assert!(self.handle.is_null());
    }
}
