//! Jobs on threads, the longest first.
//!
//! The costs of kernels are heavy-tailed: a long one that starts last keeps one core busy while the others
//! wait. rayon gives no such order, so the jobs of device links have their own threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{Errors, collect};

/// LLVM recurses deeply in large functions. Memory is only used where the stack really grows.
pub const STACK_SIZE: usize = 64 << 20;

/// What a pool wants to know of a job.
pub trait Job: Sync {
    /// Roughly proportional to the time that it takes.
    fn cost(&self) -> u64;

    /// Whether it is not worth its time once another one has failed.
    fn is_one_of_many(&self) -> bool;
}

/// Runs all jobs, the costliest first, `threads` at a time; the results come in the order of the jobs. After an
/// error no further job of many starts; those that run go on to their end, and all errors are shown.
///
/// # Errors
/// Those of the jobs.
pub fn longest_first<J: Job, T: Send>(
    jobs: &[J],
    threads: usize,
    run: impl Fn(&J) -> Result<T, Errors> + Sync,
) -> Result<Vec<T>, Errors> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(jobs[*index].cost()));
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let results: Vec<Mutex<Option<Result<T, Errors>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some(index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let job = &jobs[*index];
            if job.is_one_of_many() && failed.load(Ordering::Relaxed) {
                continue;
            }
            let result = run(job);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            if let Ok(mut place) = results[*index].lock() {
                *place = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            let spawned = std::thread::Builder::new().stack_size(STACK_SIZE).spawn_scoped(scope, work);
            if spawned.is_err() {
                // No thread to be had: this one does the work.
                work();
            }
        }
    });
    let done = results.into_iter().filter_map(|result| result.into_inner().ok().flatten());
    collect(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Job for u64 {
        fn cost(&self) -> u64 {
            *self
        }

        /// Small ones are.
        fn is_one_of_many(&self) -> bool {
            *self < 10
        }
    }

    #[test]
    fn results_come_in_the_order_of_the_jobs_and_work_in_the_order_of_costs() {
        let started = Mutex::new(Vec::new());
        let results = longest_first(&[3_u64, 9, 1, 7], 1, |job| {
            started.lock().unwrap().push(*job);
            Ok(job * 2)
        });
        assert_eq!(results.unwrap(), [6, 18, 2, 14]);
        assert_eq!(*started.lock().unwrap(), [9, 7, 3, 1]);
    }

    #[test]
    fn after_an_error_only_what_stands_alone_starts() {
        let started = Mutex::new(Vec::new());
        let result = longest_first(&[1_u64, 30, 20], 1, |job| -> Result<(), Errors> {
            started.lock().unwrap().push(*job);
            if *job == 30 { Err(Errors::one("no")) } else { Ok(()) }
        });
        assert_eq!(result, Err(Errors::one("no")));
        assert_eq!(*started.lock().unwrap(), [30, 20]);
    }

    #[test]
    fn more_threads_than_jobs_are_fine() {
        assert_eq!(longest_first(&[1_u64, 2], 64, |job| Ok(*job)).unwrap(), [1, 2]);
        assert!(longest_first(&[] as &[u64], 4, |job| Ok(*job)).unwrap().is_empty());
    }
}
