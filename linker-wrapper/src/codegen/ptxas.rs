//! Assembles PTX with ptxas.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use offload_bundle::arch::{GpuArch, PtxVersion};
use offload_bundle::ptx::{self, DebugInfo};

use crate::cli::device_options::DeviceOptions;
use crate::codegen::error::Error;
use crate::diag::error::Errors;
use crate::sys::process::{self, Mode};
use crate::sys::temp_files::TempFiles;

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
    /// Generate a cubin that can be linked with others.
    pub relocatable: bool,
    /// The debug information in the PTX.
    pub debug_info: DebugInfo,
}

/// The result of a run of ptxas.
#[derive(Debug, Default)]
pub struct Cubin {
    /// The cubin; empty in a dry run.
    pub bytes: Vec<u8>,
    /// Its warnings and the output of `-v`, for the user.
    pub diagnostics: String,
    /// Its peak resident size in bytes; 0 if unknown.
    pub peak: u64,
}

/// Runs ptxas.
///
/// # Errors
/// ptxas cannot be started or fails; the error contains its messages.
pub fn assemble(assembly: &Assembly<'_>, options: &DeviceOptions, mode: Mode) -> Result<Cubin, Errors> {
    let arguments = arguments(assembly, options);
    process::show(mode, assembly.ptxas, &arguments);
    if mode.dry {
        return Ok(Cubin::default());
    }
    let (program, arch) = (|| assembly.ptxas.to_owned(), assembly.arch);
    let started = process::capture(assembly.ptxas, &arguments);
    let output = started.map_err(|source| Error::Start { program: program(), source })?;
    let diagnostics = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !output.status.success() {
        return Err(Error::Ptxas { program: program(), arch, status: output.status, output: diagnostics }.into());
    }
    let bytes = std::fs::read(&assembly.output);
    let bytes = bytes.map_err(|source| Error::NoCubin { program: program(), arch, source })?;
    Ok(Cubin { bytes, diagnostics, peak: output.peak_bytes })
}

/// Lowers the version of PTX to the lowest that its target and code need: a driver rejects PTX of a newer version than its own,
/// even beside other PTX that would run. `attempt` passes the PTX to an assembler, whose messages name the version that an
/// instruction needs. `own` is the version that the PTX was emitted for.
///
/// # Errors
/// Those of `attempt`.
pub fn lower_version(
    ptx: Vec<u8>,
    arch: GpuArch,
    own: PtxVersion,
    attempt: &dyn Fn(&[u8]) -> Attempted,
) -> Result<Vec<u8>, Errors> {
    let mut version = arch.min_ptx();
    while version < own {
        let Some(lowered) = ptx::with_version(&ptx, version) else { break };
        match attempt(&lowered)? {
            None => return Ok(lowered),
            // Each step goes up, so that the loop ends.
            Some(messages) => version = required_version(&messages).max(Some(version.next())).unwrap_or(own),
        }
    }
    Ok(ptx)
}

/// The messages of an assembler that rejects PTX; `None` if it accepts it.
pub type Attempted = Result<Option<String>, Errors>;

/// Runs ptxas on PTX to see whether it accepts it. `stem` is the prefix of the names of this job's files.
///
/// # Errors
/// ptxas cannot be started.
pub fn attempt(ptxas: &Path, ptx: &[u8], arch: GpuArch, stem: &str, temp_files: &TempFiles) -> Attempted {
    let input = temp_files.write(&format!("{stem}.{}.probe.ptx", arch.virtual_name()), ptx)?;
    // Without optimization: only the parser matters here.
    let mut words: Vec<OsString> = ["-m64", "-O0", "-arch"].map(OsString::from).to_vec();
    words.extend([arch.to_string().into(), input.into(), "-o".into(), "/dev/null".into()]);
    let started = process::capture(ptxas, &words);
    let output = started.map_err(|source| Error::Start { program: ptxas.to_owned(), source })?;
    Ok((!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// The highest PTX version that the messages of an assembler require.
fn required_version(messages: &str) -> Option<PtxVersion> {
    let versions = messages.split("requires PTX ISA .version ").skip(1).filter_map(|rest| {
        let (major, rest) = rest.split_once('.')?;
        let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some(PtxVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
    });
    versions.max()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_rises_to_what_is_required_and_no_further() {
        let version = |major, minor| PtxVersion { major, minor };
        let lowered = |needed: PtxVersion, words: &str| {
            let attempt = |text: &[u8]| Ok((ptx::version(text) < Some(needed)).then(|| words.to_owned()));
            let ptx = lower_version(b".version 9.0\n".to_vec(), GpuArch::plain(90), version(9, 0), &attempt).unwrap();
            String::from_utf8(ptx).unwrap()
        };
        assert_eq!(lowered(version(7, 8), ""), ".version 7.8\n");
        assert_eq!(lowered(version(8, 1), "Feature 'x' requires PTX ISA .version 8.1 or later"), ".version 8.1\n");
        // A message that names no version: one step at a time.
        assert_eq!(lowered(version(8, 3), "error"), ".version 8.3\n");
        assert_eq!(lowered(version(9, 9), "requires PTX ISA .version 99.0"), ".version 9.0\n");
    }
}
