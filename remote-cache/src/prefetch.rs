//! Entries that are fetched before the link needs them, many at a time: with a distant store, the delay of each request would
//! otherwise add up.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Number of requests at the same time.
pub const THREADS: usize = 16;

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
    closed: bool,
}

impl Prefetch {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds keys in the order in which the link will need them. Returns how many are new.
    pub fn add(&self, keys: impl IntoIterator<Item = [u8; 32]>) -> usize {
        let mut state = self.state();
        let before = state.order.len();
        for key in keys {
            if !state.closed && !state.slots.contains_key(&key) {
                state.slots.insert(key, Slot::Waiting);
                state.order.push_back(key);
            }
        }
        state.order.len() - before
    }

    /// Returns the next key to fetch. Waits while too many bytes lie here. `None`: there is no more.
    pub fn next(&self) -> Option<[u8; 32]> {
        let mut state = self.state();
        while state.bytes > MOST_BYTES && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        while let Some(key) = state.order.pop_front() {
            if let Some(slot @ Slot::Waiting) = state.slots.get_mut(&key) {
                *slot = Slot::Running;
                return Some(key);
            }
        }
        None
    }

    /// A request has ended.
    pub fn done(&self, key: [u8; 32], found: Option<Vec<u8>>) {
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

    /// Whether the request for a key found something; waits for one that is under way, and leaves its result here. `None`: there was no
    /// request.
    pub fn has(&self, key: &[u8; 32]) -> Option<bool> {
        let mut state = self.state();
        loop {
            match state.slots.get(key) {
                None | Some(Slot::Waiting) => return None,
                Some(Slot::Done(found)) => return Some(found.is_some()),
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
        assert_eq!(prefetch.next(), Some(key(2)), "the other one was taken");
        assert_eq!(prefetch.has(&key(1)), None);
        prefetch.done(key(2), Some(vec![1]));
        assert_eq!(prefetch.has(&key(2)), Some(true));
        assert_eq!(prefetch.next(), None);
        assert_eq!(prefetch.take(&key(2)), Taken::Result(Some(vec![1])));
        assert_eq!(prefetch.take(&key(2)), Taken::Nothing, "only once");
    }

    #[test]
    fn the_link_waits_for_a_request_that_runs() {
        let prefetch = Prefetch::default();
        prefetch.add([key(1)]);
        assert_eq!(prefetch.next(), Some(key(1)));
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| prefetch.take(&key(1)));
            prefetch.done(key(1), None);
            assert_eq!(taken.join().unwrap(), Taken::Result(None));
        });
    }

    #[test]
    fn too_many_bytes_make_requests_wait() {
        let prefetch = Prefetch::default();
        prefetch.add([key(1), key(2), key(3)]);
        assert_eq!(prefetch.next(), Some(key(1)));
        prefetch.done(key(1), Some(vec![0; MOST_BYTES as usize + 1]));
        std::thread::scope(|scope| {
            let next = scope.spawn(|| prefetch.next());
            assert!(matches!(prefetch.take(&key(1)), Taken::Result(Some(_))));
            assert_eq!(next.join().unwrap(), Some(key(2)));
        });
        prefetch.close();
        assert_eq!(prefetch.next(), None);
        assert_eq!(prefetch.add([key(4)]), 0);
    }
}
