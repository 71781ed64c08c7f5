//! Samples the memory of the link and of its tools while it is recorded.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::sys::memory;

/// Time between two samples: a worker lives for a second or more.
const PAUSE: Duration = Duration::from_millis(25);

/// The kernel walks all pages for a sample, so the pause grows with the link: it is this many times as long as the sample took, or more.
const PAUSE_PER_SAMPLE: u32 = 20;

/// Called with the bytes of each sample.
type Report = Arc<dyn Fn(u64) + Send + Sync>;

/// A thread that samples until this value is dropped.
pub struct MemorySamples {
    report: Report,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MemorySamples {
    /// Starts the sampling. Where no thread can be started, there are only the samples of [`MemorySamples::sample`].
    pub fn start(report: Report) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (ended, of_thread) = (Arc::clone(&is_over), Arc::clone(&report));
        let sampling = move || {
            while !ended.load(Ordering::Relaxed) {
                let begun = Instant::now();
                of_thread(memory::resident_with_children());
                std::thread::park_timeout(PAUSE.max(PAUSE_PER_SAMPLE * begun.elapsed()));
            }
        };
        let thread = std::thread::Builder::new().name("memory samples".to_owned()).spawn(sampling).ok();
        MemorySamples { report, is_over, thread }
    }

    /// Samples once.
    pub fn sample(&self) {
        (self.report)(memory::resident_with_children());
    }
}

impl Drop for MemorySamples {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It cannot panic.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for MemorySamples {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("MemorySamples")
    }
}
