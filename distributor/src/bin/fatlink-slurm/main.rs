//! fatlink-slurm: runs the jobs of a link in one step of Slurm, with as many tasks as the user grants. Each task takes the longest job that no
//! other has taken, until none is left: starting a step takes longer than many jobs do.
#![forbid(unsafe_code)]

mod mark;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use clap::Parser;
use distributor::JobList;
use watch::End;

/// Runs jobs of fatlink in one step of Slurm. Name it to a link with `--offload-distributor=fatlink-slurm`. In an allocation (salloc, sbatch) the
/// step uses its processors; otherwise srun allocates some for the step.
#[derive(Debug, Parser)]
#[command(name = "fatlink-slurm", version)]
struct Arguments {
    /// Tasks that run jobs side by side [default: SLURM_NTASKS, else the number of processors here]
    #[arg(long, value_name = "N")]
    tasks: Option<usize>,
    /// The srun to use
    #[arg(long, value_name = "PROGRAM", default_value = "srun")]
    srun: PathBuf,
    /// An argument for srun, such as --partition=short or --mem-per-cpu=4G; may be repeated
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    srun_arg: Vec<String>,
    /// How long to wait for processors before the link runs the jobs itself
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    immediate: u32,
    /// How long a node may give no sign of life before the link runs its jobs, if no others are left
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    patience: u32,
    /// Say which nodes ran jobs
    #[arg(short, long)]
    verbose: bool,
    /// Be a task of the step
    #[arg(long, hide = true)]
    task: bool,
    /// The list of jobs, in a folder that the nodes see, too
    #[arg(value_name = "JOBS.json")]
    list: PathBuf,
}

impl Arguments {
    fn patience(&self) -> Duration {
        Duration::from_secs(self.patience.into())
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    List(#[from] distributor::job_list::Error),
    #[error("cannot start {}: {source}", .program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("cannot wait for the step: {0}")]
    Wait(#[source] io::Error),
    #[error("cannot take a job in {}: {source}", .folder.display())]
    Take { folder: PathBuf, source: io::Error },
    #[error("{} failed ({status})", .srun.display())]
    Step { srun: PathBuf, status: std::process::ExitStatus },
    #[error("no sign of life from {}, which had {jobs} of the jobs", .nodes.iter().map(String::as_str).collect::<Vec<_>>().join(", "))]
    Lost { nodes: BTreeSet<String>, jobs: usize },
    #[error("{failed} jobs failed in task {task}")]
    Jobs { failed: usize, task: String },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = JobList::read(&arguments.list).map_err(Error::from).and_then(|list| match arguments.task {
        true => run_task(&list, arguments.patience()),
        false => run_step(&arguments, &list),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error);
            ExitCode::FAILURE
        }
    }
}

/// Prints a message; the link shows it if jobs are missing.
#[expect(clippy::print_stderr, reason = "the only place that prints")]
fn say(text: &dyn Display) {
    eprintln!("fatlink-slurm: {text}");
}

/// Runs all tasks as one step.
fn run_step(arguments: &Arguments, list: &JobList) -> Result<(), Error> {
    if list.jobs.is_empty() {
        return Ok(());
    }
    let start = |program: &Path| {
        let program = program.to_owned();
        move |source| Error::Start { program, source }
    };
    let own = std::env::current_exe().map_err(start(Path::new("fatlink-slurm")))?;
    let mut command = Command::new(&arguments.srun);
    command.arg(format!("--ntasks={}", tasks(arguments, list)));
    // A task that fails, or whose node is lost, must not end the others: the link runs what is missing.
    command.args(["--job-name=fatlink", "--no-kill", "--kill-on-bad-exit=0", "--wait=0"]);
    // If the connection to a lost node ends with an error, srun ends the whole step in spite of --no-kill, unless its tasks seem to have a terminal.
    command.env("SLURM_PTY_PORT", "0");
    command.arg(format!("--immediate={}", arguments.immediate));
    if std::env::var_os("SLURM_JOB_ID").is_some() {
        // Other links of the same allocation use its processors, too.
        command.arg("--overlap");
    }
    command.args(&arguments.srun_arg).arg(own).arg("--task").arg(format!("--patience={}", arguments.patience));
    let mut step = command.arg(&arguments.list).stdin(Stdio::null()).spawn().map_err(start(&arguments.srun))?;
    let end = watch::until_end(&mut step, list, arguments.patience()).map_err(Error::Wait)?;
    if arguments.verbose {
        nodes(list).iter().for_each(|(node, (done, begun))| {
            say(&format_args!("{node}: {done} of {begun} jobs have results"));
        });
    }
    match end {
        End::Itself(status) if !status.success() => Err(Error::Step { srun: arguments.srun.clone(), status }),
        End::Itself(_) | End::Done => Ok(()),
        End::Lost { nodes, jobs } => Err(Error::Lost { nodes, jobs }),
    }
}

/// The number of tasks; more than there are jobs would have nothing to do.
fn tasks(arguments: &Arguments, list: &JobList) -> usize {
    let granted = || std::env::var("SLURM_NTASKS").ok().and_then(|text| text.parse().ok());
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    arguments.tasks.or_else(granted).unwrap_or_else(processors).clamp(1, list.jobs.len().max(1))
}

/// Runs jobs until none is left.
fn run_task(list: &JobList, patience: Duration) -> Result<(), Error> {
    // Several signs of life get lost before a node counts as lost.
    let pause = patience / 4;
    let mut failed = 0;
    for job in &list.jobs {
        let folder = || mark::path(job).parent().unwrap_or(Path::new(".")).to_owned();
        let is_ours = mark::take(job).map_err(|source| Error::Take { folder: folder(), source })?;
        if is_ours && !mark::run(list, job, pause).is_ok_and(|status| status.success()) {
            failed += 1;
        }
    }
    let task = std::env::var("SLURM_PROCID").unwrap_or_default();
    if failed == 0 { Ok(()) } else { Err(Error::Jobs { failed, task }) }
}

/// How many jobs of each node have results, and how many it has taken.
fn nodes(list: &JobList) -> BTreeMap<String, (usize, usize)> {
    let mut nodes = BTreeMap::<String, (usize, usize)>::new();
    for job in &list.jobs {
        let Some(mark) = mark::read(job) else { continue };
        let (done, begun) = nodes.entry(mark.node).or_default();
        *done += usize::from(job.output().exists());
        *begun += 1;
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
        let given =
            Arguments::parse_from(["fatlink-slurm", "--srun-arg", "--partition=short", "--tasks=9", "jobs.json"]);
        assert_eq!((given.srun_arg, given.tasks), (vec!["--partition=short".to_owned()], Some(9)));
    }
}
