//! Records what a link does over time, for the time trace and the report as HTML: the spans of its threads and of its workers, memory, and the
//! jobs that run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::profile::fields::Fields;
use crate::profile::memory_samples::MemorySamples;
use crate::profile::passes::{self, Pass};
use crate::sys::job_queue;

/// The next number of a thread.
static THREADS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static THREAD: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
}

/// What was recorded. Times are microseconds since the beginning.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// In the order of their ends.
    pub spans: Vec<RecordedSpan>,
    /// The names of the threads that had spans, by their numbers.
    pub threads: BTreeMap<u64, String>,
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

/// A span that is running.
struct Running {
    fields: Fields,
    start: Instant,
}

/// What is recorded of a link, and since when. The layer, the job queue and the thread that samples memory add to it.
#[derive(Debug)]
struct Log {
    begin: Instant,
    recorded: Mutex<Recorded>,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Microseconds from the beginning to this moment.
    fn time(&self, moment: Instant) -> u64 {
        microseconds(moment.saturating_duration_since(self.begin))
    }

    /// Adds spans of this thread.
    fn add(&self, spans: impl Iterator<Item = RecordedSpan>) {
        let mut recorded = self.lock();
        recorded.threads.entry(this_thread()).or_insert_with(name_of_this_thread);
        recorded.spans.extend(spans);
    }
}

/// The recording of a link.
#[derive(Debug)]
pub struct Recording {
    log: Arc<Log>,
    memory: MemorySamples,
}

impl Recording {
    /// Begins.
    pub fn begin() -> Self {
        let log = Arc::new(Log { begin: Instant::now(), recorded: Mutex::default() });
        let of_jobs = Arc::clone(&log);
        job_queue::observe(Box::new(move |running, slots| {
            let now = of_jobs.time(Instant::now());
            let mut recorded = of_jobs.lock();
            recorded.slots = recorded.slots.max(slots as u64);
            recorded.running.push((now, running as u64));
        }));
        let of_memory = Arc::clone(&log);
        let memory = MemorySamples::start(Arc::new(move |bytes| {
            let now = of_memory.time(Instant::now());
            of_memory.lock().memory.push((now, bytes));
        }));
        Recording { log, memory }
    }

    /// The layer that records spans. Shorter ones than `granularity` are omitted.
    pub fn layer(&self, granularity: Duration) -> SpanLayer {
        SpanLayer { log: Arc::clone(&self.log), granularity }
    }

    /// What was recorded so far, and how many microseconds it took.
    pub fn so_far(&self) -> (Recorded, u64) {
        self.memory.sample();
        let now = self.log.time(Instant::now());
        (self.log.lock().clone(), now)
    }

    /// Takes what was recorded.
    pub fn take(&self) -> Recorded {
        self.memory.sample();
        std::mem::take(&mut self.log.lock())
    }
}

fn this_thread() -> u64 {
    THREAD.with(|thread| *thread)
}

fn name_of_this_thread() -> String {
    match std::thread::current().name() {
        Some("main") => "link".to_owned(),
        Some(name) => name.to_owned(),
        None => format!("thread {}", this_thread()),
    }
}

/// Records spans.
pub struct SpanLayer {
    log: Arc<Log>,
    granularity: Duration,
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for SpanLayer {
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
        let (thread, start, duration) = (this_thread(), self.log.time(start), microseconds(duration));
        self.log.add([RecordedSpan { name, detail, thread, start, duration, is_pass: false }].into_iter());
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(phase) = context.event_span(event) else { return };
        let Some(start) = phase.extensions().get::<Running>().map(|running| running.start) else { return };
        // A worker's phase began here a little later, and its passes must not reach beyond its end.
        let elapsed = microseconds(start.elapsed());
        let (thread, start) = (this_thread(), self.log.time(start));
        let recorded_pass = |Pass { name, detail, start: offset, duration }: Pass| RecordedSpan {
            name,
            detail,
            thread,
            start: start.saturating_add(offset),
            duration,
            is_pass: true,
        };
        let passes = passes::within(&Fields::of_event(event).passes, elapsed);
        self.log.add(passes.into_iter().map(recorded_pass));
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
