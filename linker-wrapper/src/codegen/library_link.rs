//! What the libraries that link are given, and what both of them are held to.

use std::borrow::Cow;
use std::ffi::CString;

use offload_bundle::arch::GpuArch;
use offload_bundle::cubin;
use offload_bundle::ptx::DebugInfo;

use crate::codegen::device_object::Form;
use crate::diag::error::{Errors, collect};
use crate::diag::messages;

/// One input of a library.
#[derive(Debug, Clone, Copy)]
pub struct LinkInput<'a> {
    /// As messages call it.
    pub name: &'a str,
    /// What it is.
    pub form: Form,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl<'a> LinkInput<'a> {
    /// The bytes as a library wants them: PTX ends with a NUL.
    pub fn text(&self) -> Cow<'a, [u8]> {
        match self.form {
            Form::Ptx if self.bytes.last() != Some(&0) => Cow::Owned([self.bytes, &[0]].concat()),
            _ => Cow::Borrowed(self.bytes),
        }
    }
}

/// What the user wants of the code.
#[derive(Debug, Clone, Copy)]
pub struct LinkOptions<'a> {
    /// `-O` of ptxas.
    pub level: u8,
    /// `-g` on the line.
    pub debug: bool,
    /// Words for ptxas.
    pub ptxas_arguments: &'a [String],
}

impl LinkOptions<'_> {
    /// The most debug information that an input has: these libraries have one switch for all.
    pub fn debug_info(&self, inputs: &[LinkInput<'_>]) -> DebugInfo {
        if self.debug && self.level == 0 {
            return DebugInfo::Full;
        }
        let texts = inputs.iter().filter(|input| input.form == Form::Ptx);
        let kinds: Vec<DebugInfo> = texts.map(|input| DebugInfo::of(input.bytes)).collect();
        let any = |kind| kinds.contains(&kind);
        match (any(DebugInfo::Full), any(DebugInfo::Lines)) {
            (true, _) => DebugInfo::Full,
            (false, true) => DebugInfo::Lines,
            (false, false) => DebugInfo::None,
        }
    }
}

/// Refuses finished cubins: nvJitLink leaves them out of the result without a word.
///
/// # Errors
/// One for each that is finished or damaged.
pub fn require_relocatable(inputs: &[LinkInput<'_>], linker: &str) -> Result<(), Errors> {
    let cubins = inputs.iter().filter(|input| input.form == Form::Cubin);
    collect(cubins.map(|input| match cubin::parse(input.bytes) {
        Ok(cubin) if cubin.is_relocatable() => Ok(()),
        Ok(_) => Err(Errors::one(format_args!(
            "{}: the cubin is finished, and {linker} cannot link it with others; compile the file with -fgpu-rdc",
            input.name
        ))),
        Err(error) => Err(Errors::one(format_args!("{}: damaged cubin: {error}; rebuild the file", input.name))),
    }))
    .map(drop)
}

/// The result, if it is a sound cubin: nothing else goes into an image.
///
/// # Errors
/// It is empty or damaged.
pub fn require_cubin(bytes: Vec<u8>, linker: &str, arch: GpuArch) -> Result<Vec<u8>, Errors> {
    match cubin::parse(&bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(Errors::one(format_args!(
            "{linker} gave no usable machine code for {arch}: {error}; choose another --offload-backend"
        ))),
    }
}

/// Shows what a library has to say, as ptxas' words are shown.
pub fn show_log(log: &str) {
    if !log.is_empty() {
        messages::show(log);
    }
}

/// A string for C.
///
/// # Errors
/// It has a NUL inside.
pub fn c_string(text: &str) -> Result<CString, Errors> {
    CString::new(text).map_err(|_| Errors::one(format_args!("{text:?} has a NUL character inside; rename it")))
}
