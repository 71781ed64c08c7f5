//! Where the time and the memory of a link go: `--offload-stats` and `--wrapper-time-trace`.
//!
//! Both are layers over the spans of [`span`]. Each layer records the spans of one target, so that a span costs nothing
//! unless its layer is installed.

mod fields;
pub mod forwarding;
mod phases;
pub mod recorder;
pub mod span;
pub mod stats;
pub mod time_trace;

use std::path::Path;
use std::time::Duration;

use tracing::Level;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use forwarding::Boundary;

/// Installs the layers that the options of this link require. Without any, nothing is recorded.
pub fn begin(trace: Option<&Path>, granularity: Option<Duration>, statistics: bool) {
    let trace = trace.map(|file| time_trace::layer(file, granularity).with_filter(only(span::TIME_TRACE)));
    let phases = statistics.then(|| phases::layer().with_filter(only(span::STATISTICS)));
    if trace.is_some() || phases.is_some() {
        // A process runs one link: a second subscriber would record nothing.
        let _ = tracing_subscriber::registry().with(trace).with(phases).try_init();
    }
}

/// Installs the layer of a worker that reports the spans of the time trace.
pub fn forward(report: fn(Boundary)) {
    // A process runs one job: a second subscriber would record nothing.
    let _ =
        tracing_subscriber::registry().with(forwarding::layer(report).with_filter(only(span::TIME_TRACE))).try_init();
}

fn only(target: &'static str) -> Targets {
    Targets::new().with_target(target, Level::INFO)
}
