//! Collects what a link reports at its end while it runs: the figures of `--offload-stats`, and what LLVM said of all its processes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use remote_cache::Counts;

use crate::profile::phases::EndedPhases;
use crate::profile::recording::Recording;
use crate::profile::span;
use crate::profile::stats::{Found, JobStat, KeptResults, Stats};
use crate::sys::memory;

/// What was collected so far.
#[derive(Debug, Default)]
pub struct Recorder {
    notes: Mutex<Notes>,
    phases: EndedPhases,
    recording: Option<Recording>,
}

#[derive(Debug, Default)]
struct Notes {
    stats: Stats,
    processes: Vec<Process>,
    /// LLVM's records of remarks.
    remarks: String,
    /// LLVM's reports on the times of its passes, one of each process.
    pass_times: Vec<String>,
    /// A function was found that LLVM cannot compile.
    has_culprit: bool,
}

/// When a process ran, and its peak memory.
#[derive(Debug, Clone, Copy)]
struct Process {
    from: Instant,
    to: Instant,
    peak: u64,
}

impl Recorder {
    /// A recorder of a link whose phases end here, and whose spans are recorded there.
    pub fn of(phases: EndedPhases, recording: Option<Recording>) -> Self {
        Recorder { notes: Mutex::default(), phases, recording }
    }

    /// The recording of spans, if a trace or a timeline is requested.
    pub fn recording(&self) -> Option<&Recording> {
        self.recording.as_ref()
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures a phase.
    pub fn phase<T>(&self, name: &'static str, work: impl FnOnce() -> T) -> T {
        span::counted(name, work)
    }

    /// Adds the partitions of a target, with its instructions, and those of them that are compiled more than once.
    pub fn cut(&self, partitions: usize, instructions: u64, duplicated: u64) {
        let stats = &mut self.notes().stats;
        stats.partitions += partitions as u64;
        stats.instructions += instructions;
        stats.duplicate_instructions += duplicated;
    }

    /// Sets how many registered kernels the program can launch, and how many it cannot.
    pub fn kernels(&self, alive: usize, dead: usize) {
        let stats = &mut self.notes().stats;
        (stats.live_kernels, stats.dead_kernels) = (alive as u64, dead as u64);
    }

    /// Adds kernels that are not compiled because another one is equal.
    pub fn folded(&self, kernels: usize) {
        self.notes().stats.folded_kernels += kernels as u64;
    }

    /// Adds a job that has ended.
    pub fn job(&self, job: JobStat) {
        self.notes().stats.jobs.push(job);
    }

    /// The jobs that have ended.
    pub fn jobs(&self) -> Vec<JobStat> {
        self.notes().stats.jobs.clone()
    }

    /// Adds jobs that a distributor was given: how many came back, and how many run here.
    pub fn distributed(&self, elsewhere: usize, here: usize) {
        let stats = &mut self.notes().stats;
        stats.jobs_elsewhere += elsewhere as u64;
        stats.jobs_returned += here as u64;
    }

    /// Adds a process that ran from `from` until now.
    pub fn process(&self, from: Instant, peak: u64) {
        self.notes().processes.push(Process { from, to: Instant::now(), peak });
    }

    /// Adds LLVM's records of remarks.
    pub fn remarks<'t>(&self, records: impl Iterator<Item = &'t str>) {
        self.notes().remarks.extend(records);
    }

    /// Takes the records of remarks.
    pub fn take_remarks(&self) -> String {
        std::mem::take(&mut self.notes().remarks)
    }

    /// Adds a process's reports on the times of LLVM's passes.
    pub fn pass_times(&self, text: &str) {
        if !text.is_empty() {
            self.notes().pass_times.push(text.to_owned());
        }
    }

    /// Takes the reports on the times of passes.
    pub fn take_pass_times(&self) -> Vec<String> {
        std::mem::take(&mut self.notes().pass_times)
    }

    /// Notes that a function was found that LLVM cannot compile.
    pub fn found_culprit(&self) {
        self.notes().has_culprit = true;
    }

    /// Whether a function was found that LLVM cannot compile.
    pub fn has_culprit(&self) -> bool {
        self.notes().has_culprit
    }

    /// Returns the statistics. Their peak memory is an upper bound: the sum of the peaks of processes that ran at the same
    /// time.
    pub fn stats(
        &self,
        cache: Option<(u64, u64)>,
        object_results: Option<(u64, u64)>,
        remote_cache: Option<Counts>,
    ) -> Stats {
        let notes = self.notes();
        let (hits, misses) = cache.unwrap_or_default();
        Stats {
            cache: Found { hits, misses },
            object_results: object_results.map(|(used, all)| KeptResults { all, used }),
            peak_memory_bytes: memory::own_peak() + most_together(&notes.processes),
            phases: self.phases.take(),
            remote_cache,
            units_opened: llvm_passes::unit::opened() as u64,
            ..notes.stats.clone()
        }
    }
}

/// The largest sum of the peaks of processes that ran at the same time.
fn most_together(processes: &[Process]) -> u64 {
    // The sum is largest when a process has just begun.
    let at = |moment: Instant| {
        processes.iter().filter(|one| one.from <= moment && moment < one.to).map(|one| one.peak).sum::<u64>()
    };
    processes.iter().map(|one| at(one.from)).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn memory_of_processes_that_ran_together_adds_up() {
        let start = Instant::now();
        let process = |from: u64, to: u64, peak| Process {
            from: start + Duration::from_secs(from),
            to: start + Duration::from_secs(to),
            peak,
        };
        let processes = [process(0, 2, 5), process(1, 4, 7), process(2, 3, 1), process(5, 6, 11)];
        assert_eq!(most_together(&processes), 12);
        assert_eq!(most_together(&[]), 0);
    }
}
