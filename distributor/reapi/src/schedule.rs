//! Gives all jobs to the server, the longest first, and runs jobs here when the server makes no progress.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bazel_remote_apis::build::bazel::remote::execution::v2::capabilities_client::CapabilitiesClient;
use bazel_remote_apis::build::bazel::remote::execution::v2::{Digest, GetCapabilitiesRequest, digest_function};
use distributor::{JobList, local};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::arguments::Arguments;
use crate::cas::{Store, Uploaded};
use crate::connection;
use crate::error::Error;
use crate::execution::{Executed, Execution};
use crate::inputs::Actions;

/// Pauses before the tries after the first one.
const PAUSES: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(2)];

/// How often the progress is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How the jobs ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Why jobs have no result; each reason once.
    pub failures: Vec<String>,
    /// What was uploaded, and where jobs ran.
    pub summary: String,
}

const NOT_HERE: u8 = 0;
const RUNS_HERE: u8 = 1;
const FAILED_HERE: u8 = 2;

/// The progress of all jobs.
struct Progress {
    begun: Instant,
    /// Whether each job has its result, or none will come.
    ended: Vec<AtomicBool>,
    /// Whether each job runs here: one of the following values.
    here: Vec<AtomicU8>,
    /// The longest that a job took and the last end of one, in milliseconds since the beginning.
    longest: AtomicUsize,
    last_end: AtomicUsize,
    cached: AtomicUsize,
    done_here: AtomicUsize,
    changed: Notify,
}

impl Progress {
    fn new(jobs: usize) -> Self {
        Progress {
            begun: Instant::now(),
            ended: (0..jobs).map(|_| AtomicBool::new(false)).collect(),
            here: (0..jobs).map(|_| AtomicU8::new(NOT_HERE)).collect(),
            longest: AtomicUsize::new(0),
            last_end: AtomicUsize::new(0),
            cached: AtomicUsize::new(0),
            done_here: AtomicUsize::new(0),
            changed: Notify::new(),
        }
    }

    fn now(&self) -> usize {
        usize::try_from(self.begun.elapsed().as_millis()).unwrap_or(usize::MAX)
    }

    fn end(&self, index: usize, since: usize) {
        let now = self.now();
        self.longest.fetch_max(now.saturating_sub(since), Ordering::Relaxed);
        self.last_end.fetch_max(now, Ordering::Relaxed);
        if let Some(ended) = self.ended.get(index) {
            ended.store(true, Ordering::Release);
        }
        self.changed.notify_waiters();
    }

    fn has_ended(&self, index: usize) -> bool {
        self.ended.get(index).is_none_or(|ended| ended.load(Ordering::Acquire))
    }

    fn runs_here(&self, index: usize) -> bool {
        self.here.get(index).is_some_and(|here| here.load(Ordering::Acquire) == RUNS_HERE)
    }

    /// Marks the job as one that runs here, if it has not before.
    fn claim(&self, index: usize) -> bool {
        let swap = |here: &AtomicU8| here.compare_exchange(NOT_HERE, RUNS_HERE, Ordering::AcqRel, Ordering::Acquire);
        self.here.get(index).is_some_and(|here| swap(here).is_ok())
    }

    fn fail_here(&self, index: usize) {
        if let Some(here) = self.here.get(index) {
            here.store(FAILED_HERE, Ordering::Release);
        }
        self.changed.notify_waiters();
    }

    /// Waits until the job has ended somewhere.
    async fn until_ended(&self, index: usize) {
        self.until(|| self.has_ended(index)).await;
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        while !is_so() {
            // The state may change between the question and the wait.
            let _ = timeout(LOOK, self.changed.notified()).await;
        }
    }

    /// Whether no job has ended for so long that jobs run here.
    fn is_stuck(&self, patience: Duration) -> bool {
        let longest = Duration::from_millis(self.longest.load(Ordering::Relaxed) as u64);
        let idle = self.now().saturating_sub(self.last_end.load(Ordering::Relaxed));
        Duration::from_millis(idle as u64) > patience.max(longest * 2)
    }
}

