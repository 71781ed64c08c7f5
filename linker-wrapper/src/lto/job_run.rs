//! Runs a job in a worker process: waits until the memory permits it, explains a failure, and records what it took.

use std::time::Instant;

use crate::diag::error::Errors;
use crate::lto::compile_job::CompileJob;
use crate::lto::distribution::Distribution;
use crate::lto::distribution::result_file::JobResult;
use crate::lto::result_cache::ResultCache;
use crate::lto::result_cache::job_times::JobId;
use crate::lto::worker::{EmittedTexts, Reply};
use crate::lto::{culprit, worker};
use crate::plan::link_context::LinkContext;
use crate::profile::span;
use crate::profile::stats::JobStat;
use crate::sys::memory::estimates::Estimates;

/// The name in statistics of the job that compiles a program in one piece.
pub const WHOLE_PROGRAM: &str = "the whole program";

/// What the jobs of a link share.
#[derive(Clone, Copy)]
pub struct Resources<'a> {
    /// The request and the resources of the link.
    pub link: &'a LinkContext<'a>,
    /// Results of earlier links.
    pub result_cache: &'a ResultCache<'a>,
    /// Estimates of the memory that a job needs.
    pub estimates: &'a Estimates,
    /// Results of jobs that ran elsewhere.
    pub distribution: &'a Distribution,
}

/// A job with its names.
#[derive(Clone, Copy)]
pub struct NamedJob<'j> {
    /// The job.
    pub job: &'j CompileJob,
    /// Its name in messages: "the kernels a, b for sm_90".
    pub described: &'j str,
    /// Its largest kernel, for statistics.
    pub label: &'j str,
    /// Instructions before optimization.
    pub instructions: u64,
    /// What its time is kept under.
    pub id: Option<JobId>,
}

/// What was made of a worker's reply.
pub struct Finished<T> {
    /// The result.
    pub value: T,
    /// Size of the machine code in bytes.
    pub code_bytes: u64,
    /// Peak memory of the tools that ran after LLVM, in bytes.
    pub tools_peak: u64,
    /// Whether it was in the cache.
    pub is_cached: bool,
}

impl<T> Finished<T> {
    /// Records the job, whose times and memory are in `stat`, and returns the result.
    fn record(self, link: &LinkContext<'_>, stat: JobStat) -> T {
        let Finished { value, code_bytes, tools_peak, is_cached } = self;
        link.recorder.job(JobStat { tools_peak, code_bytes, cached: is_cached, ..stat });
        value
    }
}

impl NamedJob<'_> {
    /// Runs the job. `finish` reads what the worker has left, and generates what it did not.
    ///
    /// # Errors
    /// Errors of LLVM or of a tool.
    pub fn run_in_worker<T>(
        &self,
        resources: Resources<'_>,
        finish: impl FnOnce(Reply) -> Result<Finished<T>, Errors>,
    ) -> Result<T, Errors> {
        let Resources { link, estimates, distribution, .. } = resources;
        let name = &self.job.name;
        if let Some(result) = distribution.take(name) {
            return self.finish_distributed(result, resources, finish);
        }
        let waiting = span::traced("Wait for memory", || name.clone());
        let mut permit = link.budget.admit(estimates.llvm(self.instructions));
        drop(waiting);
        let mut compiling = Some(span::traced("Compile partition", || format!("{name}: {}", self.described)));
        let mut llvm = None;
        let mut begun = Instant::now();
        let mut emitted = |texts: &EmittedTexts| {
            compiling = None;
            link.recorder.process(begun, texts.peak);
            llvm = Some(begun.elapsed());
            begun = Instant::now();
            permit.adjust(estimates.tool(texts.sizes.iter().copied().max().unwrap_or_default()));
        };
        let spec = link.temp_files.file(&format!("{name}.json"));
        let server = Some(link.fork_server);
        let reply = worker::compile(self.job, &spec, self.described, server, link.recorder, &mut emitted)
            .map_err(|failure| culprit::explain(failure, self.job, name, link))?;
        // A job without a second step has no line for the end of the first.
        let is_one_step = llvm.is_none();
        let llvm_seconds = llvm.unwrap_or_else(|| begun.elapsed()).as_secs_f64();
        let stat = JobStat { llvm_seconds, ..self.stat_of(&reply.emitted) };
        let cpu = reply.cpu;
        let finished = finish(reply)?;
        drop(permit);
        if !finished.is_cached {
            self.note_time(cpu.as_secs_f64(), resources);
        }
        link.recorder.process(begun, if is_one_step { stat.llvm_peak } else { finished.tools_peak });
        let tool_seconds = if is_one_step { 0.0 } else { begun.elapsed().as_secs_f64() };
        Ok(finished.record(link, JobStat { tool_seconds, ..stat }))
    }

    /// Uses the result of a job that ran elsewhere, as if a worker of this link had left it.
    fn finish_distributed<T>(
        &self,
        result: JobResult,
        resources: Resources<'_>,
        finish: impl FnOnce(Reply) -> Result<Finished<T>, Errors>,
    ) -> Result<T, Errors> {
        let JobResult { llvm_seconds, tool_seconds, .. } = result;
        let reply = result.unpack(self.job)?;
        let stat = JobStat { llvm_seconds, tool_seconds, ..self.stat_of(&reply.emitted) };
        self.note_time(llvm_seconds + tool_seconds, resources);
        Ok(finish(reply)?.record(resources.link, stat))
    }

    fn note_time(&self, seconds: f64, resources: Resources<'_>) {
        let id = self.id.into_iter();
        id.for_each(|id| resources.result_cache.note_time(id, self.instructions, seconds));
    }

    /// Records that the result was in the cache.
    pub fn was_cached(&self, code_bytes: u64, resources: Resources<'_>) {
        resources.link.recorder.job(JobStat { cached: true, code_bytes, ..self.stat() });
    }

    /// Records that the job ran in this process, where it took what `stat` says.
    pub fn ran_here(&self, stat: JobStat, resources: Resources<'_>) {
        let JobStat { label, target, .. } = self.stat();
        resources.link.recorder.job(JobStat { label, target, ..stat });
    }

    /// What LLVM took for these emissions, without its time.
    fn stat_of(&self, emitted: &EmittedTexts) -> JobStat {
        JobStat { llvm_peak: emitted.peak, text_bytes: emitted.sizes.iter().sum(), ..self.stat() }
    }

    fn stat(&self) -> JobStat {
        JobStat { label: self.label.to_owned(), target: self.job.code.steps().target(), ..JobStat::default() }
    }
}
