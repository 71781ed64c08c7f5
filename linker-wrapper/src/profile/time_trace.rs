//! `--wrapper-time-trace=FILE`: what a link does over time in the JSON format of Chrome's and Perfetto's viewers.
//!
//! The phases that LLVM's wrapper also has are named as there, so that scripts for its traces work here.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::options::Options;
use crate::diag::error::Errors;
use crate::profile::recorder::Recorder;
use crate::profile::recording::{Recorded, RecordedSpan};
use crate::sys::temp_files;

/// Shorter phases are omitted by default, as in LLVM.
const DEFAULT_GRANULARITY: Duration = Duration::from_micros(500);

/// Writes what was recorded, if there is a trace.
///
/// # Errors
/// The file cannot be written.
pub fn write(options: &Options, recorder: &Recorder) -> Result<(), Errors> {
    let (Some(file), Some(recording)) = (&options.time_trace, recorder.recording()) else { return Ok(()) };
    let events: Vec<String> = events(recording.take(), granularity(options)).map(|event| event.to_string()).collect();
    temp_files::write_output(file, format!(r#"{{"traceEvents":[{}]}}"#, events.join(",")).as_bytes())
}

/// The shortest phase in the trace.
pub fn granularity(options: &Options) -> Duration {
    options.time_trace_granularity.unwrap_or(DEFAULT_GRANULARITY)
}

/// The events: "M" names the process and its threads, "C" is the value of a counter from then on, "X" a phase with its beginning and its
/// duration. Times are in microseconds since the beginning of the trace.
fn events(recorded: Recorded, granularity: Duration) -> impl Iterator<Item = Value> {
    let pid = std::process::id();
    let name = move |name, tid, text| json!({"args": {"name": text}, "name": name, "ph": "M", "pid": pid, "tid": tid});
    let counter =
        move |name, (time, value)| json!({"args": {"value": value}, "name": name, "ph": "C", "pid": pid, "ts": time});
    let phase = move |RecordedSpan { name, detail, thread, start, duration, .. }| json!({"args": {"detail": detail}, "dur": duration, "name": name, "ph": "X", "pid": pid, "tid": thread, "ts": start});
    let is_shown = move |span: &RecordedSpan| Duration::from_micros(span.duration) >= granularity;
    let threads = recorded.threads.into_iter().map(move |(number, text)| name("thread_name", number, text));
    let memory = recorded.memory.into_iter().map(move |sample| counter("memory in bytes", sample));
    let running = recorded.running.into_iter().map(move |change| counter("running jobs", change));
    let process = std::iter::once(name("process_name", 0, "fatlink".to_owned()));
    process.chain(threads).chain(memory).chain(running).chain(recorded.spans.into_iter().filter(is_shown).map(phase))
}
