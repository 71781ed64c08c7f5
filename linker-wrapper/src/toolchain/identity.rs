//! Identifies tools as far as their results depend on them: by the bytes of the program and its version.
//!
//! A program may be a script that runs the real one, and does not change when the real one is replaced. A script that only
//! runs another program is followed to that program. What any other script does is unknown.

use std::path::{Path, PathBuf};

use crate::sys::mapped_file::Mapped;
use crate::sys::stamp::Stamp;

/// The identity of a tool.
#[derive(Debug, Clone)]
pub struct Identity {
    /// A hash that distinguishes it from others.
    pub hash: [u8; 32],
    /// Stamps of its files, taken before they were read.
    pub stamps: Vec<Stamp>,
}

/// Maximum number of scripts that run scripts; installations have at most two.
const MOST_SCRIPTS: usize = 4;

/// Identifies the program in `path`; `version` is its output for `--version`.
///
/// # Errors
/// Why the program cannot be identified, as a sentence without its full stop.
pub fn of_program(path: &Path, version: &str) -> Result<Identity, String> {
    if version.trim().is_empty() {
        return Err(format!("{} --version says nothing", path.display()));
    }
    let mut hasher = blake3::Hasher::new();
    hash_field(&mut hasher, version.as_bytes());
    let mut stamps = Vec::new();
    let mut program = path.to_owned();
    for _ in 0..=MOST_SCRIPTS {
        let (content, stamp) =
            Mapped::open_stamped(&program).map_err(|error| format!("{} cannot be read: {error}", program.display()))?;
        hash_field(&mut hasher, content.bytes());
        stamps.push(stamp);
        if content.bytes().starts_with(b"\x7fELF") {
            return Ok(Identity { hash: *hasher.finalize().as_bytes(), stamps });
        }
        program = program_behind(content.bytes()).ok_or_else(|| {
            format!("{} is a script, and which program it runs, and how, cannot be known", program.display())
        })?;
    }
    Err(format!("{} runs too many scripts", path.display()))
}

/// Identifies a data file.
///
/// # Errors
/// As [`of_program`].
pub fn of_file(path: &Path) -> Result<Identity, String> {
    // The stamp is from before.
    let read = Stamp::of(path).and_then(|stamp| Ok((stamp, Mapped::open(path)?)));
    let (stamp, content) = read.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    Ok(Identity { hash: *blake3::hash(content.bytes()).as_bytes(), stamps: vec![stamp] })
}

/// Hashes a field with its length, so that bytes cannot move from one field to the next.
fn hash_field(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// The program that a shell script runs with its own arguments, if the script does nothing else: `exec /absolute/path "$@"`
/// behind comments.
fn program_behind(script: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(script).ok()?;
    let mut lines = text.lines().map(str::trim);
    let interpreter = lines.next()?.strip_prefix("#!")?.trim();
    let plain_shell = ["/bin/sh", "/usr/bin/sh", "/bin/dash", "/usr/bin/dash", "/bin/bash", "/usr/bin/bash"];
    // bash first reads the file that BASH_ENV names.
    if !plain_shell.contains(&interpreter) || std::env::var_os("BASH_ENV").is_some() {
        return None;
    }
    let mut commands = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (command, None) = (commands.next()?, commands.next()) else { return None };
    let program = command.strip_prefix("exec ")?.strip_suffix("\"$@\"")?.trim();
    let quoted = ['"', '\''].iter().find_map(|quote| program.strip_prefix(*quote)?.strip_suffix(*quote));
    let program = quoted.unwrap_or(program);
    let is_literal = program.chars().all(|c| c.is_ascii_alphanumeric() || "/._+-".contains(c));
    (is_literal && program.starts_with('/')).then(|| PathBuf::from(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_only_run_a_program_are_followed() {
        for (script, program) in [
            ("#!/bin/sh\nexec /opt/cuda/bin/ptxas \"$@\"\n", Some("/opt/cuda/bin/ptxas")),
            ("#! /bin/bash\n# by hand\n\nexec '/opt/cuda-13.0/bin/ptxas'  \"$@\"", Some("/opt/cuda-13.0/bin/ptxas")),
            ("#!/bin/sh\nexec ptxas \"$@\"\n", None),
            ("#!/bin/sh\nexec \"$CUDA/bin/ptxas\" \"$@\"\n", None),
            ("#!/bin/sh\nexec /opt/bin/ptxas -O1 \"$@\"\n", None),
            ("#!/bin/sh\nexec /opt/bin/ptxas \"$@\" -O1\n", None),
            ("#!/bin/sh\nexec /opt/bin/ptxas $@\n", None),
            ("#!/bin/sh\nOPTIONS=1\nexec /opt/bin/ptxas \"$@\"\n", None),
            ("#!/bin/sh\nexec `cat real` \"$@\"\n", None),
            ("#!/bin/sh\nexec /opt/*/ptxas \"$@\"\n", None),
            ("#!/bin/sh\n/opt/bin/ptxas \"$@\"\n", None),
            ("#!/usr/bin/env python3\nexec /opt/bin/ptxas \"$@\"\n", None),
            ("#!/bin/sh -x\nexec /opt/bin/ptxas \"$@\"\n", None),
            ("", None),
        ] {
            assert_eq!(program_behind(script.as_bytes()), program.map(PathBuf::from), "{script}");
        }
    }

    #[test]
    fn an_identity_is_version_script_and_program() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let hash = |path: &Path, version: &str| of_program(path, version).map(|identity| identity.hash);
        let real = write("real", "\x7fELF one");
        let script = write("ptxas", &format!("#!/bin/sh\nexec {} \"$@\"\n", real.display()));
        let before = hash(&script, "13.0").unwrap();
        assert_eq!(hash(&script, "13.0").unwrap(), before);
        assert_eq!(of_program(&script, "13.0").unwrap().stamps.len(), 2);
        assert_ne!(hash(&script, "12.9").unwrap(), before);
        assert_ne!(hash(&real, "13.0").unwrap(), before);
        write("real", "\x7fELF two");
        assert_ne!(hash(&script, "13.0").unwrap(), before);
        write("real", "#!/bin/sh\nexec $REAL \"$@\"\n");
        assert!(hash(&script, "13.0").unwrap_err().contains("real is a script"));
        assert!(hash(&real, " \n").unwrap_err().contains("says nothing"));
        // A script that runs itself has an end.
        write("real", &format!("#!/bin/sh\nexec {} \"$@\"\n", real.display()));
        assert!(hash(&real, "13.0").unwrap_err().contains("too many"));
    }
}
