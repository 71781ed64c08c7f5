//! Samples the memory of the link and of its tools while it is recorded.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use crate::sys::memory;

/// Time between two samples: a worker lives for a second or more.
const PAUSE: Duration = Duration::from_millis(25);

/// The kernel walks all pages for a sample, so the pause grows with the link: it is this many times as long as the sample took, or more.
const PAUSE_PER_SAMPLE: u32 = 20;

static SAMPLER: Mutex<Option<Sampler>> = Mutex::new(None);
static STOPPED: AtomicBool = AtomicBool::new(false);

/// The thread that samples.
struct Sampler {
    report: fn(u64),
    thread: Option<JoinHandle<()>>,
}

/// Starts the sampling. Where no thread can be started, there are only the samples of [`sample`].
pub fn start(report: fn(u64)) {
    let sampling = move || {
        while !STOPPED.load(Ordering::Relaxed) {
            let begun = Instant::now();
            report(memory::resident_with_children());
            std::thread::park_timeout(PAUSE.max(PAUSE_PER_SAMPLE * begun.elapsed()));
        }
    };
    let thread = std::thread::Builder::new().name("memory samples".to_owned()).spawn(sampling).ok();
    *sampler() = Some(Sampler { report, thread });
}

/// Samples once.
pub fn sample() {
    if let Some(Sampler { report, .. }) = &*sampler() {
        report(memory::resident_with_children());
    }
}

/// Ends the sampling.
pub fn stop() {
    STOPPED.store(true, Ordering::Relaxed);
    let thread = sampler().take().and_then(|sampler| sampler.thread);
    if let Some(thread) = thread {
        Thread::unpark(thread.thread());
        // It cannot panic.
        let _ = thread.join();
    }
}

fn sampler() -> std::sync::MutexGuard<'static, Option<Sampler>> {
    SAMPLER.lock().unwrap_or_else(PoisonError::into_inner)
}
