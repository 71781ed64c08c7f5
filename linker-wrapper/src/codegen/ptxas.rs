//! PTX to a cubin, by ptxas.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use offload_bundle::arch::{GpuArch, PtxVersion};
use offload_bundle::ptx::{self, DebugInfo};

use crate::cli::device_options::DeviceOptions;
use crate::diag::error::Errors;
use crate::sys::process::{self, Mode};
use crate::sys::temp_files::Scratch;

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

/// What a run of ptxas gives.
#[derive(Debug, Default)]
pub struct Cubin {
    /// The cubin; empty in a dry run.
    pub bytes: Vec<u8>,
    /// Its warnings, and what `-v` makes it say; the user's to see.
    pub diagnostics: String,
    /// Its largest resident size in bytes; 0: not known.
    pub peak: u64,
}

/// Assembles.
///
/// # Errors
/// ptxas cannot be started or fails; its own words are in the message.
pub fn assemble(assembly: &Assembly<'_>, options: &DeviceOptions, mode: Mode) -> Result<Cubin, Errors> {
    let arguments = arguments(assembly, options);
    process::show(mode, assembly.ptxas, &arguments);
    if mode.dry {
        return Ok(Cubin::default());
    }
    let (program, arch) = (assembly.ptxas.display(), assembly.arch);
    let output = process::capture(assembly.ptxas, &arguments)
        .map_err(|error| Errors::one(format_args!("cannot run {program}: {error}")))?;
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !output.status.success() {
        let failure = process::failure(assembly.ptxas, &arch.to_string(), output.status, &words);
        return Err(Errors::one(format_args!("{failure}; --save-temps keeps the PTX")));
    }
    let bytes = std::fs::read(&assembly.output)
        .map_err(|error| Errors::one(format_args!("{program} left no cubin for {arch}: {error}")))?;
    Ok(Cubin { bytes, diagnostics: words, peak: output.peak_bytes })
}

/// Gives PTX the lowest version that its target and code need: a newer one than the driver knows fails there,
/// even beside PTX that would run. The assembler knows what needs which version, and says so: `attempt` gives its words,
/// or none where it takes the PTX. `own` is the version that the PTX was written for.
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
            // Always upwards, so that it ends.
            Some(words) => version = asked_for(&words).max(Some(version.next())).unwrap_or(own),
        }
    }
    Ok(ptx)
}

/// What an assembler says of PTX; `None`: it takes it.
pub type Attempted = Result<Option<String>, Errors>;

/// Lets ptxas try the PTX. `None`: it is fine; else its words. `stem` names the files of this job.
///
/// # Errors
/// It cannot be started.
pub fn attempt(ptxas: &Path, ptx: &[u8], arch: GpuArch, stem: &str, scratch: &Scratch) -> Attempted {
    let input = scratch.write(&format!("{stem}.{}.probe.ptx", arch.virtual_name()), ptx)?;
    // Unoptimized: only the reading of the text counts.
    let mut words: Vec<OsString> = ["-m64", "-O0", "-arch"].map(OsString::from).to_vec();
    words.extend([arch.to_string().into(), input.into(), "-o".into(), "/dev/null".into()]);
    let output = process::capture(ptxas, &words)
        .map_err(|error| Errors::one(format_args!("cannot run {}: {error}", ptxas.display())))?;
    Ok((!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// The highest PTX version that an assembler's words ask for.
fn asked_for(words: &str) -> Option<PtxVersion> {
    let versions = words.split("requires PTX ISA .version ").skip(1).filter_map(|rest| {
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
    fn the_version_rises_to_what_is_asked_for_and_no_further() {
        let version = |major, minor| PtxVersion { major, minor };
        let lowered = |needed: PtxVersion, words: &str| {
            let attempt = |text: &[u8]| Ok((ptx::version(text) < Some(needed)).then(|| words.to_owned()));
            let ptx = lower_version(b".version 9.0\n".to_vec(), GpuArch::plain(90), version(9, 0), &attempt).unwrap();
            String::from_utf8(ptx).unwrap()
        };
        assert_eq!(lowered(version(7, 8), ""), ".version 7.8\n");
        assert_eq!(lowered(version(8, 1), "Feature 'x' requires PTX ISA .version 8.1 or later"), ".version 8.1\n");
        // Words that help nobody: one step at a time.
        assert_eq!(lowered(version(8, 3), "error"), ".version 8.3\n");
        assert_eq!(lowered(version(9, 9), "requires PTX ISA .version 99.0"), ".version 9.0\n");
    }
}
