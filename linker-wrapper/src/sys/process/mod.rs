//! Runs programs, always directly and never through a shell.

pub(in crate::sys) mod watch;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use wait4::Wait4;

use crate::diag::error::Errors;
use crate::diag::messages;
use crate::sys::error::Error;
use crate::sys::memory;
use watch::{Tool, Watched};

/// Whether commands are shown, and whether they are run.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Mode {
    /// Print every command on standard error.
    pub show: bool,
    /// Run no command.
    pub dry: bool,
}

/// The running children. A signal that ends this process ends them first.
static CHILDREN: Mutex<Children> = Mutex::new(Children { running: BTreeSet::new(), ending: false });

struct Children {
    running: BTreeSet<u32>,
    /// The process is ending: no child may be started, and the end of one is ignored.
    ending: bool,
}

fn children() -> MutexGuard<'static, Children> {
    let mut children = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
    while children.ending {
        // The thread that handles the signal is about to end the process.
        drop(children);
        std::thread::sleep(Duration::from_secs(1));
        children = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
    }
    children
}

/// Ends all running children. Afterwards every thread that starts a child or waits for one is suspended: errors of tools that
/// were ended are not errors of the link.
pub fn end_children() {
    let mut children = children();
    children.ending = true;
    for pid in children.running.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)) {
        // The child may have ended already.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Suspends this thread if a signal is ending the process: errors caused by the cleanup are not errors of the link.
pub fn stand_still_if_ending() {
    drop(children());
}

/// Starts a child and records it under one lock, so that no signal comes in between.
pub(in crate::sys) fn spawn(command: &mut Command) -> std::io::Result<(Child, Running)> {
    let mut children = children();
    let child = command.spawn().inspect_err(|error| {
        if error.kind() == std::io::ErrorKind::OutOfMemory {
            // Nothing works without memory, not even the removal of temporary files. A fresh copy of the program has enough.
            llvm_passes::crash::out_of_memory();
        }
    })?;
    children.running.insert(child.id());
    let running = Running(child.id());
    Ok((child, running))
}

/// Shows the command if `mode` requests it.
pub fn show(mode: Mode, program: &Path, arguments: &[OsString]) {
    if mode.show {
        messages::show(command_line(program, arguments));
    }
}

/// Shows a step of this process as the command of LLVM that does the same: a comment in a shell that the output is pasted into.
pub fn show_equivalent(mode: Mode, program: &str, arguments: &[String]) {
    if mode.show {
        let words: String = arguments.iter().map(|word| format!(" {}", word_of_shell(word))).collect();
        messages::show(format_args!(" # in this process: \"{program}\"{words}"));
    }
}

/// A word with quotes if a POSIX shell would take it for something else without them.
fn word_of_shell(word: &str) -> String {
    let quoted = quoted(OsStr::new(word));
    quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).map_or(quoted.clone(), str::to_owned)
}

/// The command as `-v` shows it: one line, quoted for a POSIX shell.
pub fn command_line(program: &Path, arguments: &[OsString]) -> String {
    let words = std::iter::once(program.as_os_str()).chain(arguments.iter().map(OsString::as_os_str));
    words.map(|word| format!(" {}", quoted(word))).collect()
}

/// The result of a tool.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// Its peak resident size in bytes. The system's figure includes this process's size when it started the tool; below
    /// that, it is the largest size that was sampled, or 0 if the tool ended before the first sample.
    pub peak_bytes: u64,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// The standard output that is left.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

/// Runs a tool to its end and captures what it prints.
///
/// # Errors
/// The program could not be started.
pub fn capture(program: &Path, arguments: &[OsString]) -> std::io::Result<Finished> {
    // Effectively without a limit.
    capture_within(program, arguments, Duration::MAX).map(|(finished, _)| finished)
}

/// Limit of the processor time of a tool that links these files and compiles nothing. It needs milliseconds per megabyte; the limit is a
/// thousand times more. nvlink loops forever on some damaged cubins that look valid, and a host linker may on damaged objects. How long the
/// tool has to wait for a processor or a disk says nothing about its inputs.
pub fn limit(inputs: &[PathBuf]) -> Duration {
    let bytes: u64 = inputs.iter().filter_map(|path| path.metadata().ok()).map(|found| found.len()).sum();
    Duration::from_secs(20 + 10 * (bytes >> 20))
}

/// As [`capture`], but kills the tool if it runs on after `limit`, which counts its processor time alone. The flag is true if it was killed.
/// Without /proc there is no limit.
///
/// # Errors
/// The program could not be started.
pub fn capture_within(program: &Path, arguments: &[OsString], limit: Duration) -> std::io::Result<(Finished, bool)> {
    watched(program, arguments, limit, &mut |_| {})
}

