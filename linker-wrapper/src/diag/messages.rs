//! Prints all messages; no other file does. The library `fatlink` gets them by `served`.
//!
//! The result of a link does not depend on whether its messages can be written: standard error may be closed, or on a full
//! disk. Only the output of `--help` and its like fails if it cannot be written. Control characters in names from files are
//! escaped.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use fatlink_protocol::Severity;
use offload_bundle::printable;

use crate::diag::error::{Errors, reason};
use crate::diag::{color, progress, served};

#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {}", reason(.source))]
struct StandardOutput {
    source: std::io::Error,
}

/// Prints a message of one line or more on standard error, without disturbing the progress line.
pub fn show(message: impl fmt::Display) {
    if served::is_said(Severity::Note, &message) {
        return;
    }
    let message = format!("{message}\n");
    write(&printable::lines(&message));
}

fn write(line: &str) {
    progress::quietly(|| {
        // A single write, so that messages of several processes do not mix. A failure cannot be reported anywhere.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    });
}

/// Prints `program: kind: text`.
fn show_kind(program: &str, severity: Severity, text: impl fmt::Display) {
    if served::is_said(severity, &text) {
        return;
    }
    let (kind, color) = match severity {
        Severity::Error => ("error", color::ERROR),
        Severity::Warning => ("warning", color::WARNING),
        Severity::Note => ("note", ""),
    };
    let line = format!("{text}\n");
    let (program, text) = (printable::lines(program), printable::lines(&line));
    let (bold, color, plain) = if color::is_on() { ("\x1b[1m", color, "\x1b[0m") } else { ("", "", "") };
    write(&format!("{bold}{program}: {plain}{color}{kind}: {plain}{text}"));
}

/// Prints every error once, in order.
pub fn print_errors(program: &str, errors: &Errors) {
    let texts = errors.messages();
    for (index, text) in texts.iter().enumerate() {
        if !texts[..index].contains(text) {
            show_kind(program, Severity::Error, text);
        }
    }
}

/// Prints a warning.
pub fn warn(program: &str, message: impl fmt::Display) {
    if !MUTE.load(Ordering::Relaxed) {
        show_kind(program, Severity::Warning, message);
    }
}

static MUTE: AtomicBool = AtomicBool::new(false);

/// Suppresses all further warnings: they have been printed already.
pub fn mute_warnings() {
    MUTE.store(true, Ordering::Relaxed);
}

/// Prints the output of a query that replaces the link, such as `--help`. A closed pipe is not an error.
///
/// # Errors
/// The output cannot be written, for example to a full disk.
pub fn answer(text: &str) -> Result<(), Errors> {
    if served::is_said(Severity::Note, &text.trim_end()) {
        return Ok(());
    }
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(printable::lines(text).as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(StandardOutput { source: error }.into()),
        _ => Ok(()),
    }
}

/// Prints a report on a link that has succeeded. Failure to write it is a warning.
pub fn report(program: &str, text: &str) {
    if let Err(error) = answer(text) {
        warn(program, error);
    }
}