/// Runs the jobs of the list.
///
/// # Errors
/// The list is none, or the server cannot be used at all.
pub async fn run(arguments: &Arguments) -> Result<Outcome, Error> {
    let list = Arc::new(JobList::read(&arguments.list)?);
    let (execution, actions) = tokio::try_join!(open(arguments), prepare(&list, arguments))?;
    let uploaded = execution.store.upload(&actions.blobs).await?;
    let progress = Arc::new(Progress::new(list.jobs.len()));
    let (mut remote, mut here) = (JoinSet::new(), JoinSet::new());
    remote.spawn(submit(execution, Arc::clone(&list), actions.actions, Arc::clone(&progress), arguments.clone()));
    let slots = Arc::new(Semaphore::new(arguments.local_jobs()));
    let mut failures = Vec::new();
    let mut end = signal(SignalKind::terminate())?;
    loop {
        tokio::select! {
            _ = end.recv() => {
                failures.push("the link has ended".to_owned());
                break;
            }
            submitted = remote.join_next() => {
                if let Some(Ok(found)) = submitted {
                    failures = found;
                }
                break;
            }
            () = sleep(LOOK) => {
                if progress.is_stuck(arguments.patience) && let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
                    run_next_here(&list, &progress, &mut here, slot);
                }
            }
        }
    }
    // What runs here either has its result by now, or nobody needs it.
    here.shutdown().await;
    failures.sort();
    failures.dedup();
    let all_there = list.jobs.iter().all(|job| job.output().is_file());
    let failures = if all_there { Vec::new() } else { failures };
    Ok(Outcome { failures, summary: summary(uploaded, &progress, list.jobs.len()) })
}

fn summary(Uploaded { blobs, bytes }: Uploaded, progress: &Progress, jobs: usize) -> String {
    let cached = progress.cached.load(Ordering::Relaxed);
    let here = progress.done_here.load(Ordering::Relaxed);
    format!("uploaded {blobs} files of {bytes} bytes; {jobs} jobs, {cached} known to the server, {here} run here")
}

/// Connects to the server.
async fn open(arguments: &Arguments) -> Result<Execution, Error> {
    let connection = connection::connect(&arguments.server, arguments).await?;
    let request = GetCapabilitiesRequest { instance_name: arguments.instance.clone() };
    let mut client = CapabilitiesClient::new(connection.clone());
    let found = timeout(arguments.timeout, client.get_capabilities(request)).await;
    let found = found.unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded("no answer in time")));
    let found = found.map_err(Error::server("cannot use the server"))?.into_inner();
    let knows_hash = |functions: &[i32]| functions.contains(&i32::from(digest_function::Value::Sha256));
    let cache = found.cache_capabilities.unwrap_or_default();
    let executes = found.execution_capabilities.is_some_and(|execution| execution.exec_enabled);
    if !executes || !knows_hash(&cache.digest_functions) {
        return Err(Error::Incapable { url: arguments.server.clone() });
    }
    let blobs = match &arguments.cas {
        Some(url) => connection::connect(url, arguments).await?,
        None => connection.clone(),
    };
    /// Messages of gRPC have at most 4 MiB, and so have batches of servers that name no limit.
    const USUAL: usize = 4 << 20;
    let batch = usize::try_from(cache.max_batch_total_size_bytes).ok().filter(|bytes| *bytes > 0);
    let batch = batch.map_or(USUAL, |bytes| bytes.min(USUAL));
    let (instance, timeout) = (arguments.instance.clone(), arguments.timeout);
    let store = Store { connection: blobs, instance, batch, timeout };
    Ok(Execution { connection, store })
}

/// Hashes all inputs.
async fn prepare(list: &Arc<JobList>, arguments: &Arguments) -> Result<Actions, Error> {
    let (list, platform) = (Arc::clone(list), arguments.platform.clone());
    let hashed = tokio::task::spawn_blocking(move || Actions::of(&list, &platform)).await;
    hashed.unwrap_or_else(|error| Err(Error::System(std::io::Error::other(error))))
}

