//! Records what a link does over time, for the time trace and the report as HTML: the spans of its threads and of its workers, memory, and the
//! jobs that run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::profile::fields::Fields;
use crate::profile::memory_samples;
use crate::profile::passes::{self, Pass};
use crate::sys::job_queue;

/// The beginning of the recording; unset without one.
static START: OnceLock<Instant> = OnceLock::new();
static RECORDED: Mutex<Recorded> = Mutex::new(Recorded::empty());
static THREADS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static THREAD: u64 = named_thread();
}

/// What was recorded. Times are microseconds since the beginning.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// In the order of their ends.
    pub spans: Vec<RecordedSpan>,
    /// The numbers and names of the threads that had spans.
    pub threads: Vec<(u64, String)>,
    /// Memory of the link and its tools in bytes, with its time.
    pub memory: Vec<(u64, u64)>,
    /// How many jobs run, from this time on.
    pub running: Vec<(u64, u64)>,
    /// How many jobs may run at a time.
    pub slots: u64,
}

/// A span that has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedSpan {
    /// The phase.
    pub name: String,
    /// What it works on.
    pub detail: String,
    /// The number of its thread.
    pub thread: u64,
    /// Its beginning.
    pub start: u64,
    /// How long it took.
    pub duration: u64,
    /// Whether it is a pass of LLVM, within a phase.
    pub is_pass: bool,
}

impl Recorded {
    const fn empty() -> Self {
        Recorded { spans: Vec::new(), threads: Vec::new(), memory: Vec::new(), running: Vec::new(), slots: 0 }
    }
}

/// A span that is running.
struct Running {
    fields: Fields,
    start: Instant,
}

/// Records spans.
pub struct Recording {
    /// Shorter ones are omitted.
    granularity: Duration,
}

/// Begins the recording, and returns the layer that records the spans.
pub fn begin(granularity: Duration) -> Recording {
    // A process runs one link.
    let _ = START.set(Instant::now());
    job_queue::observe(|running, slots| {
        let mut recorded = recorded();
        recorded.slots = recorded.slots.max(slots as u64);
        recorded.running.push((now(), running as u64));
    });
    memory_samples::start(|bytes| recorded().memory.push((now(), bytes)));
    Recording { granularity }
}

/// Whether this link is recorded.
pub fn is_on() -> bool {
    START.get().is_some()
}

/// Microseconds since the beginning.
pub fn now() -> u64 {
    START.get().map_or(0, |start| microseconds(start.elapsed()))
}

/// What was recorded so far.
pub fn so_far() -> Recorded {
    memory_samples::sample();
    recorded().clone()
}

/// Takes what was recorded, and ends the recording of memory.
pub fn take() -> Recorded {
    memory_samples::sample();
    memory_samples::stop();
    std::mem::replace(&mut recorded(), Recorded::empty())
}

fn recorded() -> MutexGuard<'static, Recorded> {
    RECORDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers this thread, and records its name.
fn named_thread() -> u64 {
    let number = THREADS.fetch_add(1, Ordering::Relaxed);
    let name = match std::thread::current().name() {
        Some("main") => "link".to_owned(),
        Some(name) => name.to_owned(),
        None => format!("thread {number}"),
    };
    recorded().threads.push((number, name));
    number
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for Recording {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        span.extensions_mut().insert(Running { fields: Fields::of(attributes), start: Instant::now() });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(Running { fields, start }) = context.span(&id).and_then(|span| span.extensions_mut().remove()) else {
            return;
        };
        let duration = start.elapsed();
        if duration < self.granularity {
            return;
        }
        let Fields { name, detail, .. } = fields;
        let (thread, start, duration) = (THREAD.with(|thread| *thread), since_beginning(start), microseconds(duration));
        recorded().spans.push(RecordedSpan { name, detail, thread, start, duration, is_pass: false });
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(phase) = context.event_span(event) else { return };
        let Some(start) = phase.extensions().get::<Running>().map(|running| running.start) else { return };
        // A worker's phase began here a little later, and its passes must not reach beyond its end.
        let elapsed = microseconds(start.elapsed());
        let (thread, start) = (THREAD.with(|thread| *thread), since_beginning(start));
        let recorded_pass = |Pass { name, detail, start: offset, duration }: Pass| RecordedSpan {
            name,
            detail,
            thread,
            start: start.saturating_add(offset),
            duration,
            is_pass: true,
        };
        let passes = passes::within(&Fields::of_event(event).passes, elapsed);
        recorded().spans.extend(passes.into_iter().map(recorded_pass));
    }
}

fn since_beginning(moment: Instant) -> u64 {
    START.get().map_or(0, |begin| microseconds(moment.saturating_duration_since(*begin)))
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
