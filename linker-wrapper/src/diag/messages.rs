//! The only place that prints.
//!
//! A link's result never depends on who reads its messages: the reader may have gone, or the file that they go to may
//! be on a full disk. Only an answer that was asked for in place of a link (`--help`) fails where it cannot be written.
//! No name that comes from a file sends commands to a terminal.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use offload_bundle::printable;

use crate::diag::error::{Errors, reason};
use crate::diag::progress;

#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {}", reason(.source))]
struct StandardOutput {
    source: std::io::Error,
}

/// Prints one message, a line or more, on stderr, clear of the line that shows the progress.
pub fn show(message: impl fmt::Display) {
    let message = format!("{message}\n");
    let line = printable::lines(&message);
    progress::quietly(|| {
        // One write, so that messages of several processes do not mix. There is nobody to tell if it fails.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    });
}

/// Prints every error once, in order.
pub fn print_errors(program: &str, errors: &Errors) {
    let texts = errors.messages();
    for (index, text) in texts.iter().enumerate() {
        if !texts[..index].contains(text) {
            show(format_args!("{program}: error: {text}"));
        }
    }
}

/// Prints a warning.
pub fn warn(program: &str, message: impl fmt::Display) {
    if !MUTE.load(Ordering::Relaxed) {
        show(format_args!("{program}: warning: {message}"));
    }
}

static MUTE: AtomicBool = AtomicBool::new(false);

/// Prints no warnings from now on: they have been printed.
pub fn mute_warnings() {
    MUTE.store(true, Ordering::Relaxed);
}

/// Prints what was asked for in place of a link. A reader that has read enough and closed the pipe is no error.
///
/// # Errors
/// The disk is full, say.
pub fn answer(text: &str) -> Result<(), Errors> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(printable::lines(text).as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(StandardOutput { source: error }.into()),
        _ => Ok(()),
    }
}

/// Prints what was asked for beside a link that has succeeded, and stays so: what cannot be written is a warning.
pub fn report(program: &str, text: &str) {
    if let Err(error) = answer(text) {
        warn(program, error);
    }
}
