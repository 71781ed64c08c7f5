//! What nvJitLink and the driver have in common: their inputs and options, and the checks of inputs and results.

use std::borrow::Cow;
use std::ffi::CString;
use std::path::Path;

use offload_bundle::arch::GpuArch;
use offload_bundle::cubin;
use offload_bundle::ptx::DebugInfo;

use crate::diag::error::Errors;
use crate::diag::messages;
use crate::machines::nvptx::codegen::device_object::Form;
use crate::machines::nvptx::codegen::error::Error;

/// One input of a library.
#[derive(Debug, Clone, Copy)]
pub struct LinkInput<'a> {
    /// The name for messages.
    pub name: &'a str,
    /// Its form.
    pub form: Form,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl<'a> LinkInput<'a> {
    /// The bytes as a library reads them: PTX has to end with a NUL.
    pub fn text(&self) -> Cow<'a, [u8]> {
        match self.form {
            Form::Ptx if self.bytes.last() != Some(&0) => Cow::Owned([self.bytes, &[0]].concat()),
            _ => Cow::Borrowed(self.bytes),
        }
    }
}

/// Options of a link.
#[derive(Debug, Clone, Copy)]
pub struct LinkOptions<'a> {
    /// `-O` of ptxas.
    pub level: u8,
    /// `-g` is on the command line.
    pub debug: bool,
    /// Arguments for ptxas.
    pub ptxas_arguments: &'a [String],
    /// NVIDIA's device runtime, an archive, if LTO-IR is linked: its kernels may launch kernels.
    pub device_runtime: Option<&'a Path>,
}

impl LinkOptions<'_> {
    /// The most debug information that any input has: the libraries have one option for all inputs.
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

/// Rejects finished cubins, which nvJitLink drops from the result without a diagnostic.
///
/// # Errors
/// One for each cubin that is finished or damaged.
pub fn require_relocatable(inputs: &[LinkInput<'_>], linker: &'static str) -> Result<(), Errors> {
    let cubins = inputs.iter().filter(|input| input.form == Form::Cubin);
    let name = |input: &LinkInput<'_>| input.name.to_owned();
    let rejected = cubins.filter_map(|input| match cubin::parse(input.bytes) {
        Ok(cubin) if cubin.is_relocatable() => None,
        Ok(_) => Some(Error::FinishedCubin { name: name(input), linker }),
        Err(source) => Some(Error::DamagedCubin { name: name(input), source }),
    });
    rejected.collect::<Errors>().or(())
}

/// Checks that the result of a library is a sound cubin before it goes into an image.
///
/// # Errors
/// It is empty or damaged.
pub fn require_cubin(bytes: Vec<u8>, linker: &'static str, arch: GpuArch) -> Result<Vec<u8>, Error> {
    match cubin::parse(&bytes) {
        Ok(_) => Ok(bytes),
        Err(source) => Err(Error::UnusableResult { linker, arch, source }),
    }
}

/// Shows the messages of a library in the same way as those of ptxas.
pub fn show_log(log: &str) {
    if !log.is_empty() {
        messages::show(log);
    }
}

/// The text as a C string.
///
/// # Errors
/// The text contains a NUL.
pub fn c_string(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::Nul { text: text.to_owned() })
}
