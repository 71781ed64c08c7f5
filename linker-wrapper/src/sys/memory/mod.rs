//! The memory that jobs may use at the same time: `--offload-memory=`, or a part of what is available.

mod available;
pub mod estimates;
mod resident;

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

pub use available::{forget_own_peak, own_peak, peak_of};
pub use resident::resident_with_children;

use crate::cli::values::MemoryChoice;

/// Default percentage of the available memory: estimates may be too low, and other programs need memory too.
const DEFAULT_PERCENT: u64 = 80;

/// Maximum number of smaller jobs that overtake a waiting one.
const MOST_OVERTAKEN: u32 = 8;

/// Resolves the option to bytes.
fn bytes_of(choice: Option<MemoryChoice>) -> u64 {
    let part = |percent| match available::bytes("/".as_ref()) {
        Some(bytes) => bytes / 100 * percent,
        // Without information there is no limit.
        None => u64::MAX,
    };
    match choice {
        Some(MemoryChoice::Bytes(bytes)) => bytes,
        Some(MemoryChoice::Percent(percent)) => part(percent),
        None => part(DEFAULT_PERCENT),
    }
}

/// Admits jobs as long as their estimates fit together. A job that is larger than the whole budget runs alone.
#[derive(Debug)]
pub struct Budget {
    choice: Option<MemoryChoice>,
    /// Computed for the first job: reading control groups takes a millisecond, and small links have no jobs.
    total: OnceLock<u64>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    reserved: u64,
    running: usize,
    /// In the order in which they came.
    waiting: Vec<Waiting>,
    next: u64,
    most: u64,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    bytes: u64,
    overtaken: u32,
}

impl Budget {
    /// The budget of a link.
    pub fn new(choice: Option<MemoryChoice>) -> Self {
        Budget { choice, total: OnceLock::new(), state: Mutex::default(), changed: Condvar::new() }
    }

    /// The budget in bytes.
    fn total(&self) -> u64 {
        *self.total.get_or_init(|| bytes_of(self.choice))
    }

    /// Waits until a job of about this many bytes may run. Jobs are admitted in order; while a large one waits, a limited
    /// number of smaller ones may use the rest.
    pub fn admit(&self, bytes: u64) -> Permit<'_> {
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        state.waiting.push(Waiting { ticket, bytes, overtaken: 0 });
        while !self.may_run(&state, ticket) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        for earlier in state.waiting.iter_mut().take_while(|waiting| waiting.ticket != ticket) {
            earlier.overtaken += 1;
        }
        state.waiting.retain(|waiting| waiting.ticket != ticket);
        state.running += 1;
        state.reserve(bytes);
        drop(state);
        // The next one in the queue may fit as well.
        self.changed.notify_all();
        Permit { budget: self, bytes }
    }

    fn may_run(&self, state: &State, ticket: u64) -> bool {
        let mut earlier = state.waiting.iter().take_while(|waiting| waiting.ticket != ticket);
        let patient = earlier.all(|waiting| waiting.overtaken < MOST_OVERTAKEN);
        let own = state.waiting.iter().find(|waiting| waiting.ticket == ticket);
        let fits = own.is_some_and(|own| state.reserved.saturating_add(own.bytes) <= self.total());
        patient && (fits || state.running == 0)
    }

    /// Most bytes that were reserved at the same time.
    #[cfg(test)]
    pub fn most_reserved(&self) -> u64 {
        self.lock().most
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn reserve(&mut self, bytes: u64) {
        self.reserved = self.reserved.saturating_add(bytes);
        self.most = self.most.max(self.reserved);
    }
}

/// Permission to run a job. Its memory is released when dropped.
#[derive(Debug)]
pub struct Permit<'b> {
    budget: &'b Budget,
    bytes: u64,
}