/// As [`capture`], but keeps only the end of each output, at least the last `kept` bytes.
///
/// # Errors
/// The program could not be started.
pub fn capture_end(program: &Path, arguments: &[OsString], kept: usize) -> std::io::Result<Finished> {
    let mut cut = |output: &mut Watched| {
        for output in [&mut output.stdout, &mut output.stderr] {
            // Not after each read, because the rest moves.
            if output.len() > 2 * kept {
                output.drain(..output.len() - kept);
            }
        }
    };
    watched(program, arguments, Duration::MAX, &mut cut).map(|(finished, _)| finished)
}

/// As [`capture`], but passes each line of standard output, without its line break, to `line` as soon as the tool has
/// written it. What follows the last line break is the standard output of the result.
///
/// # Errors
/// The program could not be started.
pub fn capture_lines(program: &Path, arguments: &[OsString], line: &mut dyn FnMut(&[u8])) -> std::io::Result<Ended> {
    let mut pass_on = |output: &mut Watched| pass_on_lines(output, line);
    let (Finished { status, stdout, stderr, .. }, _) = watched(program, arguments, Duration::MAX, &mut pass_on)?;
    Ok(Ended { status, stdout, stderr })
}

/// Takes the whole lines out of standard output.
pub(in crate::sys) fn pass_on_lines(output: &mut Watched, line: &mut dyn FnMut(&[u8])) {
    while let Some(end) = memchr::memchr(b'\n', &output.stdout) {
        line(&output.stdout[..end]);
        output.stdout.drain(..=end);
    }
}

/// Runs a tool to its end, at most for `limit` of processor time. After each read, `output` may take what it needs of the output so far.
fn watched(
    program: &Path,
    arguments: &[OsString],
    limit: Duration,
    output: &mut dyn FnMut(&mut Watched),
) -> std::io::Result<(Finished, bool)> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, running) = spawn(&mut command)?;
    let own_peak = memory::own_peak();
    let watched = watch::until_the_end(Tool::child(&mut child), limit, output);
    // The child is reaped afterwards, so that its number is not reused while others may use it.
    drop(running);
    let used = child.wait4()?;
    let peak_bytes = if used.rusage.maxrss > own_peak { used.rusage.maxrss } else { watched.peak };
    let Watched { stdout, stderr, late, .. } = watched;
    note_time(used.rusage.utime + used.rusage.stime);
    Ok((Finished { status: used.status, stdout, stderr, peak_bytes }, late))
}

/// Processor time in nanoseconds of the tools that have ended.
static TOOLS: AtomicU64 = AtomicU64::new(0);

