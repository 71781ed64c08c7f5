//! The mark of a job: a file beside its result that says which node has taken it, and that the node still runs it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use distributor::{Job, JobList, local};

/// The name of a node that has not given one.
const UNKNOWN_NODE: &str = "unknown node";

/// What is in a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The node that has taken the job.
    pub node: String,
    /// A dot for each sign of life since. Clocks of machines differ, so there is no time.
    pub beats: String,
}

/// Takes a job if no other task has taken it: only one of them can create its mark, on network file systems, too.
///
/// # Errors
/// The mark cannot be written.
pub fn take(job: &Job) -> io::Result<bool> {
    let made: io::Result<File> = OpenOptions::new().write(true).create_new(true).open(path(job));
    match made.and_then(|mut file| file.write_all(format!("{}\n", node()).as_bytes())) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Runs a job that was taken, and adds a sign of life to its mark after each `pause`.
///
/// # Errors
/// The program cannot be started.
pub fn run(list: &JobList, job: &Job, pause: Duration) -> io::Result<ExitStatus> {
    let (ended, end) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                // Closed each time, so that other machines see it. Without it, the job runs twice at worst.
                let open = OpenOptions::new().append(true).open(path(job));
                let _ = open.and_then(|mut file| file.write_all(b"."));
            }
        });
        let status = local::run(list, job);
        drop(ended);
        status
    })
}

/// Reads the mark of a job, if it is taken.
pub fn read(job: &Job) -> Option<Mark> {
    let text = std::fs::read_to_string(path(job)).ok()?;
    let (node, beats) = text.split_once('\n').unwrap_or((&text, ""));
    // Its task was killed before it could write.
    let node = if node.is_empty() { UNKNOWN_NODE } else { node };
    Some(Mark { node: node.to_owned(), beats: beats.to_owned() })
}

/// The path of a job's mark.
pub fn path(job: &Job) -> PathBuf {
    let mut mark = job.output().as_os_str().to_owned();
    mark.push(".taken");
    mark.into()
}

/// The name of this node.
fn node() -> String {
    std::env::var("SLURMD_NODENAME").unwrap_or_else(|_| UNKNOWN_NODE.to_owned())
}

#[cfg(test)]
mod tests {
    use distributor::job_list::Common;

    use super::*;

    fn job(folder: &std::path::Path, name: &str) -> Job {
        let output = folder.join(name).to_string_lossy().into_owned();
        Job { args: Vec::new(), inputs: Vec::new(), outputs: vec![output] }
    }

    #[test]
    fn a_job_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let job_here = job(folder.path(), "a.result");
        assert_eq!(read(&job_here), None);
        assert!(take(&job_here).unwrap());
        assert!(!take(&job_here).unwrap());
        assert_eq!(read(&job_here).unwrap().beats, "");
        assert!(take(&job(folder.path(), "no/a")).is_err());
    }

    #[test]
    fn a_job_that_runs_gives_signs_of_life() {
        let folder = tempfile::tempdir().unwrap();
        let job = job(folder.path(), "a.result");
        // It ends when it sees one.
        let script = format!(
            "for i in $(seq 6000); do grep -q '\\.' '{}' && exit 0; sleep 0.01; done; exit 1",
            path(&job).display()
        );
        let job = Job { args: vec!["-c".to_owned(), script], ..job };
        let common = Common { linker_output: String::new(), args: vec!["sh".to_owned()], inputs: Vec::new() };
        let list = JobList { common, jobs: vec![job] };
        assert!(take(&list.jobs[0]).unwrap());
        assert!(run(&list, &list.jobs[0], Duration::from_millis(1)).unwrap().success());
        let beats = read(&list.jobs[0]).unwrap().beats;
        assert!(!beats.is_empty() && beats.chars().all(|c| c == '.'), "{beats}");
    }

    #[test]
    fn an_empty_mark_is_one_of_an_unknown_node() {
        let folder = tempfile::tempdir().unwrap();
        let job = job(folder.path(), "a.result");
        std::fs::write(path(&job), "").unwrap();
        assert_eq!(read(&job).unwrap(), Mark { node: UNKNOWN_NODE.to_owned(), beats: String::new() });
    }
}
