//! Runs a job on this machine.

use std::process::{Command, ExitStatus, Stdio};

use crate::job_list::{Job, JobList};

/// The command of a job.
pub fn command(list: &JobList, job: &Job) -> Command {
    let mut command = Command::new(list.program());
    command.args(list.arguments(job)).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Runs a job to its end.
///
/// # Errors
/// The program cannot be started.
pub fn run(list: &JobList, job: &Job) -> std::io::Result<ExitStatus> {
    command(list, job).status()
}
