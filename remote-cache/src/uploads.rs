//! A queue of what has to be sent, which a few threads empty while the link goes on.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Number of threads that send at the same time.
const THREADS: usize = 4;

/// Bytes that may wait. A result beyond that is not sent: the link does not wait for the network.
const MOST_BYTES: u64 = 512 << 20;

/// An entry that waits.
#[derive(Debug)]
pub struct Upload {
    /// Its key.
    pub key: [u8; 32],
    /// Its content.
    pub content: Vec<u8>,
}

/// The queue.
#[derive(Debug, Default)]
pub struct Uploads {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Upload>,
    bytes: u64,
    threads: usize,
    /// Number of entries for which there was no room or no time.
    dropped: u64,
    closed: bool,
}

impl Uploads {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry. Returns whether the caller has to start a thread, which calls [`Uploads::next`] until it returns `None`.
    pub fn add(&self, upload: Upload) -> bool {
        let mut state = self.state();
        let bytes = upload.content.len() as u64;
        if state.closed || state.bytes + bytes > MOST_BYTES {
            state.dropped += 1;
            return false;
        }
        state.bytes += bytes;
        state.waiting.push_back(upload);
        let starts = state.threads < THREADS;
        state.threads += usize::from(starts);
        starts
    }

    /// Takes the next entry. After `None` the thread ends.
    pub fn next(&self) -> Option<Upload> {
        let mut state = self.state();
        let next = state.waiting.pop_front();
        match &next {
            Some(upload) => state.bytes -= upload.content.len() as u64,
            None => {
                state.threads -= 1;
                self.ended.notify_all();
            }
        }
        next
    }

    /// A thread could not be started.
    pub fn without_thread(&self) {
        let mut state = self.state();
        state.threads -= 1;
        if state.threads == 0 {
            state.dropped += state.waiting.len() as u64;
            state.waiting.clear();
            state.bytes = 0;
        }
    }

    /// Forgets what waits: the store cannot be written.
    pub fn clear(&self) {
        let mut state = self.state();
        state.waiting.clear();
        state.bytes = 0;
    }

    /// Waits until everything is sent, at most until `deadline`. Returns the number of entries that were not.
    pub fn finish(&self, deadline: Instant) -> u64 {
        let mut state = self.state();
        while state.threads > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.closed = true;
        // Each thread that still runs has one in its hands.
        let unsent = state.dropped + (state.waiting.len() + state.threads) as u64;
        state.waiting.clear();
        unsent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(bytes: usize) -> Upload {
        Upload { key: [0; 32], content: vec![0; bytes] }
    }

    #[test]
    fn threads_start_as_they_are_needed_and_end() {
        let uploads = Uploads::default();
        let started: Vec<bool> = (0..6).map(|size| uploads.add(upload(size))).collect();
        assert_eq!(started, [true, true, true, true, false, false]);
        let sent: Vec<usize> = std::iter::from_fn(|| uploads.next()).map(|upload| upload.content.len()).collect();
        assert_eq!(sent, [0, 1, 2, 3, 4, 5]);
        (0..3).for_each(|_| assert!(uploads.next().is_none()));
        assert_eq!(uploads.finish(Instant::now()), 0);
        assert!(!uploads.add(upload(1)), "closed");
    }

    #[test]
    fn what_is_not_sent_is_counted() {
        let uploads = Uploads::default();
        (0..3).for_each(|_| assert!(uploads.add(upload(1))));
        // One thread has taken an entry and hangs; the two others never ran.
        assert!(uploads.next().is_some());
        uploads.without_thread();
        uploads.without_thread();
        assert_eq!(uploads.finish(Instant::now()), 3);
    }
}