impl Permit<'_> {
    /// Changes the estimate of a running job, without waiting.
    pub fn adjust(&mut self, bytes: u64) {
        let mut state = self.budget.lock();
        state.reserved = state.reserved.saturating_sub(self.bytes);
        state.reserve(bytes);
        self.bytes = bytes;
        drop(state);
        self.budget.changed.notify_all();
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        state.reserved = state.reserved.saturating_sub(self.bytes);
        state.running -= 1;
        drop(state);
        self.budget.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn the_total_is_what_was_requested() {
        assert_eq!(Budget::new(Some(MemoryChoice::Bytes(7))).total(), 7);
        // This system says what it has.
        let half = Budget::new(Some(MemoryChoice::Percent(50))).total();
        assert!(half > 1 << 20 && half < 1 << 50, "{half}");
    }

    #[test]
    fn never_more_than_fits() {
        let budget = Budget::new(Some(MemoryChoice::Bytes(100)));
        let (now, most, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for job in 0..40_u64 {
                let (budget, now, most, done) = (&budget, &now, &most, &done);
                scope.spawn(move || {
                    let bytes = 10 + job % 7 * 15;
                    let permit = budget.admit(bytes);
                    most.fetch_max(now.fetch_add(bytes, Ordering::SeqCst) + bytes, Ordering::SeqCst);
                    std::thread::yield_now();
                    now.fetch_sub(bytes, Ordering::SeqCst);
                    drop(permit);
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(done.into_inner(), 40);
        assert!(most.into_inner() <= 100);
        let state = budget.state.into_inner().unwrap();
        assert_eq!((state.reserved, state.running, state.waiting.len()), (0, 0, 0));
    }

    /// Starts a thread that asks, and comes back when it waits; the channel says when it was let in.
    fn ask<'s, 'e>(
        scope: &'s std::thread::Scope<'s, 'e>,
        budget: &'e Budget,
        bytes: u64,
    ) -> mpsc::Receiver<Permit<'e>> {
        let (tell, told) = mpsc::channel();
        let before = budget.lock().next;
        scope.spawn(move || tell.send(budget.admit(bytes)));
        while budget.lock().next == before {
            std::thread::yield_now();
        }
        told
    }

    /// The permit of a thread that has been let in. On a busy machine it takes a moment to say so.
    fn granted<'e>(told: &mpsc::Receiver<Permit<'e>>) -> Permit<'e> {
        told.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    fn waits(told: &mpsc::Receiver<Permit<'_>>) -> bool {
        told.recv_timeout(Duration::from_millis(20)).is_err()
    }

    #[test]
    fn too_large_a_job_runs_alone() {
        let budget = Budget::new(Some(MemoryChoice::Bytes(100)));
        std::thread::scope(|scope| {
            let small = budget.admit(10);
            let large = ask(scope, &budget, 1000);
            assert!(waits(&large));
            drop(small);
            let large = granted(&large);
            let small = ask(scope, &budget, 1);
            assert!(waits(&small));
            drop(large);
            drop(granted(&small));
        });
        assert_eq!(budget.most_reserved(), 1000);
    }

    #[test]
    fn a_large_job_is_not_starved() {
        let budget = Budget::new(Some(MemoryChoice::Bytes(100)));
        std::thread::scope(|scope| {
            let mut running = vec![budget.admit(60)];
            let large = ask(scope, &budget, 90);
            let mut overtaking = 0;
            // Small ones come for ever; each time one ends another comes.
            let blocked = loop {
                let ticket = budget.lock().next;
                let small = ask(scope, &budget, 30);
                let state = budget.lock();
                let has_to_wait =
                    state.waiting.iter().any(|waiting| waiting.ticket == ticket) && !budget.may_run(&state, ticket);
                drop(state);
                if has_to_wait {
                    break small;
                }
                running.push(granted(&small));
                overtaking += 1;
                assert!(overtaking <= MOST_OVERTAKEN, "the large one waits for ever");
                running.pop();
            };
            assert!(waits(&large));
            running.clear();
            drop(granted(&large));
            drop(granted(&blocked));
        });
    }

    #[test]
    fn a_running_job_can_need_less_or_more() {
        let budget = Budget::new(Some(MemoryChoice::Bytes(100)));
        std::thread::scope(|scope| {
            let mut first = budget.admit(100);
            let second = ask(scope, &budget, 50);
            assert!(waits(&second));
            first.adjust(50);
            let second = granted(&second);
            first.adjust(500);
            drop(second);
            let third = ask(scope, &budget, 1);
            assert!(waits(&third));
            drop(first);
            drop(granted(&third));
        });
    }
}
