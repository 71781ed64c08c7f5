//! What all commands do alike: read a file, print the answer, end.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use offload_bundle::FileError;
use offload_bundle::printable;
use serde::Serialize;

/// What a command answers.
pub struct Answer {
    /// For standard output.
    pub text: String,
    /// The program's exit code.
    pub code: u8,
}

/// Prints the answer, or the error with nothing on standard output; `trouble` is the exit code then.
pub fn finish(result: Result<Answer, String>, trouble: u8) -> ExitCode {
    let printed = result.and_then(|answer| {
        print(printable::lines(&answer.text).as_bytes())?;
        Ok(answer.code)
    });
    match printed {
        Ok(code) => ExitCode::from(code),
        Err(what) => {
            complain(&what);
            ExitCode::from(trouble)
        }
    }
}

/// Prints an error, one a line.
pub fn complain(what: &str) {
    let lines = printable::lines(what);
    let text: String = lines.lines().map(|line| format!("offload-bundle: error: {line}\n")).collect();
    // An error of standard error cannot be reported.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Reads a file and what `read` finds in it; thin archives name their members relative to their own folder.
pub fn read<T>(
    file: &Path,
    read: impl FnOnce(&[u8], &mut dyn FnMut(&str) -> io::Result<Vec<u8>>) -> Result<T, FileError>,
) -> Result<T, String> {
    let data = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut read_thin = |path: &str| read_member(&folder.join(path));
    read(&data, &mut read_thin).map_err(|error| {
        let member = error.member().map(|member| format!("({member})")).unwrap_or_default();
        printable::name(&format!("{}{member}: {error}", file.display())).into_owned()
    })
}

/// Reads the file of a thin archive's member. An archive may name anything, so opening a pipe or a device must not block.
fn read_member(path: &Path) -> io::Result<Vec<u8>> {
    let mut options = std::fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let mut file = options.read(true).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let what = "is no regular file, as the members of a thin archive are; build the archive again";
        return Err(io::Error::other(what));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All errors together, a line each.
pub fn none_or_all(errors: Vec<String>) -> Result<(), String> {
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

/// `value` as JSON for people, too.
pub fn json(value: &impl Serialize) -> Result<String, String> {
    let text = serde_json::to_string_pretty(value).map_err(|e| e.to_string())?;
    Ok(text + "\n")
}

/// Prints to the end, or until the reader of a pipe has seen enough.
pub fn print(bytes: &[u8]) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(format!("standard output: {e}")),
        _ => Ok(()),
    }
}
