//! The measured jobs of a link.

use std::path::Path;

use serde::Deserialize;
use xtask::failure::{Failure, Result};

/// A link.
#[derive(Debug, Clone, Deserialize)]
pub struct Trace {
    /// Its name.
    pub name: String,
    /// The machine.
    pub note: String,
    /// Kernels in the image.
    pub kernels: usize,
    /// Processor time up to the jobs.
    pub plan_seconds: f64,
    /// Processor time after them.
    pub join_seconds: f64,
    /// Size of the program in bytes.
    pub program: u64,
    /// Size of the inputs of all jobs in bytes.
    pub tools: u64,
    /// The size of each unit in bytes.
    pub units: Vec<u64>,
    /// The jobs, as they were submitted.
    pub jobs: Vec<Job>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Job {
    /// Processor time.
    pub seconds: f64,
    /// The units that it reads.
    pub units: Vec<usize>,
    /// Size of the manifest in bytes.
    pub manifest: u64,
    /// Size of the result in bytes.
    pub result: u64,
}

impl Trace {
    /// Reads a trace.
    ///
    /// # Errors
    /// The file cannot be read, or is none.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read(file).map_err(|error| Failure::file("read", file, &error))?;
        let unusable = |why: String| Failure::new(format!("{}: {why}", file.display()));
        let trace: Self = serde_json::from_slice(&text).map_err(|error| unusable(error.to_string()))?;
        let is_sound = |job: &Job| job.seconds >= 0.0 && job.units.iter().all(|unit| *unit < trace.units.len());
        if trace.kernels == 0 || trace.jobs.is_empty() || !trace.jobs.iter().all(is_sound) {
            return Err(unusable("no trace of a link with jobs".to_owned()));
        }
        Ok(trace)
    }

    /// How many such programs have about this many kernels.
    pub fn copies_for(&self, kernels: usize) -> usize {
        ((kernels + self.kernels / 2) / self.kernels).max(1)
    }

    /// The time of the longest job.
    pub fn longest(&self) -> f64 {
        self.jobs.iter().map(|job| job.seconds).fold(0.0, f64::max)
    }

    /// The same with long jobs cut into equal ones of at most this time, as if their kernels could be.
    pub fn cut(&self, seconds: f64) -> Self {
        let pieces = |job: &Job| {
            let count = (job.seconds / seconds).ceil().max(1.0);
            let piece = Job { seconds: job.seconds / count, result: (job.result as f64 / count) as u64, ..job.clone() };
            std::iter::repeat_n(piece, count as usize)
        };
        Trace { jobs: self.jobs.iter().flat_map(pieces).collect(), ..self.clone() }
    }

    /// The same with another time for the join.
    pub fn with_join(&self, factor: f64) -> Self {
        Trace { join_seconds: self.join_seconds * factor, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Trace> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Trace::read(file.path())
    }

    const TRACE: &str = r#"{"name": "x", "note": "y", "kernels": 300, "image": 1, "plan_seconds": 1, "join_seconds": 2,
        "program": 5, "tools": 6, "units": [7], "jobs": [{"seconds": 5, "units": [0], "manifest": 8, "result": 90}]}"#;

    #[test]
    fn programs_are_repeated_and_jobs_cut() {
        let trace = read(TRACE).unwrap();
        assert_eq!([trace.copies_for(100), trace.copies_for(449), trace.copies_for(451)], [1, 1, 2]);
        let cut = trace.cut(2.0);
        assert_eq!((cut.jobs.len(), cut.jobs[0].result, trace.longest()), (3, 30, 5.0));
    }

    #[test]
    fn other_files_are_no_traces() {
        for (from, to) in [
            ("\"units\": [0]", "\"units\": [1]"),
            ("300", "0"),
            ("\"tools\": 6, ", ""),
            ("seconds\": 5", "seconds\": -5"),
        ] {
            assert!(read(&TRACE.replace(from, to)).is_err(), "{from}");
        }
    }
}
