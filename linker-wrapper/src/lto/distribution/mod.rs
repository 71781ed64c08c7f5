//! Jobs on other machines, by way of a distributor: a program that runs commands which a JSON file lists, as LLVM's distributed
//! ThinLTO defines it. Each job becomes an [`Action`](action::Action), files that any machine can run with the same program, and
//! [`Distribution`] keeps what came back. Jobs without a usable result run here.

pub mod action;
pub mod distributor;
pub mod result_file;
pub mod run_action;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use blake3::Hash;

use crate::diag::error::Errors;
use crate::diag::messages::{self, warn};
use crate::lto::compile_job::CompileJob;
use crate::lto::distribution::action::Files;
use crate::lto::distribution::distributor::{Command, Distributor};
use crate::lto::distribution::result_file::{JobResult, Unusable};
use crate::plan::link_context::LinkContext;
use crate::profile::span;
use crate::sys::written_path;

/// The results that a distributor has left, by the name of the job.
#[derive(Debug, Default)]
pub struct Distribution {
    results: Mutex<BTreeMap<String, JobResult>>,
}

/// A job that may run elsewhere.
pub struct Candidate {
    /// The job.
    pub job: CompileJob,
    /// Roughly proportional to the time that it takes.
    pub cost: u64,
}

/// Whether the link has a distributor that runs its jobs. A dry run and a search for a function start none.
pub fn is_on(link: &LinkContext<'_>) -> bool {
    let options = link.request.options;
    if options.distributor.is_none() || options.dry_run || options.diagnosing {
        return false;
    }
    if options.save_temps {
        note_jobs_here(link, "--save-temps keeps the intermediate files of jobs that run here");
    }
    !options.save_temps
}

/// Prints why jobs run here although a distributor was named.
pub fn note_jobs_here(link: &LinkContext<'_>, why: &str) {
    warn(link.request.program, format_args!("--offload-distributor= is not used: {why}"));
}

impl Distribution {
    /// Runs jobs elsewhere, the costliest first. `what` names the kind in file names. Returns what came back; what did not come back
    /// is reported and left to the caller.
    ///
    /// # Errors
    /// The distributor cannot be found, or the files of the jobs cannot be written.
    pub fn run(mut candidates: Vec<Candidate>, what: &str, link: &LinkContext<'_>) -> Result<Self, Errors> {
        let distributor = Distributor::of(link.request.options)?;
        let Some(distributor) = distributor.filter(|_| !candidates.is_empty()) else { return Ok(Self::default()) };
        let folder = link.temp_files.file(&format!("{what}.jobs"));
        let program = distributor::job_program()?;
        // The list of jobs is JSON.
        if let Some(path) =
            [&*folder, link.request.output, &program].into_iter().find(|path| !written_path::is_text(path))
        {
            note_jobs_here(link, &format!("the list of jobs cannot name {}, which is not UTF-8 text", path.display()));
            return Ok(Self::default());
        }
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.cost));
        let _distributing = span::traced("Distribute jobs", || what.to_owned());
        let mut files = Files::new(folder)?;
        let (mut jobs, mut commands, mut hashes) = (Vec::new(), Vec::new(), BTreeSet::new());
        for candidate in candidates {
            let action = files.add(&candidate.job)?;
            if hashes.insert(*action.hash.as_bytes()) {
                commands.push(Command { inputs: action.inputs, output: action.output.clone() });
            }
            jobs.push((candidate.job, action.hash, action.output));
        }
        let common = files.common();
        let list = files.folder().join("jobs.json");
        distributor::write_list(&list, &program, link.request.output, &common, &commands)?;
        let failure = distributor.run(&list, link.request.mode)?;
        Ok(Self::collect(jobs, &distributor, failure, link))
    }

    /// Reads the results. `failure` is how the distributor failed, if it did.
    fn collect(
        jobs: Vec<(CompileJob, Hash, PathBuf)>,
        distributor: &Distributor,
        failure: Option<String>,
        link: &LinkContext<'_>,
    ) -> Self {
        let count = jobs.len();
        let (mut results, mut missing, mut damaged) = (BTreeMap::new(), 0_usize, Vec::new());
        for (job, hash, output) in jobs {
            match JobResult::read(&output, &hash, &job) {
                Ok(result) => drop(results.insert(job.name, result)),
                Err(Unusable::Missing) => missing += 1,
                Err(Unusable::Damaged(why)) => damaged.push(format!("{}: {why}", job.name)),
            }
        }
        let here = missing + damaged.len();
        link.recorder.distributed(results.len(), here);
        let program = distributor.program.display();
        let of_all = format!("{here} of {count} jobs run here");
        let damage = match damaged.first() {
            Some(first) => format!(" ({} damaged, the first of them {first})", damaged.len()),
            None => String::new(),
        };
        match failure {
            Some(why) if here > 0 => warn(link.request.program, format_args!("{why}\n{of_all}{damage}")),
            Some(why) => warn(link.request.program, format_args!("{why}\nall results are there and are used")),
            None if here > 0 => {
                let left = "did not leave a usable result of every job";
                warn(link.request.program, format_args!("the distributor {program} {left}: {of_all}{damage}"));
            }
            None => {}
        }
        if link.request.mode.show {
            messages::show(format_args!(" # {program} ran {} of {count} jobs", results.len()));
        }
        Distribution { results: Mutex::new(results) }
    }

    /// Takes the result of a job, if there is one.
    pub fn take(&self, name: &str) -> Option<JobResult> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).remove(name)
    }
}
