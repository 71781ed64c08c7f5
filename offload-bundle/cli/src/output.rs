//! What a command prints.

use std::io::{self, Write};

use serde::Serialize;

use crate::error::{Error, Result};

/// The output of a command that succeeded.
pub struct CommandOutput {
    /// For standard output.
    pub text: String,
    /// The program's exit code.
    pub exit_code: u8,
    /// Files of several that could not be read. They are reported behind the text, and the exit code is that of errors.
    pub errors: Vec<Error>,
}

impl CommandOutput {
    /// The output of a command that has only one exit code besides that of errors.
    pub fn success(text: String) -> Self {
        Self { text, exit_code: 0, errors: Vec::new() }
    }
}

/// Formats `value` as indented JSON.
pub fn json(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Writes all bytes to standard output.
pub fn print(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    unless_closed(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Ignores the error of a pipe whose reader stopped early, as `head` does.
pub fn unless_closed(written: io::Result<()>) -> Result<()> {
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Error::StandardOutput(e)),
        _ => Ok(()),
    }
}