fn note_time(cpu: Duration) {
    TOOLS.fetch_add(u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Processor time of this process so far, with that of the tools that have ended.
pub fn processor_time() -> Duration {
    let own = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
    own + Duration::from_nanos(TOOLS.load(Ordering::Relaxed))
}

/// Runs a program that shares this process's terminal, to its end.
///
/// # Errors
/// The program could not be started.
pub fn run(command: &mut Command) -> std::io::Result<ExitStatus> {
    let (mut child, _running) = spawn(command)?;
    child.wait()
}

/// As [`run`], but returns what the program wrote to standard error.
///
/// # Errors
/// The program could not be started.
pub fn run_with_stderr(command: &mut Command) -> std::io::Result<(ExitStatus, Vec<u8>)> {
    let (mut child, _running) = spawn(command.stderr(Stdio::piped()))?;
    let mut text = Vec::new();
    if let Some(stderr) = &mut child.stderr {
        stderr.read_to_end(&mut text)?;
    }
    Ok((child.wait()?, text))
}

/// A child that has been started. Dropped when it has ended.
pub(in crate::sys) struct Running(u32);

impl Drop for Running {
    fn drop(&mut self) {
        children().running.remove(&self.0);
    }
}

/// Finds a program: a path is used as it is, a name is searched on PATH. `accept` may skip one.
pub fn find_program(name: &OsStr, accept: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.components().count() > 1 {
        return (is_program(path) && accept(path)).then(|| path.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| is_program(path) && accept(path))
}

/// The path of this program. Without /proc it is the name that it was started by.
pub fn itself() -> PathBuf {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() { own } else { started_as() }
}

/// The path by which this program was started, which may be a link to it.
pub fn started_as() -> PathBuf {
    OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()).into()
}

/// Replaces this process by a command, a program and its arguments. Returns only if that fails.
///
/// # Errors
/// The program cannot be started.
pub fn replace_by(command: &[OsString]) -> Result<u8, Errors> {
    use std::os::unix::process::CommandExt;
    let Some((program, arguments)) = command.split_first() else { return Ok(0) };
    let source = Command::new(program).args(arguments).exec();
    Err(Error::Start { program: program.into(), source }.into())
}

/// Whether a file is executable.
pub fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Quotes an argument for a POSIX shell.
pub fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+:,@%^".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        format!("\"{text}\"")
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// "PROGRAM failed for TARGET (exit code 1): what it said".
pub fn failure(program: &Path, target: &str, status: ExitStatus, words: &str) -> String {
    let (program, ending) = (program.display(), ending(status));
    let separator = if words.is_empty() { "" } else { ": " };
    format!("{program} failed for {target} ({ending}){separator}{words}")
}

/// Describes how a child ended.
pub fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended for an unknown reason".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> (Finished, bool) {
        // A test may use a shell; the product never does.
        capture_within(Path::new("/bin/sh"), &["-c".into(), script.into()], limit).unwrap()
    }

    #[test]
    fn both_pipes_are_read_whole() {
        let script = "i=0; while [ $i -lt 20000 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done; exit 3";
        let (finished, late) = shell(script, Duration::MAX);
        assert_eq!((finished.status.code(), late), (Some(3), false));
        assert!(finished.stdout.ends_with(b"out19999\n") && finished.stderr.ends_with(b"err19999\n"));
    }

    #[test]
    fn the_end_of_much_output_is_kept() {
        let script = "i=0; while [ $i -lt 20000 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done";
        let finished = capture_end(Path::new("/bin/sh"), &["-c".into(), script.into()], 1000).unwrap();
        for (output, end) in [(finished.stdout, "out19998\nout19999\n"), (finished.stderr, "err19998\nerr19999\n")] {
            assert!((1000..=2000).contains(&output.len()) && output.ends_with(end.as_bytes()), "{}", output.len());
        }
    }

    #[test]
    fn a_daemon_that_holds_the_outputs_does_not_delay_the_end() {
        let (finished, late) = shell("sleep 900 & echo $!; echo said >&2", Duration::MAX);
        let daemon = String::from_utf8(finished.stdout).unwrap().trim().parse().ok().and_then(Pid::from_raw).unwrap();
        // It still runs.
        kill_process(daemon, Signal::KILL).unwrap();
        assert!(!late && finished.status.success());
        assert_eq!(finished.stderr, b"said\n");
    }

    #[test]
    fn lines_come_as_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let seen = folder.path().join("seen");
        // The tool goes on only when its first line has arrived.
        let script = format!(
            "echo one; for i in $(seq 6000); do [ -e {0} ] && break; sleep 0.01; done; [ -e {0} ] || exit 1
             printf 'two\\nth'; printf 'ree\\n\\nrest'",
            seen.display()
        );
        let mut lines = Vec::new();
        let mut line = |line: &[u8]| {
            std::fs::write(&seen, line).unwrap();
            lines.push(String::from_utf8_lossy(line).into_owned());
        };
        let finished = capture_lines(Path::new("/bin/sh"), &["-c".into(), script.into()], &mut line).unwrap();
        assert!(finished.status.success());
        assert_eq!(lines, ["one", "two", "three", ""]);
        assert_eq!(finished.stdout, b"rest");
    }

    #[test]
    fn the_peak_is_the_tools_own() {
        // This process is larger than the tool, which the system's own number would show.
        let large = vec![1_u8; 400 << 20];
        let (finished, _) =
            shell("head -c 60000000 /dev/zero | tail -c 50000000 > /dev/null; sleep 0.3", Duration::MAX);
        assert!(finished.peak_bytes < 200 << 20, "{}", finished.peak_bytes);
        assert!(finished.peak_bytes > 0);
        drop(large);
    }

    #[test]
    fn a_tool_that_computes_for_too_long_is_killed() {
        let (finished, late) = shell("while :; do :; done", Duration::from_millis(50));
        assert!(late && !finished.status.success());
        assert_eq!(ending(finished.status), "killed by signal 9");
        let (_, late) = shell("while :; do echo and on; done", Duration::from_millis(50));
        assert!(late);
        // One that the tool has started goes on, and holds the pipes.
        let (finished, late) = shell("sleep 600 & echo $!; while :; do :; done", Duration::from_millis(50));
        assert!(late);
        let other = String::from_utf8(finished.stdout).unwrap().trim().parse().ok().and_then(Pid::from_raw).unwrap();
        kill_process(other, Signal::KILL).unwrap();
    }

    #[test]
    fn a_tool_that_only_waits_is_not_killed() {
        let (finished, late) = shell("sleep 0.3; echo done", Duration::from_millis(50));
        assert!(!late && finished.stdout == b"done\n");
    }

    #[test]
    fn words_are_quoted_for_pasting() {
        for (word, expected) in [("-o", "\"-o\""), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("", "''"), ("$x", "'$x'")]
        {
            assert_eq!(quoted(OsStr::new(word)), expected);
        }
    }
}
