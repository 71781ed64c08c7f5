//! The interface of what turns PTX into machine code: the backend of a link, or ptxas in a worker process.

use std::path::Path;

use offload_bundle::arch::{GpuArch, PtxVersion};
use offload_bundle::ptx;

use crate::diag::error::Errors;
use crate::machines::nvptx::codegen::device_object::{DeviceObject, PtxSource};

/// Turns PTX into machine code.
pub trait PtxBackend {
    /// Turns a file of PTX into a device object.
    ///
    /// # Errors
    /// The tool rejects the PTX or cannot be started.
    fn assemble(&self, source: PtxSource) -> Result<DeviceObject, Errors>;

    /// Tries to assemble PTX. A tool reads it from `file`, which is written for that.
    ///
    /// # Errors
    /// The tool could not be started.
    fn attempt(&self, ptx: &[u8], arch: GpuArch, file: &Path) -> Attempted;
}

/// The messages of an assembler that rejects PTX; `None` if it accepts it.
pub type Attempted = Result<Option<String>, Errors>;

/// Lowers the version of PTX to the lowest that its target and code need: a driver rejects PTX of a newer version than its own,
/// even next to other PTX that would run. `attempt` passes the PTX to an assembler, whose messages name the version that an
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

/// The highest PTX version that the messages of an assembler require.
fn required_version(messages: &str) -> Option<PtxVersion> {
    let versions = messages.split("requires PTX ISA .version ").skip(1).filter_map(|rest| {
        let (major, rest) = rest.split_once('.')?;
        let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some(PtxVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
    });
    versions.max()
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
