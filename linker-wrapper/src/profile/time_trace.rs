//! `--wrapper-time-trace=FILE`: the phases of a link in the JSON format of Chrome's and Perfetto's viewers.
//!
//! The phases that LLVM's wrapper also has are named as there, so that scripts for its traces work here.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tracing::Subscriber;
use tracing::span::{Attributes, Id};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::diag::error::Errors;
use crate::profile::fields::Fields;
use crate::sys::temp_files;

/// Shorter phases are omitted by default, as in LLVM.
const DEFAULT_GRANULARITY: Duration = Duration::from_micros(500);

/// The file of the trace.
static FILE: OnceLock<PathBuf> = OnceLock::new();
static EVENTS: Mutex<Vec<Event>> = Mutex::new(Vec::new());
static THREADS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static THREAD: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
}

/// A phase that has ended. The field names are the keys of the JSON form.
#[derive(Debug, Serialize)]
struct Event {
    args: Arguments,
    /// Microseconds.
    dur: u64,
    name: String,
    /// "X": the event has a beginning and a duration.
    ph: &'static str,
    pid: u32,
    tid: u64,
    /// Microseconds since the beginning of the trace.
    ts: u64,
}

#[derive(Debug, Serialize)]
struct Arguments {
    detail: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    trace_events: Vec<Event>,
}

/// A phase that is running.
struct Running {
    fields: Fields,
    start: Instant,
}

/// Records phases.
pub struct TimeTrace {
    granularity: Duration,
    start: Instant,
}

/// The layer of a link whose trace begins now.
pub fn layer(file: &Path, granularity: Option<Duration>) -> TimeTrace {
    // A process runs one link, which has one trace.
    let _ = FILE.set(file.to_owned());
    TimeTrace { granularity: granularity.unwrap_or(DEFAULT_GRANULARITY), start: Instant::now() }
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for TimeTrace {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        span.extensions_mut().insert(Running { fields: Fields::of(attributes), start: Instant::now() });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(Running { fields, start }) = context.span(&id).and_then(|span| span.extensions_mut().remove()) else {
            return;
        };
        let duration = start.elapsed();
        if duration < self.granularity {
            return;
        }
        let event = Event {
            args: Arguments { detail: fields.detail },
            dur: microseconds(duration),
            name: fields.name,
            ph: "X",
            pid: std::process::id(),
            tid: THREAD.with(|thread| *thread),
            ts: microseconds(start.duration_since(self.start)),
        };
        EVENTS.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

/// Whether this link has a trace.
pub fn is_on() -> bool {
    FILE.get().is_some()
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Writes what was recorded, if there is a trace.
///
/// # Errors
/// The file cannot be written.
pub fn end() -> Result<(), Errors> {
    let Some(file) = FILE.get() else { return Ok(()) };
    let trace_events = std::mem::take(&mut *EVENTS.lock().unwrap_or_else(PoisonError::into_inner));
    let text = serde_json::to_string(&Document { trace_events }).unwrap_or_default();
    temp_files::write_output(file, text.as_bytes())
}
