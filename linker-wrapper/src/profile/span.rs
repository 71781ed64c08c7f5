//! The spans by which a link is measured.

use std::time::Duration;

use llvm_passes::pipeline::PassTrace;
use tracing::Level;
use tracing::span::EnteredSpan;

/// Target of the spans in the time trace.
pub const TIME_TRACE: &str = "fatlink::time_trace";

/// Target of the spans in the statistics.
pub const STATISTICS: &str = "fatlink::statistics";

/// Measures the time until the result is dropped, for the time trace. `detail` is called only if there is a trace.
pub fn traced(name: &str, detail: impl FnOnce() -> String) -> EnteredSpan {
    tracing::info_span!(target: TIME_TRACE, "phase", name, detail = detail()).entered()
}

/// LLVM records no shorter pass: a link of many partitions has hundreds of thousands of them.
const SHORTEST_PASS: Duration = Duration::from_micros(500);

/// The span of a phase in which LLVM's passes are recorded.
#[derive(Debug)]
pub struct LlvmPhase {
    passes: Option<PassTrace>,
    /// Ends after the event with the passes.
    _phase: EnteredSpan,
}

/// Measures as [`traced`] does, and records the passes that LLVM runs on this thread meanwhile.
pub fn traced_passes(name: &str, detail: impl FnOnce() -> String) -> LlvmPhase {
    let phase = traced(name, detail);
    let is_traced = tracing::enabled!(target: TIME_TRACE, Level::INFO);
    LlvmPhase { passes: is_traced.then(|| PassTrace::begin(SHORTEST_PASS)).flatten(), _phase: phase }
}

impl Drop for LlvmPhase {
    fn drop(&mut self) {
        if let Some(trace) = self.passes.take() {
            passes(&trace.json());
        }
    }
}

/// Reports what LLVM recorded in the innermost span of this thread.
pub fn passes(json: &str) {
    tracing::info!(target: TIME_TRACE, passes = json);
}

/// Measures the time of `work` for the statistics.
pub fn counted<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
    tracing::info_span!(target: STATISTICS, "phase", name).in_scope(work)
}
