//! The threads that rayon's parallel iterators use.

use std::fmt;
use std::sync::OnceLock;

use crate::cli::values::Jobs;
use crate::diag::error::Errors;
use crate::sys::error::Error;
use crate::sys::job_queue::STACK_SIZE;

/// The value of `--wrapper-jobs`.
static WANTED: OnceLock<Jobs> = OnceLock::new();

static STARTED: OnceLock<Result<(), Errors>> = OnceLock::new();

/// Sets the number of threads, before any is started.
pub fn set_number(jobs: Jobs) {
    // There is one command line.
    let _ = WANTED.set(jobs);
}

/// Starts the threads at the first call. Must be called before rayon is used, which panics if it cannot start a thread.
///
/// # Errors
/// A thread cannot be started.
pub fn start() -> Result<(), Errors> {
    let start = || {
        let number = if let Some(Jobs::Number(jobs)) = WANTED.get() { *jobs } else { 0 };
        let builder = rayon::ThreadPoolBuilder::new().num_threads(number).stack_size(STACK_SIZE);
        let builder = builder.thread_name(|thread| format!("thread {}", thread + 1));
        builder.build_global().map_err(|error| cannot_start(&error))
    };
    STARTED.get_or_init(start).clone()
}

/// The error of a link that cannot start a thread that it needs.
pub fn cannot_start(error: &dyn fmt::Display) -> Errors {
    Error::Thread { reason: error.to_string() }.into()
}
