//! Where the time and the memory of a link go: `--offload-stats` and `--wrapper-time-trace`.

pub mod recorder;
pub mod stats;
pub mod time_trace;
