//! Messages and progress for the library `fatlink`, as lines of JSON on standard output.

use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use fatlink_protocol::{Line, Severity};

/// Whether this process runs a link for the library.
static SERVES: AtomicBool = AtomicBool::new(false);

/// The numbers of all jobs so far: those that have ended, and those that are known.
static JOBS: Mutex<(u64, u64)> = Mutex::new((0, 0));

/// Writes all messages from now on for the library.
pub fn begin() {
    SERVES.store(true, Ordering::Relaxed);
}

fn is_on() -> bool {
    SERVES.load(Ordering::Relaxed)
}

/// Writes a line.
pub fn say(line: &Line) {
    // A failure cannot be reported anywhere: the library sees that the last line is missing.
    let Ok(mut text) = serde_json::to_vec(line) else { return };
    text.push(b'\n');
    let _ = std::io::stdout().lock().write_all(&text);
}

/// Writes a message. Returns false if nobody has begun: the message is for a terminal.
pub fn is_said(severity: Severity, text: &dyn Display) -> bool {
    if !is_on() {
        return false;
    }
    let text = text.to_string();
    if !text.is_empty() {
        say(&Line::Message { severity, text });
    }
    true
}

/// Adds to the numbers of jobs that have ended, and of those that are known.
pub fn count_jobs(ended: u64, more: u64) {
    if !is_on() {
        return;
    }
    // Under the lock, so that the numbers only grow.
    let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
    *jobs = (jobs.0 + ended, jobs.1 + more);
    say(&Line::Jobs { done: jobs.0, known: jobs.1 });
}
