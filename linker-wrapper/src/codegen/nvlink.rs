//! Several relocatable cubins to one, by nvlink.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use offload_bundle::arch::GpuArch;

use crate::cli::device_options::DeviceOptions;
use crate::cli::response_file;
use crate::diag::error::Errors;
use crate::diag::messages;
use crate::sys::process::{self, Mode};
use crate::sys::temp_files;

/// Joins cubins into an executable one and returns its bytes.
///
/// # Errors
/// nvlink cannot be started or fails; its own words are in the message.
pub fn join(
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
    let program = nvlink.display();
    if response_file::too_long(&arguments) {
        // nvlink's own form of a response file.
        let file = output.with_extension("options");
        temp_files::write_file(&file, &response_file::join(&arguments))?;
        arguments = vec!["--options-file".into(), file.into()];
    }
    let limit = process::limit(inputs);
    let captured = process::capture_within(nvlink, &arguments, limit);
    let (result, late) = captured.map_err(|error| Errors::one(format_args!("cannot run {program}: {error}")))?;
    if late {
        return Err(Errors::one(format_args!(
            "{program} did not finish for {arch} within {} s, where milliseconds are usual: one of the cubins is damaged; \
             rebuild the objects",
            limit.as_secs()
        )));
    }
    // nvlink reports some errors on stdout.
    let words = [&result.stdout[..], &result.stderr[..]].concat();
    let words = String::from_utf8_lossy(&words).trim().to_owned();
    if !result.status.success() {
        return Err(Errors::one(process::failure(nvlink, &arch.to_string(), result.status, &words)));
    }
    if !words.is_empty() {
        messages::show(words);
    }
    std::fs::read(output).map_err(|error| Errors::one(format_args!("{program} left no cubin for {arch}: {error}")))
}
