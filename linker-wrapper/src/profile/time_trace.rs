//! `--wrapper-time-trace=FILE`: what a link does over time in the JSON format of Chrome's and Perfetto's viewers.
//!
//! The phases that LLVM's wrapper also has are named as there, so that scripts for its traces work here.

use std::time::Duration;

use serde::Serialize;

use crate::cli::options::Options;
use crate::diag::error::Errors;
use crate::profile::recorder::Recorder;
use crate::profile::recording::{Recorded, RecordedSpan};
use crate::sys::temp_files;

/// Shorter phases are omitted by default, as in LLVM.
const DEFAULT_GRANULARITY: Duration = Duration::from_micros(500);

/// One event. The field names are the keys of the JSON form.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Event {
    /// A phase that has ended.
    Phase {
        args: Detail,
        /// Microseconds.
        dur: u64,
        name: String,
        /// "X": the event has a beginning and a duration.
        ph: &'static str,
        pid: u32,
        tid: u64,
        /// Microseconds since the beginning of the trace.
        ts: u64,
    },
    /// The value of a counter from now on.
    Counter { args: Value, name: &'static str, ph: &'static str, pid: u32, ts: u64 },
    /// The name of the process, or of one of its threads.
    Name { args: Name, name: &'static str, ph: &'static str, pid: u32, tid: u64 },
}

#[derive(Debug, Serialize)]
struct Detail {
    detail: String,
}

#[derive(Debug, Serialize)]
struct Value {
    value: u64,
}

#[derive(Debug, Serialize)]
struct Name {
    name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    trace_events: Vec<Event>,
}

/// Writes what was recorded, if there is a trace.
///
/// # Errors
/// The file cannot be written.
pub fn write(options: &Options, recorder: &Recorder) -> Result<(), Errors> {
    let (Some(file), Some(recording)) = (&options.time_trace, recorder.recording()) else { return Ok(()) };
    let trace_events = events(recording.take(), granularity(options));
    let text = serde_json::to_string(&Document { trace_events }).unwrap_or_default();
    temp_files::write_output(file, text.as_bytes())
}

/// The shortest phase in the trace.
pub fn granularity(options: &Options) -> Duration {
    options.time_trace_granularity.unwrap_or(DEFAULT_GRANULARITY)
}

fn events(recorded: Recorded, granularity: Duration) -> Vec<Event> {
    let pid = std::process::id();
    let name = |name, tid, text: String| Event::Name { args: Name { name: text }, name, ph: "M", pid, tid };
    let counter = |name, (ts, value)| Event::Counter { args: Value { value }, name, ph: "C", pid, ts };
    let phase = |RecordedSpan { name, detail, thread, start, duration, .. }| Event::Phase {
        args: Detail { detail },
        dur: duration,
        name,
        ph: "X",
        pid,
        tid: thread,
        ts: start,
    };
    let is_shown = |span: &RecordedSpan| Duration::from_micros(span.duration) >= granularity;
    let mut events = vec![name("process_name", 0, "fatlink".to_owned())];
    events.extend(recorded.threads.into_iter().map(|(number, text)| name("thread_name", number, text)));
    events.extend(recorded.memory.into_iter().map(|sample| counter("memory in bytes", sample)));
    events.extend(recorded.running.into_iter().map(|change| counter("running jobs", change)));
    events.extend(recorded.spans.into_iter().filter(is_shown).map(phase));
    events
}
