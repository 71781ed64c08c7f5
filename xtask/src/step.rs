//! Steps: each prints in one line what it does and how long it took.
//!
//! On a terminal the line also shows the elapsed time and the last line that the running tool printed; in a pipe it does not.
//! The output of the tools is kept, and shown only when they fail.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, PipeReader, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::{Failure, Result};

static QUIET: AtomicBool = AtomicBool::new(false);

/// Makes all later steps silent, unless a tool fails.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// The line of a running step; threads of one step may share it.
pub struct Progress {
    bar: ProgressBar,
}

/// Runs `work` as one step, and returns its result.
pub fn step<T>(title: &str, work: impl FnOnce(&Progress) -> Result<T>) -> Result<T> {
    noted_step(title, work, |_| String::new())
}

/// The same with a note on the result at the end of the line.
pub fn noted_step<T>(
    title: &str,
    work: impl FnOnce(&Progress) -> Result<T>,
    note: impl FnOnce(&T) -> String,
) -> Result<T> {
    if QUIET.load(Ordering::Relaxed) {
        return work(&Progress::hidden());
    }
    let start = Instant::now();
    let progress = Progress::new(title);
    let is_redrawn = !progress.bar.is_hidden();
    if !is_redrawn {
        print!("  {title} ... ");
        // A closed stdout is no reason to stop the work.
        let _ = std::io::stdout().flush();
    }
    let outcome = if is_redrawn { work(&progress) } else { with_minutes(|| work(&progress)) };
    progress.bar.finish_and_clear();
    if is_redrawn {
        print!("  {title} ... ");
    }
    let seconds = start.elapsed().as_secs_f64();
    match outcome.as_ref().map(note) {
        Ok(note) if note.is_empty() => println!("{seconds:.1} s"),
        Ok(note) => println!("{note} ({seconds:.1} s)"),
        Err(_) => println!("FAILED ({seconds:.1} s)"),
    }
    outcome
}

/// Runs `work`, and prints every minute how many have passed: the log of a build is watched, too.
fn with_minutes<T>(work: impl FnOnce() -> T) -> T {
    const MINUTE: Duration = Duration::from_secs(60);
    let (ended, wait) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for minute in 1.. {
                if wait.recv_timeout(MINUTE) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
                print!("{minute} min ... ");
                let _ = std::io::stdout().flush();
            }
        });
        let outcome = work();
        drop(ended);
        outcome
    })
}

/// Runs `work` on all jobs, as many at once as there are cores. Returns the first failure.
pub fn in_parallel<Job: Send>(jobs: Vec<Job>, work: impl Fn(Job) -> Result<()> + Sync) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    let queue = Mutex::new(jobs.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let worker = || -> Result<()> {
        while let Some(job) = next() {
            work(job)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("xtask itself failed: see the panic above")))
        })
    })
}

