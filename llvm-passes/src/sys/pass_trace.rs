//! LLVM's time profiler.

use std::ffi::c_char;
use std::marker::PhantomData;
use std::time::Duration;

use super::take_message;

unsafe extern "C" {
    fn fatlink_begin_pass_trace(shortest: u32) -> bool;
    fn fatlink_pass_trace() -> *mut c_char;
    fn fatlink_end_pass_trace();
}

/// Records the passes that LLVM runs on this thread, until it is dropped.
#[derive(Debug)]
pub struct PassTrace {
    /// LLVM records by thread.
    stays: PhantomData<*const ()>,
}

impl PassTrace {
    /// Begins to record the passes that take at least this long. `None` if this thread records already.
    pub fn begin(shortest: Duration) -> Option<Self> {
        let microseconds = u32::try_from(shortest.as_micros()).unwrap_or(u32::MAX);
        // SAFETY: the call takes a number; what it creates belongs to this thread.
        unsafe { fatlink_begin_pass_trace(microseconds) }.then(|| PassTrace { stays: PhantomData })
    }

    /// The passes since the beginning as JSON, in the form of Chrome's viewer: `ts` counts microseconds from the beginning.
    /// None of them may be running.
    pub fn json(&self) -> String {
        // SAFETY: this thread records as long as `self` exists. The text was allocated by malloc, as LLVM's messages are.
        unsafe { take_message(fatlink_pass_trace()) }.unwrap_or_default()
    }
}

impl Drop for PassTrace {
    fn drop(&mut self) {
        // SAFETY: this thread records as long as `self` exists, and ends it once.
        unsafe { fatlink_end_pass_trace() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{self, CodeTarget, NEWEST_PTX, OptLevel};
    use crate::session::Session;

    #[test]
    fn a_thread_records_the_passes_that_it_runs() {
        crate::initialize();
        let session = Session::new();
        let target = CodeTarget { arch: "sm_90".parse().unwrap(), ptx: NEWEST_PTX, level: OptLevel::O2 };
        let trace = PassTrace::begin(Duration::ZERO).expect("nothing is recorded yet");
        assert!(PassTrace::begin(Duration::ZERO).is_none());
        pipeline::emit_ptx(&session, &session.context().create_module("m"), target).unwrap();
        let elsewhere = std::thread::spawn(|| PassTrace::begin(Duration::ZERO).map(|trace| trace.json()));
        assert!(!elsewhere.join().unwrap().expect("a thread of its own").contains("OptModule"));
        let own = trace.json();
        assert!(own.contains(r#""name":"OptModule","args":{"detail":"m"}"#), "{own}");
        drop(trace);
        let again = PassTrace::begin(Duration::ZERO).expect("the first has ended");
        assert!(!again.json().contains("OptModule"));
    }
}
