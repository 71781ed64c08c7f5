//! Runs jobs on threads, the longest first.
//!
//! The costs of kernels are heavy-tailed: a long one that starts last keeps one core busy while the others wait. rayon does
//! not guarantee an order, so the jobs of device links have threads of their own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::diag::error::{Errors, collect};
use crate::sys::jobserver::Limit;

/// LLVM recurses deeply in large functions. Pages of the stack that are not used take no memory.
pub const STACK_SIZE: usize = 64 << 20;

/// Called with the number of jobs that run, and of those that may run, whenever the first changes.
type Observer = Box<dyn Fn(usize, usize) + Send + Sync>;

/// The queues of all machines are observed as one.
static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// The number of jobs that run. It is locked while the observer runs, so that the observer sees the changes in their order.
static RUNNING: Mutex<usize> = Mutex::new(0);

/// Has `observer` called whenever a job begins or ends.
pub fn observe(observer: Observer) {
    // A process runs one link.
    let _ = OBSERVER.set(observer);
}

/// A job that runs, as the observer sees it.
struct Observed {
    slots: usize,
}

impl Observed {
    fn begin(slots: usize) -> Self {
        change_running(slots, |running| running + 1);
        Observed { slots }
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        change_running(self.slots, |running| running.saturating_sub(1));
    }
}

fn change_running(slots: usize, change: impl Fn(usize) -> usize) {
    let mut running = RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    *running = change(*running);
    OBSERVER.get().into_iter().for_each(|observer| observer(*running, slots));
}

/// The property of a job that the queue depends on.
pub trait Job: Sync {
    /// Whether the job can be skipped once another one has failed.
    fn may_skip_after_error(&self) -> bool;
}

/// A job with its cost.
pub struct Ranked<'j, J> {
    /// The job.
    pub job: &'j J,
    /// Roughly proportional to the time that it takes; 0 if it only has to fetch its result: the others start first.
    pub cost: u64,
}

/// Runs all jobs, the costliest first, as many at a time as `limit` allows. `run` gets each job with its index; the results
/// come in the order of the jobs. After an error no further job of many is started, and the errors of all running jobs are
/// collected.
///
/// # Errors
/// Those of the jobs.
pub fn longest_first<J: Job, T: Send>(
    jobs: &[Ranked<'_, J>],
    limit: &Limit,
    run: impl Fn(usize, &J) -> Result<T, Errors> + Sync,
) -> Result<Vec<T>, Errors> {
    debug_assert!(rayon::current_thread_index().is_none(), "a thread of rayon waits for jobs (see sys::threads)");
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(jobs[*index].cost));
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let results: Vec<Mutex<Option<Result<T, Errors>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let slots = limit.slots();
    let work = |worker: usize| {
        while let Some(_slot) = slots.wait(worker) {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place + 1 >= order.len() {
                slots.close();
            }
            let Some(index) = order.get(place) else { return };
            let job = jobs[*index].job;
            if job.may_skip_after_error() && failed.load(Ordering::Relaxed) {
                continue;
            }
            let observed = Observed::begin(limit.workers());
            let result = run(*index, job);
            drop(observed);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            if let Ok(mut place) = results[*index].lock() {
                *place = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        for worker in 0..limit.workers().clamp(1, jobs.len().max(1)) {
            let work = &work;
            let thread = std::thread::Builder::new().stack_size(STACK_SIZE).name(format!("job {}", worker + 1));
            let spawned = thread.spawn_scoped(scope, move || work(worker));
            if spawned.is_err() {
                // No thread can be started: the existing ones do the work, or this one if there is none.
                if worker == 0 {
                    work(0);
                }
                break;
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
        /// Small ones are.
        fn may_skip_after_error(&self) -> bool {
            *self < 10
        }
    }

    /// Jobs that cost as much as their numbers.
    fn ranked(jobs: &[u64]) -> Vec<Ranked<'_, u64>> {
        jobs.iter().map(|job| Ranked { job, cost: *job }).collect()
    }

    #[test]
    fn results_come_in_the_order_of_the_jobs_and_work_in_the_order_of_costs() {
        let started = Mutex::new(Vec::new());
        let results = longest_first(&ranked(&[3, 9, 1, 7]), &Limit::of(1), |_, job| {
            started.lock().unwrap().push(*job);
            Ok(job * 2)
        });
        assert_eq!(results.unwrap(), [6, 18, 2, 14]);
        assert_eq!(*started.lock().unwrap(), [9, 7, 3, 1]);
    }

    #[test]
    fn jobs_whose_results_are_known_start_last() {
        let started = Mutex::new(Vec::new());
        let costs = [(3_u64, 3), (9, 0), (1, 0), (7, 7)];
        let jobs: Vec<Ranked<'_, u64>> = costs.iter().map(|(job, cost)| Ranked { job, cost: *cost }).collect();
        let results = longest_first(&jobs, &Limit::of(1), |_, job| {
            started.lock().unwrap().push(*job);
            Ok(*job)
        });
        assert_eq!(results.unwrap(), [3, 9, 1, 7]);
        assert_eq!(*started.lock().unwrap(), [7, 3, 9, 1]);
    }

    #[test]
    fn after_an_error_only_what_stands_alone_starts() {
        let started = Mutex::new(Vec::new());
        let result = longest_first(&ranked(&[1, 30, 20]), &Limit::of(1), |_, job| -> Result<(), Errors> {
            started.lock().unwrap().push(*job);
            if *job == 30 { Err(std::io::Error::other("no").into()) } else { Ok(()) }
        });
        assert_eq!(result, Err(std::io::Error::other("no").into()));
        assert_eq!(*started.lock().unwrap(), [30, 20]);
    }

    #[test]
    fn more_threads_than_jobs_are_fine() {
        assert_eq!(longest_first(&ranked(&[1, 2]), &Limit::of(64), |_, job| Ok(*job)).unwrap(), [1, 2]);
        assert!(longest_first(&ranked(&[]), &Limit::of(4), |_, job| Ok(*job)).unwrap().is_empty());
    }
}