/// Gives all jobs to the server, and returns why some have no result.
async fn submit(
    execution: Execution,
    list: Arc<JobList>,
    actions: Vec<Digest>,
    progress: Arc<Progress>,
    arguments: Arguments,
) -> Vec<String> {
    let slots = Arc::new(Semaphore::new(arguments.jobs.max(1)));
    let mut running = JoinSet::new();
    let mut failures = Vec::new();
    for (index, action) in actions.into_iter().enumerate() {
        // Jobs are submitted in their order, the longest first.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { break };
        let (execution, list, progress) = (execution.clone(), Arc::clone(&list), Arc::clone(&progress));
        let anew = arguments.no_cached_results;
        running.spawn(async move {
            let since = progress.now();
            let ended = tokio::select! {
                ended = attempt(&execution, &action, anew, &progress) => ended,
                () = progress.until_ended(index) => return None,
            };
            drop(slot);
            let written = ended.and_then(|executed| keep(&list, index, &executed.result));
            match written {
                Ok(()) => {
                    progress.end(index, since);
                    None
                }
                // The job may be running here.
                Err(error) => {
                    progress.until(|| progress.has_ended(index) || !progress.runs_here(index)).await;
                    let failed = !progress.has_ended(index);
                    progress.end(index, progress.now());
                    failed.then(|| error.to_string())
                }
            }
        });
    }
    while let Some(ended) = running.join_next().await {
        failures.extend(ended.ok().flatten());
    }
    failures
}

/// Executes an action, again if that may help.
async fn attempt(execution: &Execution, action: &Digest, anew: bool, progress: &Progress) -> Result<Executed, Error> {
    let mut pauses = PAUSES.iter();
    let mut anew = anew;
    loop {
        match execution.execute(action, anew).await {
            Ok(executed) => {
                progress.cached.fetch_add(usize::from(executed.cached), Ordering::Relaxed);
                return Ok(executed);
            }
            Err(error) => {
                let Some(pause) = pauses.next().filter(|_| error.is_passing()) else { return Err(error) };
                // Servers may keep failures, and results whose files they have lost.
                anew = true;
                sleep(*pause).await;
            }
        }
    }
}

/// Writes a result whole or not at all.
fn keep(list: &JobList, index: usize, result: &[u8]) -> Result<(), Error> {
    let Some(job) = list.jobs.get(index) else { return Ok(()) };
    let folder = job.output().parent().unwrap_or(Path::new("."));
    let written = tempfile::NamedTempFile::new_in(folder).and_then(|file| {
        std::fs::write(file.path(), result)?;
        file.persist(job.output()).map_err(|error| error.error)
    });
    Ok(written.map(drop)?)
}

/// Runs the longest job here that has no result and does not run here yet.
fn run_next_here(
    list: &Arc<JobList>,
    progress: &Arc<Progress>,
    here: &mut JoinSet<()>,
    slot: tokio::sync::OwnedSemaphorePermit,
) {
    let open = |index: &usize| !progress.has_ended(*index);
    let Some(index) = (0..list.jobs.len()).filter(open).find(|index| progress.claim(*index)) else { return };
    let (list, progress) = (Arc::clone(list), Arc::clone(progress));
    here.spawn(async move {
        let _slot = slot;
        let since = progress.now();
        let Some(job) = list.jobs.get(index) else { return };
        let mut command = tokio::process::Command::from(local::command(&list, job));
        let started = command.kill_on_drop(true).spawn();
        let Ok(mut child) = started else { return progress.fail_here(index) };
        let succeeded = tokio::select! {
            ended = child.wait() => ended.is_ok_and(|status| status.success()),
            // The server was faster: the child is killed.
            () = progress.until_ended(index) => false,
        };
        if !succeeded {
            progress.fail_here(index);
        } else if !progress.has_ended(index) {
            progress.done_here.fetch_add(1, Ordering::Relaxed);
            progress.end(index, since);
        }
    });
}
