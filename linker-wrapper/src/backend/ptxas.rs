//! PTX to a cubin, by ptxas.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use offload_bundle::arch::GpuArch;

use crate::command::{self, Mode};
use crate::device_compiler::DeviceOptions;
use crate::error::Errors;

/// One run of ptxas.
#[derive(Debug)]
pub struct Assembly<'a> {
    /// The program.
    pub ptxas: &'a Path,
    /// Target of the machine code.
    pub arch: GpuArch,
    /// PTX file.
    pub input: PathBuf,
    /// Cubin file to write.
    pub output: PathBuf,
    /// Make a cubin that others can be joined to.
    pub relocatable: bool,
    /// What the PTX carries.
    pub debug_info: DebugInfo,
}

/// Debug information in PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DebugInfo {
    /// None.
    None,
    /// Line tables.
    Lines,
    /// All, from files compiled with `-g -O0`: ptxas takes such PTX only for unoptimized code.
    Full,
}

/// Assembles; the cubin's bytes come back.
///
/// # Errors
/// ptxas cannot be started or fails; its own words are in the message.
pub fn assemble(assembly: &Assembly<'_>, options: &DeviceOptions, mode: Mode) -> Result<Vec<u8>, Errors> {
    let arguments = arguments(assembly, options);
    command::show(mode, assembly.ptxas, &arguments);
    if mode.dry {
        return Ok(Vec::new());
    }
    let (program, arch) = (assembly.ptxas.display(), assembly.arch);
    let output = command::capture(assembly.ptxas, &arguments)
        .map_err(|error| Errors::one(format_args!("cannot run {program}: {error}")))?;
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !output.status.success() {
        let failure = command::failure(assembly.ptxas, &arch.to_string(), output.status, &words);
        return Err(Errors::one(format_args!("{failure}; --save-temps keeps the PTX")));
    }
    if !words.is_empty() {
        // ptxas -v and its warnings (spills, stack sizes) are the user's.
        eprintln!("{words}");
    }
    std::fs::read(&assembly.output)
        .map_err(|error| Errors::one(format_args!("{program} left no cubin for {arch}: {error}")))
}

fn arguments(assembly: &Assembly<'_>, options: &DeviceOptions) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["-m64".into()];
    if assembly.debug_info == DebugInfo::Full || (options.debug && options.ptxas_level == 0) {
        words.extend(["-g".into(), "-O0".into()]);
    } else {
        words.push(format!("-O{}", options.ptxas_level).into());
        if assembly.debug_info == DebugInfo::Lines {
            words.push("-lineinfo".into());
        }
    }
    words.extend(["-arch".into(), assembly.arch.to_string().into()]);
    if assembly.relocatable {
        words.push("-c".into());
    }
    words.extend(options.ptxas_arguments.iter().map(OsString::from));
    words.extend([assembly.input.clone().into(), "-o".into(), assembly.output.clone().into()]);
    words
}
