//! What all commands do alike: read a file, print the answer, end.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use offload_bundle::listing::ListError;
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
        print(&answer.text).map_err(|e| format!("standard output: {e}"))?;
        Ok(answer.code)
    });
    match printed {
        Ok(code) => ExitCode::from(code),
        Err(what) => {
            for line in what.lines() {
                eprintln!("offload-bundle: error: {line}");
            }
            ExitCode::from(trouble)
        }
    }
}

/// Reads a file and what `read` finds in it; thin archives name their members relative to their own folder.
pub fn read<T>(
    file: &Path,
    read: impl FnOnce(&[u8], &mut dyn FnMut(&str) -> Result<Vec<u8>, String>) -> Result<T, ListError>,
) -> Result<T, String> {
    let data = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut read_thin = |path: &str| std::fs::read(folder.join(path)).map_err(|e| e.to_string());
    read(&data, &mut read_thin).map_err(|error| {
        let member = error.member().map(|member| format!("({member})")).unwrap_or_default();
        format!("{}{member}: {error}", file.display())
    })
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
fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match printed {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}