impl Progress {
    /// Draws nothing.
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden() }
    }

    /// Draws on a terminal only.
    fn new(title: &str) -> Self {
        const INTERVAL: Duration = Duration::from_millis(200);
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
        bar.set_style(style("  {prefix} ... {elapsed}  {wide_msg}"));
        bar.set_prefix(title.to_owned());
        bar.enable_steady_tick(INTERVAL);
        Self { bar }
    }

    /// Shows from now on how many of `total` parts are done.
    pub fn begin_count(&self, total: usize) {
        self.bar.set_style(style("  {prefix} ... {elapsed}  {pos} of {len}  {wide_msg}"));
        self.bar.set_length(total as u64);
        self.bar.set_position(0);
    }

    /// Counts one part as done.
    pub fn count_one(&self) {
        self.bar.inc(1);
    }

    /// Runs a tool to its end and returns what it printed, both streams in order.
    pub fn run(&self, command: &mut Command) -> Result<String> {
        let (status, output) = self.status(command)?;
        if status.success() {
            return Ok(output);
        }
        Err(Failure { message: format!("`{}` failed: {status}", shown(command)), output })
    }

    /// Runs a tool that needs the network, up to three times with a pause in between. `again` makes its command line.
    pub fn run_patiently(&self, again: impl Fn() -> Command) -> Result<String> {
        const PAUSES: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(20)];
        for pause in PAUSES {
            match self.run(&mut again()) {
                Ok(output) => return Ok(output),
                Err(failure) => {
                    self.bar.set_message(format!("again in {} s: {}", pause.as_secs(), failure.tool_error()));
                }
            }
            std::thread::sleep(pause);
        }
        self.run(&mut again())
    }

    /// The same for a tool whose exit status means something.
    pub fn status(&self, command: &mut Command) -> Result<(ExitStatus, String)> {
        let (status, output) = self.watch(command, Duration::MAX)?;
        let status = status.ok_or_else(|| Failure::new(format!("`{}` hangs", shown(command))))?;
        Ok((status, output))
    }

    /// The same for a tool that may hang: it is killed, and has no status, if it prints nothing for this long.
    pub fn watch(&self, command: &mut Command, most_silence: Duration) -> Result<(Option<ExitStatus>, String)> {
        let (mut child, reader) = spawn(command)?;
        let (send, lines) = channel();
        // It ends with the pipe. What the tool has started may keep that open for longer than the tool itself runs.
        std::thread::spawn(move || {
            let lines = BufReader::new(reader).split(b'\n').map_while(std::result::Result::ok);
            lines.map(|line| send.send(line)).take_while(std::result::Result::is_ok).for_each(drop);
        });
        let mut output = String::new();
        let silent = loop {
            match lines.recv_timeout(most_silence) {
                Ok(line) => {
                    let line = String::from_utf8_lossy(&line);
                    self.bar.set_message(printable(&line));
                    output += &line;
                    output.push('\n');
                }
                Err(error) => break error == RecvTimeoutError::Timeout,
            }
        };
        let name = command.get_program().to_string_lossy();
        let failed = |error| Failure::new(format!("cannot wait for {name}: {error}"));
        if silent {
            child.kill().map_err(failed)?;
        }
        let status = child.wait().map_err(failed)?;
        Ok(((!silent).then_some(status), output))
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// Starts a tool with both its streams in one pipe, so that its output keeps its order.
fn spawn(command: &mut Command) -> Result<(Child, PipeReader)> {
    let (reader, stdout, stderr) = one_pipe().map_err(|error| Failure::new(format!("cannot make a pipe: {error}")))?;
    let child = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn();
    // The command would keep its ends of the pipe open, and the pipe would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    child.map(|child| (child, reader)).map_err(|error| {
        let program = command.get_program().to_string_lossy();
        Failure::new(format!("cannot run {program}: {error}; `cargo xtask setup` installs what this project needs"))
    })
}

fn one_pipe() -> std::io::Result<(PipeReader, Stdio, Stdio)> {
    let (reader, writer) = std::io::pipe()?;
    Ok((reader, writer.try_clone()?.into(), writer.into()))
}

/// Escape sequences and tabs would move the cursor.
fn printable(line: &str) -> String {
    line.chars().filter(|c| !c.is_control()).collect()
}

/// The command line as a human would type it.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

/// A word that a POSIX shell reads back as it is.
pub fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        let progress = Progress::new("title");
        progress.begin_count(2);
        progress.count_one();
        assert_eq!((progress.bar.position(), progress.bar.length()), (1, Some(2)));
    }

    #[test]
    fn all_jobs_run_and_the_first_failure_is_returned() {
        let sum = std::sync::atomic::AtomicUsize::new(0);
        let add = |job| {
            sum.fetch_add(job, Ordering::Relaxed);
            Ok(())
        };
        in_parallel(vec![1, 2, 3], add).unwrap();
        assert_eq!(sum.into_inner(), 6);
        let failure = in_parallel(vec![1], |_| Err(Failure::new("no"))).unwrap_err();
        assert_eq!(failure.message, "no");
    }

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted(OsStr::new("-O2")), "-O2");
        assert_eq!(quoted(OsStr::new("")), "''");
        assert_eq!(quoted(OsStr::new("it's $HOME")), "'it'\\''s $HOME'");
    }

    #[test]
    fn failures_keep_the_output() {
        assert_eq!(Progress::hidden().run(Command::new("echo").arg("hello")).unwrap(), "hello\n");
        let failure = Progress::hidden().run(Command::new("ls").arg("/nowhere")).unwrap_err();
        assert_eq!(failure.message, "`ls /nowhere` failed: exit status: 2");
        assert!(failure.output.contains("/nowhere"), "{}", failure.output);
    }

    #[test]
    fn a_silent_tool_is_killed() {
        let script = "echo begun; exec sleep 600";
        let watched = Progress::hidden().watch(Command::new("sh").args(["-c", script]), Duration::from_secs(1));
        assert_eq!(watched.unwrap(), (None, "begun\n".to_owned()));
        let (status, output) = Progress::hidden().watch(Command::new("echo").arg("done"), Duration::MAX).unwrap();
        assert!(status.unwrap().success() && output == "done\n");
    }

    #[test]
    fn a_missing_tool_is_named() {
        let failure = Progress::hidden().run(&mut Command::new("no-such-tool")).unwrap_err();
        assert!(failure.message.starts_with("cannot run no-such-tool: "), "{}", failure.message);
        assert!(failure.message.contains("cargo xtask setup"), "{}", failure.message);
    }
}
