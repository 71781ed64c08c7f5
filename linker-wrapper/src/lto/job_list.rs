//! The jobs of all targets of a machine: which run elsewhere, and the queue of the others.

use rayon::prelude::*;

use crate::diag::error::Errors;
use crate::diag::progress::Progress;
use crate::lto::compile_job::CompileJob;
use crate::lto::distribution::{self, Candidate, Distribution};
use crate::lto::job_run::Resources;
use crate::lto::result_cache::job_times::Unordered;
use crate::sys::cache::Key;
use crate::sys::job_queue::{self, Ranked};

/// A job of a device link.
pub trait LinkJob: job_queue::Job {
    /// Names the job by its first kernel, or by its file or target.
    fn label(&self) -> String;

    /// What its cost depends on.
    fn unordered(&self) -> Unordered;
}

/// Runs all jobs, the longest first, with a progress line on a terminal. `is_known` tells whether an earlier link probably left the result
/// of a job.
///
/// # Errors
/// The errors of all jobs that ran.
pub fn run<J: LinkJob, T: Send>(
    jobs: &[J],
    resources: Resources<'_>,
    is_known: impl Fn(&J) -> bool + Sync,
    run: impl Fn(&J) -> Result<T, Errors> + Sync,
) -> Result<Vec<T>, Errors> {
    let costs = resources.result_cache.costs(&jobs.iter().map(J::unordered).collect::<Vec<_>>());
    let cost = |(job, cost): (&J, u64)| if is_known(job) { 0 } else { cost };
    let costs: Vec<u64> = jobs.par_iter().zip(costs).map(cost).collect();
    let jobs: Vec<Ranked<'_, J>> = jobs.iter().zip(costs).map(|(job, cost)| Ranked { job, cost }).collect();
    let labels: Vec<(String, u64)> = jobs.iter().map(|ranked| (ranked.job.label(), ranked.cost)).collect();
    let progress = Progress::new(&labels);
    job_queue::longest_first(&jobs, resources.link.limit, |index, job| {
        progress.started(index);
        let done = run(job);
        progress.finished(index);
        done
    })
}

/// The job of a partition, which may run elsewhere.
pub struct Offered {
    /// What its cost depends on.
    pub unordered: Unordered,
    /// The job.
    pub job: CompileJob,
    /// What its result is cached under.
    pub key: Option<Key>,
}

/// Runs partitions elsewhere if the link has a distributor, but for those in the cache. Begins to fetch those that may be in a remote
/// cache. `keeps_here` returns why no job may run elsewhere; `kind` names the jobs in file names.
///
/// # Errors
/// Those of `offered`, or the jobs cannot be written.
pub fn distribute(
    kind: &str,
    resources: Resources<'_>,
    offered: impl FnOnce() -> Result<Vec<Offered>, Errors>,
    keeps_here: impl FnOnce() -> Option<String>,
) -> Result<Distribution, Errors> {
    let (cache, is_on) = (resources.result_cache, distribution::is_on(resources.link));
    if !is_on && !cache.is_remote() {
        return Ok(Distribution::default());
    }
    let offered = offered()?;
    let unordered: Vec<Unordered> = offered.iter().map(|one| one.unordered).collect();
    let costs = cache.costs(&unordered);
    cache.prefetch(costs.iter().copied().zip(offered.iter().map(|one| one.key)));
    if !is_on {
        return Ok(Distribution::default());
    }
    if let Some(why) = keeps_here() {
        distribution::note_jobs_here(resources.link, &why);
        return Ok(Distribution::default());
    }
    let wanted = offered.into_iter().zip(costs).filter(|(one, _)| !cache.contains(one.key.as_ref()));
    let candidates = wanted.map(|(Offered { job, .. }, cost)| Candidate { job, cost });
    Distribution::run(candidates.collect(), kind, resources.link)
}
