//! Entries that are fetched before the link needs them, many at a time: with a distant store, the delay of each request would
//! otherwise add up.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Number of requests at the same time.
const THREADS: usize = 16;

/// Bytes that may lie here until the link takes them.
const MOST_BYTES: u64 = 256 << 20;

/// What is known of one entry.
#[derive(Debug)]
enum Slot {
    /// No request has begun.
    Waiting,
    /// A request is under way.
    Running,
    /// It has ended.
    Done(Option<Vec<u8>>),
}

/// What the caller of [`Prefetch::take`] has to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// Fetch the entry itself.
    Nothing,
    /// Use the result of the request.
    Result(Option<Vec<u8>>),
}

/// A request that is under way. If it is dropped before its end, its entry counts as not found: nobody waits for a thread that
/// panics.
#[derive(Debug)]
pub struct Request<'p> {
    prefetch: &'p Prefetch,
    /// The key of the entry.
    pub key: [u8; 32],
    found: Option<Vec<u8>>,
}

impl Request<'_> {
    /// Ends the request.
    pub fn end(mut self, found: Option<Vec<u8>>) {
        self.found = found;
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.prefetch.done(self.key, self.found.take());
    }
}

/// The entries.
#[derive(Debug, Default)]
pub struct Prefetch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    slots: HashMap<[u8; 32], Slot>,
    order: VecDeque<[u8; 32]>,
    bytes: u64,
    /// Number of threads that make requests.
    threads: usize,
    closed: bool,
}

impl Prefetch {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds keys in the order in which the link will need them. Returns how many threads the caller has to start, each of which makes
    /// requests until [`Prefetch::next`] returns `None`.
    pub fn add(&self, keys: impl IntoIterator<Item = [u8; 32]>) -> usize {
        let mut state = self.state();
        let before = state.order.len();
        for key in keys {
            if !state.closed && !state.slots.contains_key(&key) {
                state.slots.insert(key, Slot::Waiting);
                state.order.push_back(key);
            }
        }
        let threads = (state.order.len() - before).min(THREADS.saturating_sub(state.threads));
        state.threads += threads;
        threads
    }

    /// Begins the next request. Waits while too many bytes lie here. `None`: there is no more.
    pub fn next(&self) -> Option<Request<'_>> {
        let mut state = self.state();
        while state.bytes > MOST_BYTES && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        while let Some(key) = state.order.pop_front() {
            if let Some(slot @ Slot::Waiting) = state.slots.get_mut(&key) {
                *slot = Slot::Running;
                return Some(Request { prefetch: self, key, found: None });
            }
        }
        state.threads = state.threads.saturating_sub(1);
        None
    }

    /// A request has ended.
    fn done(&self, key: [u8; 32], found: Option<Vec<u8>>) {
        let mut state = self.state();
        state.bytes += found.as_ref().map_or(0, |bytes| bytes.len() as u64);
        state.slots.insert(key, Slot::Done(found));
        self.changed.notify_all();
    }

    /// Takes the result for a key; waits for a request that is under way.
    pub fn take(&self, key: &[u8; 32]) -> Taken {
        let mut state = self.state();
        loop {
            match state.slots.remove(key) {
                None | Some(Slot::Waiting) => return Taken::Nothing,
                Some(Slot::Done(found)) => {
                    state.bytes -= found.as_ref().map_or(0, |bytes| bytes.len() as u64);
                    self.changed.notify_all();
                    return Taken::Result(found);
                }
                Some(Slot::Running) => {
                    state.slots.insert(*key, Slot::Running);
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Whether the request for a key found something; waits for one that is under way, and leaves its result here.
    ///
    /// # Errors
    /// There was no request: the caller makes it.
    pub fn has(&self, key: &[u8; 32]) -> Result<bool, Request<'_>> {
        let mut state = self.state();
        loop {
            match state.slots.get(key) {
                None | Some(Slot::Waiting) => {
                    state.slots.insert(*key, Slot::Running);
                    return Err(Request { prefetch: self, key: *key, found: None });
                }
                Some(Slot::Done(found)) => return Ok(found.is_some()),
                Some(Slot::Running) => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Starts no more requests.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.order.clear();
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn key(number: u8) -> [u8; 32] {
        [number; 32]
    }

    #[test]
    fn what_nobody_has_begun_is_left_to_the_link() {
        let prefetch = Prefetch::default();
        assert_eq!(prefetch.add([key(1), key(2), key(1)]), 2);
        assert_eq!(prefetch.take(&key(1)), Taken::Nothing);
        let request = prefetch.next().unwrap();
        assert_eq!(request.key, key(2), "the other one was taken");
        request.end(Some(vec![1]));
        assert!(prefetch.has(&key(2)).unwrap());
        assert!(prefetch.next().is_none());
        assert_eq!(prefetch.take(&key(2)), Taken::Result(Some(vec![1])));
        assert_eq!(prefetch.take(&key(2)), Taken::Nothing, "only once");
    }

    #[test]
    fn there_are_only_so_many_threads() {
        let prefetch = Prefetch::default();
        assert_eq!(prefetch.add((0..10).map(key)), 10);
        assert_eq!(prefetch.add((10..30).map(key)), THREADS - 10);
        while prefetch.next().is_some() {}
        assert_eq!(prefetch.add([key(30)]), 1, "a thread has ended");
    }

    #[test]
    fn a_request_is_made_once() {
        let prefetch = Prefetch::default();
        prefetch.add([key(1), key(2)]);
        let request = prefetch.has(&key(1)).unwrap_err();
        assert_eq!(prefetch.next().unwrap().key, key(2), "somebody fetches the other one");
        request.end(Some(vec![1]));
        assert!(prefetch.has(&key(1)).unwrap());
        assert!(!prefetch.has(&key(2)).unwrap());
        assert_eq!(prefetch.take(&key(1)), Taken::Result(Some(vec![1])));
    }

    #[test]
    fn the_link_waits_for_a_request_that_runs() {
        let prefetch = Prefetch::default();
        prefetch.add([key(1)]);
        let request = prefetch.next().unwrap();
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| prefetch.take(&key(1)));
            request.end(Some(vec![2]));
            assert_eq!(taken.join().unwrap(), Taken::Result(Some(vec![2])));
        });
    }

    #[test]
    fn nobody_waits_for_a_thread_that_panics() {
        let prefetch = Prefetch::default();
        prefetch.add([key(1)]);
        let thread = std::thread::scope(|scope| {
            let fetch = || {
                let _request = prefetch.next();
                panic!("on purpose");
            };
            scope.spawn(fetch).join()
        });
        assert!(thread.is_err());
        assert_eq!(prefetch.take(&key(1)), Taken::Result(None));
    }

    #[test]
    fn too_many_bytes_make_requests_wait() {
        let prefetch = Prefetch::default();
        prefetch.add([key(1), key(2), key(3)]);
        prefetch.next().unwrap().end(Some(vec![0; MOST_BYTES as usize + 1]));
        std::thread::scope(|scope| {
            let next = scope.spawn(|| prefetch.next().map(|request| request.key));
            assert!(matches!(prefetch.take(&key(1)), Taken::Result(Some(_))));
            assert_eq!(next.join().unwrap(), Some(key(2)));
        });
        prefetch.close();
        assert!(prefetch.next().is_none());
        assert_eq!(prefetch.add([key(4)]), 0);
    }
}
