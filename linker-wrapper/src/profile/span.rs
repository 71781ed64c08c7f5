//! The spans by which a link is measured.

use tracing::span::EnteredSpan;

/// Target of the spans in the time trace.
pub const TIME_TRACE: &str = "fatlink::time_trace";

/// Target of the spans in the statistics.
pub const STATISTICS: &str = "fatlink::statistics";

/// Measures the time until the result is dropped, for the time trace. `detail` is called only if there is a trace.
pub fn traced(name: &str, detail: impl FnOnce() -> String) -> EnteredSpan {
    tracing::info_span!(target: TIME_TRACE, "phase", name, detail = detail()).entered()
}

/// Measures the time of `work` for the statistics.
pub fn counted<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
    tracing::info_span!(target: STATISTICS, "phase", name).in_scope(work)
}
