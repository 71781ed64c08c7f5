//! `--wrapper-time-trace=FILE`: what took how long, in the JSON that Chrome's and Perfetto's viewers read.
//!
//! Phases have the names that LLVM's wrapper gives them, so that scripts which read its traces read ours.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::diag::error::Errors;
use crate::sys::temp_files;

/// Shorter ones are left out unless asked for: LLVM's default.
pub const DEFAULT_GRANULARITY: Duration = Duration::from_micros(500);

static TRACE: OnceLock<Trace> = OnceLock::new();
static THREADS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static THREAD: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
}

struct Trace {
    file: PathBuf,
    granularity: Duration,
    start: Instant,
    events: Mutex<Vec<serde_json::Value>>,
}

/// Begins to record.
pub fn begin(file: PathBuf, granularity: Duration) {
    // Asked for once, at the start: a second call changes nothing.
    let _ = TRACE.set(Trace { file, granularity, start: Instant::now(), events: Mutex::default() });
}

/// Times what happens until the result is dropped. Costs nothing where nobody asked for a trace.
pub fn scope(name: &'static str, detail: impl FnOnce() -> String) -> Option<Scope> {
    TRACE.get().map(|trace| Scope { trace, name, detail: detail(), start: Instant::now() })
}

/// A phase that is running.
pub struct Scope {
    trace: &'static Trace,
    name: &'static str,
    detail: String,
    start: Instant,
}

impl Drop for Scope {
    fn drop(&mut self) {
        let duration = self.start.elapsed();
        if duration < self.trace.granularity {
            return;
        }
        let begun = self.start.duration_since(self.trace.start);
        let event = json!({
            "pid": std::process::id(), "tid": THREAD.with(|thread| *thread), "ph": "X",
            "ts": microseconds(begun), "dur": microseconds(duration),
            "name": self.name, "args": { "detail": self.detail },
        });
        if let Ok(mut events) = self.trace.events.lock() {
            events.push(event);
        }
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Writes what was recorded; nothing if nobody asked.
///
/// # Errors
/// The file cannot be written.
pub fn end() -> Result<(), Errors> {
    let Some(trace) = TRACE.get() else { return Ok(()) };
    let events = trace.events.lock().map(|mut events| std::mem::take(&mut *events)).unwrap_or_default();
    temp_files::write_output(&trace.file, json!({ "traceEvents": events }).to_string().as_bytes())
}
