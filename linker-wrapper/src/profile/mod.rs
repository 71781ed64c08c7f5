//! Where the time and the memory of a link go: `--offload-stats`, `--wrapper-time-trace`, and the timeline of `--offload-report=html`.
//!
//! All are layers over the spans of [`span`]. Each layer records the spans of one target, so that a span costs nothing
//! unless its layer is installed.

mod fields;
pub mod forwarding;
mod memory_samples;
mod passes;
mod phases;
pub mod recorder;
mod recording;
pub mod span;
pub mod stats;
pub mod time_trace;
pub mod timeline;

use std::time::Duration;

use tracing::Level;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::options::Options;
use crate::cli::values::OffloadReport;
use forwarding::{Boundary, Forwarding};
use phases::EndedPhases;
use recorder::Recorder;
use recording::Recording;

/// Shorter phases cannot be seen in a timeline.
const TIMELINE_GRANULARITY: Duration = Duration::from_micros(100);

/// Installs the layers that the options of this link require, and returns what records the rest. Without any layer, no span is recorded.
pub fn begin(options: &Options) -> Recorder {
    let of_trace = options.time_trace.as_ref().map(|_| time_trace::granularity(options));
    let has_timeline = matches!(options.report, Some(OffloadReport::Html(_)));
    let of_timeline = has_timeline.then_some(TIMELINE_GRANULARITY);
    let granularity = of_trace.into_iter().chain(of_timeline).min();
    let recording = granularity.map(|_| Recording::begin());
    let layer = |(recording, shortest): (&Recording, _)| recording.layer(shortest).with_filter(only(span::TIME_TRACE));
    let trace = recording.as_ref().zip(granularity).map(layer);
    let ended = EndedPhases::default();
    let phases = options.stats.is_some().then(|| phases::layer(ended.clone()).with_filter(only(span::STATISTICS)));
    if trace.is_some() || phases.is_some() {
        // A process runs one link: a second subscriber would record nothing.
        let _ = tracing_subscriber::registry().with(trace).with(phases).try_init();
    }
    Recorder::of(ended, recording)
}

/// Installs the layer of a worker that reports the spans of the time trace.
pub fn forward(report: fn(Boundary)) {
    // A process runs one job: a second subscriber would record nothing.
    let _ = tracing_subscriber::registry().with(Forwarding(report).with_filter(only(span::TIME_TRACE))).try_init();
}

fn only(target: &'static str) -> Targets {
    Targets::new().with_target(target, Level::INFO)
}
