//! Links relocatable cubins and LTO-IR with nvlink.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use offload_bundle::arch::GpuArch;

use crate::cli::device_options::DeviceOptions;
use crate::cli::response_file;
use crate::diag::error::Errors;
use crate::machines::nvptx::codegen::device_object::DeviceObject;
use crate::machines::nvptx::codegen::error::Error;
use crate::machines::nvptx::codegen::nvlink_messages;
use crate::machines::nvptx::codegen::symbol_messages;
use crate::sys::process::{self, Mode};
use crate::sys::temp_files;

/// The level that ptxas optimizes at by itself.
const DEFAULT_LEVEL: u8 = 3;

/// One run of nvlink.
#[derive(Debug)]
pub struct Link<'a> {
    /// The program.
    pub nvlink: &'a Path,
    /// The target.
    pub arch: GpuArch,
    /// Cubins, or host objects that carry code.
    pub inputs: &'a [PathBuf],
    /// The objects that the inputs were made of, in the same order.
    pub objects: &'a [DeviceObject],
    /// The only kernels that the output needs; `None` for all. nvlink may keep more, and no other linker removes any.
    pub kernels: Option<&'a [&'a str]>,
    /// The file to write.
    pub output: &'a Path,
    /// What link-time optimization requires, if there is LTO-IR among the inputs.
    pub lto: Option<Lto<'a>>,
    /// What the output is.
    pub product: Product,
}

/// What nvlink requires for LTO-IR.
#[derive(Debug, Clone)]
pub struct Lto<'a> {
    /// The folder that holds NVIDIA's optimizer as `lib64/libnvvm.so`.
    pub nvvm: PathBuf,
    /// NVIDIA's device runtime, which the optimizer knows by its name.
    pub device_runtime: Option<&'a Path>,
}

/// Why there is no result.
#[derive(Debug)]
pub enum Failure {
    /// nvlink cannot remove what the host does not refer to: see [`REMOVAL_FAULT`].
    Removal(Errors),
    /// Any other reason.
    Other(Errors),
}

impl Failure {
    /// The errors, whatever the reason.
    pub fn into_errors(self) -> Errors {
        let (Failure::Removal(errors) | Failure::Other(errors)) = self;
        errors
    }
}

impl From<Errors> for Failure {
    fn from(errors: Errors) -> Self {
        Failure::Other(errors)
    }
}

/// What nvlink reports where it removes an unreferenced constant that holds addresses and other constants of the bank stay. (nvlink 13.0, in
/// links of nvcc, too: two units, each with a static `__constant__` table of functions, one unused.)
const REMOVAL_FAULT: &str = "Internal error: relocation is past end of offset";

/// What nvlink writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// A finished cubin.
    Cubin,
    /// PTX of LTO-IR.
    Ptx,
}

/// What a linker has made.
#[derive(Debug, Default)]
pub struct Linked {
    /// The cubin or the PTX; nothing in a dry run.
    pub bytes: Vec<u8>,
    /// Warnings of the linker.
    pub diagnostics: Vec<String>,
}

impl From<Vec<u8>> for Linked {
    fn from(bytes: Vec<u8>) -> Self {
        Linked { bytes, diagnostics: Vec::new() }
    }
}

/// Links to a finished cubin, or to PTX.
///
/// # Errors
/// nvlink cannot be started or fails; the error contains its messages.
pub fn link(link: &Link<'_>, options: &DeviceOptions, mode: Mode) -> Result<Linked, Failure> {
    let Link { nvlink, arch, inputs, objects, output, .. } = *link;
    let mut arguments = arguments(link, options);
    process::show(mode, nvlink, &arguments);
    if mode.dry {
        return Ok(Linked::default());
    }
    let program = || nvlink.to_owned();
    if response_file::too_long(&arguments) {
        // nvlink's own form of a response file.
        let file = output.with_extension("options");
        temp_files::write_file(&file, &response_file::join(&arguments))?;
        arguments = vec!["--options-file".into(), file.into()];
    }
    let limit = process::limit(inputs);
    // Optimization takes as long as it takes.
    let captured = match link.lto {
        Some(_) => process::capture(nvlink, &arguments).map(|output| (output, false)),
        None => process::capture_within(nvlink, &arguments, limit),
    };
    let started = captured.map_err(|source| Errors::from(Error::Start { program: program(), source }));
    let (result, late) = started?;
    if late {
        return Err(Errors::from(Error::NvlinkLate { program: program(), arch, limit }).into());
    }
    // nvlink reports some errors on stdout.
    let messages = [&result.stdout[..], &result.stderr[..]].concat();
    let messages = nvlink_messages::for_user(&String::from_utf8_lossy(&messages), objects, inputs);
    if !result.status.success() {
        if let Some(errors) = symbol_messages::errors(&messages, &arch, objects) {
            return Err(errors.into());
        }
        let is_removal = messages.contains(REMOVAL_FAULT);
        let errors = Error::Nvlink { program: program(), arch, status: result.status, output: messages }.into();
        return Err(if is_removal { Failure::Removal(errors) } else { Failure::Other(errors) });
    }
    let bytes = std::fs::read(output);
    let bytes = bytes.map_err(|source| Errors::from(Error::NoCubin { program: program(), arch, source }))?;
    Ok(Linked { bytes, diagnostics: if messages.is_empty() { Vec::new() } else { vec![messages] } })
}

fn arguments(link: &Link<'_>, options: &DeviceOptions) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["-m64".into(), "-arch".into(), link.arch.to_string().into()];
    if options.debug {
        arguments.push("-g".into());
    }
    if options.relocatable {
        arguments.push("-r".into());
    }
    if let Some(Lto { nvvm, device_runtime }) = &link.lto {
        arguments.push("-dlto".into());
        arguments.extend(["-nvvmpath".into(), nvvm.into()]);
        // A relocatable result would hold the whole library.
        let device_runtime = device_runtime.filter(|_| !options.relocatable);
        if let Some(folder) = device_runtime.and_then(Path::parent) {
            arguments.extend(["-L".into(), folder.into(), "-lcudadevrt".into()]);
        }
        // No `-split-compile-extended` unless the user passes it: it makes other code than nvcc's links, and not always the same bytes.
        if options.ptxas_level != DEFAULT_LEVEL {
            arguments.push(format!("-Xptxas=-O{}", options.ptxas_level).into());
        }
        arguments.extend(options.ptxas_arguments.iter().map(|word| format!("-Xptxas={word}").into()));
    }
    if link.product == Product::Ptx {
        arguments.push("-emit-ptx".into());
    }
    arguments.extend(link.kernels.unwrap_or_default().iter().map(|kernel| format!("-kernels-used={kernel}").into()));
    arguments.extend(["-o".into(), link.output.into()]);
    arguments.extend(options.nvlink_arguments.iter().map(OsString::from));
    arguments.extend(link.inputs.iter().map(|path| path.clone().into_os_string()));
    arguments
}
