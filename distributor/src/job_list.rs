//! The list of jobs that a linker gives to a distributor.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A list that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the list of jobs {}: {source}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The text is not in the format.
    #[error("{}: no list of jobs in the format of distributed ThinLTO: {source}", .file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: serde_json::Error,
    },
    /// There is no program to run.
    #[error("{}: common.args names no program", .file.display())]
    NoProgram {
        /// The file.
        file: PathBuf,
    },
    /// A job has no single output.
    #[error("{}: job {index} has {count} outputs, and jobs of fatlink have one", .file.display())]
    Outputs {
        /// The file.
        file: PathBuf,
        /// The index of the job.
        index: usize,
        /// The number of its outputs.
        count: usize,
    },
}

/// The list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobList {
    /// What all jobs share.
    pub common: Common,
    /// The jobs, those that take longest first.
    pub jobs: Vec<Job>,
}

/// What all jobs share.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Common {
    /// The file that the link writes.
    pub linker_output: String,
    /// The program, and its first arguments.
    pub args: Vec<String>,
    /// Files that every job reads.
    pub inputs: Vec<String>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its arguments, behind the common ones.
    pub args: Vec<String>,
    /// Files that it reads besides the common ones.
    pub inputs: Vec<String>,
    /// The files that it writes.
    pub outputs: Vec<String>,
}

impl JobList {
    /// Reads a list.
    ///
    /// # Errors
    /// The file cannot be read or is no list of such jobs.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let text = std::fs::read(file).map_err(|source| Error::Read { file: file.to_owned(), source })?;
        Self::parse(&text, file)
    }

    /// Parses the text of a list.
    ///
    /// # Errors
    /// The text is no list of such jobs.
    pub fn parse(text: &[u8], file: &Path) -> Result<Self, Error> {
        let file = || file.to_owned();
        let list: Self = serde_json::from_slice(text).map_err(|source| Error::Format { file: file(), source })?;
        if list.common.args.is_empty() {
            return Err(Error::NoProgram { file: file() });
        }
        let wrong = list.jobs.iter().enumerate().find(|(_, job)| job.outputs.len() != 1);
        match wrong {
            Some((index, job)) => Err(Error::Outputs { file: file(), index, count: job.outputs.len() }),
            None => Ok(list),
        }
    }

    /// The program.
    pub fn program(&self) -> &str {
        self.common.args.first().map_or("", String::as_str)
    }

    /// The arguments of the program for a job.
    pub fn arguments<'l>(&'l self, job: &'l Job) -> impl Iterator<Item = &'l String> {
        self.common.args.iter().skip(1).chain(&job.args)
    }
}

impl Job {
    /// The file that it writes.
    pub fn output(&self) -> &Path {
        self.outputs.first().map_or(Path::new(""), Path::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{
        "common": {"linker_output": "app", "args": ["/bin/fatlink", "--run-job"], "inputs": ["ptxas"]},
        "jobs": [{"args": ["a.json", "-o", "a.result"], "inputs": ["a.bc", "a.json"], "outputs": ["a.result"]}]
    }"#;

    fn parse(text: &str) -> Result<JobList, String> {
        JobList::parse(text.as_bytes(), Path::new("jobs.json")).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_of_a_job_is_common_arguments_and_its_own() {
        let list = parse(LIST).unwrap();
        let arguments: Vec<&str> = list.arguments(&list.jobs[0]).map(String::as_str).collect();
        assert_eq!(list.program(), "/bin/fatlink");
        assert_eq!(arguments, ["--run-job", "a.json", "-o", "a.result"]);
        assert_eq!(list.jobs[0].output(), Path::new("a.result"));
    }

    #[test]
    fn other_texts_are_no_lists() {
        for (from, to, error) in [
            ("\"jobs\": [", "\"more\": 1, \"jobs\": [", "unknown field `more`"),
            ("\"linker_output\": \"app\", ", "", "missing field `linker_output`"),
            ("[\"/bin/fatlink\", \"--run-job\"]", "[]", "common.args names no program"),
            ("\"outputs\": [\"a.result\"]", "\"outputs\": []", "job 0 has 0 outputs"),
        ] {
            let found = parse(&LIST.replace(from, to)).unwrap_err();
            assert!(found.starts_with("jobs.json: ") && found.contains(error), "{found}");
        }
    }
}
