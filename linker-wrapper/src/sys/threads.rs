//! Threads: those of rayon's parallel iterators, and those of work that waits for jobs.
//!
//! A job may use parallel iterators. A thread of rayon must therefore never wait for jobs: with as many such waits as rayon has threads, none is
//! left for the jobs, and the link stands still.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

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

/// Runs two functions that may wait for jobs, at the same time where a thread can be started for the second one.
pub fn join<A, B: Send>(first: impl FnOnce() -> A, second: impl FnOnce() -> B + Send) -> (A, B) {
    let task = Task::new(second);
    std::thread::scope(|scope| {
        let running = task.start(scope);
        let first = first();
        (first, task.finish(running))
    })
}

/// Calls a function that may wait for jobs with each item, all at the same time where threads can be started. The results are in the order of
/// the items.
pub fn each<I: Send, T: Send>(items: impl IntoIterator<Item = I>, call: impl Fn(I) -> T + Sync) -> Vec<T> {
    let call = &call;
    let mut items = items.into_iter();
    let Some(first) = items.next() else { return Vec::new() };
    let tasks: Vec<_> = items.map(|item| Task::new(move || call(item))).collect();
    std::thread::scope(|scope| {
        let running: Vec<_> = tasks.iter().map(|task| task.start(scope)).collect();
        let first = call(first);
        let others = tasks.iter().zip(running).map(|(task, running)| task.finish(running));
        std::iter::once(first).chain(others).collect()
    })
}

/// A function that is called once, by a thread of its own or by the one that waits for it.
struct Task<F>(Mutex<Option<F>>);

impl<F: FnOnce() -> T + Send, T: Send> Task<F> {
    fn new(call: F) -> Self {
        Task(Mutex::new(Some(call)))
    }

    fn call(&self) -> Option<T> {
        let call = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        call.map(|call| call())
    }

    /// Starts a thread; `None` if there cannot be one more.
    fn start<'s>(&'s self, scope: &'s Scope<'s, '_>) -> Option<ScopedJoinHandle<'s, Option<T>>>
    where
        T: 's,
    {
        let builder = Builder::new().stack_size(STACK_SIZE).name("link".to_owned());
        builder.spawn_scoped(scope, || self.call()).ok()
    }

    fn finish(&self, running: Option<ScopedJoinHandle<'_, Option<T>>>) -> T {
        let result = match running.map(ScopedJoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => self.call(),
        };
        result.expect("a task is called once")
    }
}

/// The error of a link that cannot start a thread that it needs.
pub fn cannot_start(error: &dyn fmt::Display) -> Errors {
    Error::Thread { reason: error.to_string() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_functions_run_at_the_same_time() {
        let barrier = std::sync::Barrier::new(3);
        let wait = |item: u32| {
            barrier.wait();
            item * 2
        };
        assert_eq!(each([1, 2, 3], wait), [2, 4, 6]);
        assert_eq!(each([0; 0], wait), [0; 0]);
        let barrier = std::sync::Barrier::new(2);
        let (first, second) = join(|| barrier.wait().is_leader(), || barrier.wait().is_leader());
        assert_ne!(first, second);
    }
}
