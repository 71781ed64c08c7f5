//! Links relocatable cubins with nvlink.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use offload_bundle::arch::GpuArch;

use crate::cli::device_options::DeviceOptions;
use crate::cli::response_file;
use crate::codegen::error::Error;
use crate::diag::error::Errors;
use crate::diag::messages;
use crate::sys::process::{self, Mode};
use crate::sys::temp_files;

/// Links cubins to a finished one and returns its bytes.
///
/// # Errors
/// nvlink cannot be started or fails; the error contains its messages.
pub fn link(
    nvlink: &Path,
    arch: GpuArch,
    inputs: &[PathBuf],
    output: &Path,
    options: &DeviceOptions,
    mode: Mode,
) -> Result<Vec<u8>, Errors> {
    let mut arguments: Vec<OsString> = vec!["-m64".into(), "-arch".into(), arch.to_string().into()];
    if options.debug {
        arguments.push("-g".into());
    }
    arguments.extend(["-o".into(), output.into()]);
    arguments.extend(options.nvlink_arguments.iter().map(OsString::from));
    arguments.extend(inputs.iter().map(|path| path.clone().into_os_string()));
    process::show(mode, nvlink, &arguments);
    if mode.dry {
        return Ok(Vec::new());
    }
    let program = || nvlink.to_owned();
    if response_file::too_long(&arguments) {
        // nvlink's own form of a response file.
        let file = output.with_extension("options");
        temp_files::write_file(&file, &response_file::join(&arguments))?;
        arguments = vec!["--options-file".into(), file.into()];
    }
    let limit = process::limit(inputs);
    let captured = process::capture_within(nvlink, &arguments, limit);
    let (result, late) = captured.map_err(|source| Error::Start { program: program(), source })?;
    if late {
        return Err(Error::NvlinkLate { program: program(), arch, limit }.into());
    }
    // nvlink reports some errors on stdout.
    let messages = [&result.stdout[..], &result.stderr[..]].concat();
    let messages = String::from_utf8_lossy(&messages).trim().to_owned();
    if !result.status.success() {
        return Err(Error::Nvlink { program: program(), arch, status: result.status, output: messages }.into());
    }
    if !messages.is_empty() {
        messages::show(messages);
    }
    Ok(std::fs::read(output).map_err(|source| Error::NoCubin { program: program(), arch, source })?)
}
