//! Waits for a tool in one thread: reads its output, samples its memory, and kills it when its processor time is over.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, waitid};

use crate::sys::memory;

/// Maximum time between two samples.
const RAREST: Duration = Duration::from_millis(100);

/// What was observed of a tool that has ended and is not yet reaped.
#[derive(Debug, Default)]
pub struct Watched {
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// Largest resident size sampled, in bytes; 0: it ended before the first sample.
    pub peak: u64,
    /// It was killed because it took too much processor time.
    pub late: bool,
    /// How it ended, if another process has waited for it.
    pub told: Option<ExitStatus>,
}

/// How long what a tool has started may still write to the tool's pipes after its end, such as `tee` behind a script. A daemon holds them for as
/// long as it runs.
const FAREWELL: Duration = Duration::from_millis(500);

/// Waits until the tool has ended and its pipes are closed, or have been silent for a while. `output` sees the output so far after each read,
/// and may take some of it.
pub fn until_the_end(mut tool: Tool, limit: Duration, output: &mut dyn FnMut(&mut Watched)) -> Watched {
    let mut pause = Duration::from_millis(4);
    let mut look = Instant::now() + pause;
    let mut watched = Watched::default();
    let mut silent_since = None;
    // Children of a tool may keep its pipes open forever.
    while !(tool.is_over() || watched.late && tool.ended) {
        tool.wait(look.saturating_duration_since(Instant::now()));
        let has_read = tool.read(&mut watched);
        output(&mut watched);
        if tool.ended && !has_read {
            if silent_since.get_or_insert_with(Instant::now).elapsed() >= FAREWELL {
                break;
            }
        } else {
            silent_since = None;
        }
        if Instant::now() >= look {
            if !watched.late && !tool.ended && limit < Duration::MAX && tool.processor_time() >= limit {
                watched.late = true;
                tool.kill();
            }
            watched.peak = watched.peak.max(tool.peak());
            pause = (pause * 2).min(RAREST);
            look = Instant::now() + pause;
        }
    }
    watched
}

/// A running process, with its open pipes.
pub struct Tool {
    process: Process,
    ended: bool,
    stdout: Option<File>,
    stderr: Option<File>,
}

/// Whose process it is.
enum Process {
    Own {
        pid: Option<Pid>,
        /// Readable when the child has ended. Kernels before 5.3 do not have it.
        end: Option<OwnedFd>,
    },
    /// Another process writes the wait status into this pipe, as four bytes in native order.
    Other(File),
}

impl Tool {
    /// A child of this process.
    pub fn child(child: &mut Child) -> Self {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let end = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Tool {
            process: Process::Own { pid, end },
            ended: false,
            stdout: child.stdout.take().map(|pipe| File::from(OwnedFd::from(pipe))),
            stderr: child.stderr.take().map(|pipe| File::from(OwnedFd::from(pipe))),
        }
    }

    /// A child of another process, which writes the wait status into `end`.
    pub fn elsewhere(stdout: OwnedFd, stderr: OwnedFd, end: OwnedFd) -> Self {
        let (stdout, stderr) = (Some(stdout.into()), Some(stderr.into()));
        Tool { process: Process::Other(end.into()), ended: false, stdout, stderr }
    }

    fn is_over(&self) -> bool {
        self.ended && self.stdout.is_none() && self.stderr.is_none()
    }

    /// Waits for an event, at most for this long.
    fn wait(&self, most: Duration) {
        let open = [self.stdout.as_ref().map(File::as_fd), self.stderr.as_ref().map(File::as_fd)];
        let end = match &self.process {
            Process::Own { end, .. } => end.as_ref().map(OwnedFd::as_fd),
            Process::Other(end) => Some(end.as_fd()),
        };
        let end = end.filter(|_| !self.ended);
        let mut all: Vec<PollFd<'_>> =
            open.into_iter().chain([end]).flatten().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // A signal ends the wait early, which is harmless.
        let _ = poll(&mut all, Timespec::try_from(most.min(RAREST)).ok().as_ref());
    }

    /// Reads some of the output that is available. Returns whether there was any.
    fn read(&mut self, watched: &mut Watched) -> bool {
        let has_read = drain(&mut self.stdout, &mut watched.stdout) | drain(&mut self.stderr, &mut watched.stderr);
        self.ended = self.ended || self.has_ended(watched);
        has_read
    }

    fn has_ended(&mut self, watched: &mut Watched) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match &mut self.process {
            Process::Own { pid, .. } => pid.is_none_or(|pid| match waitid(WaitId::Pid(pid), options) {
                Ok(status) => status.is_some(),
                Err(error) => error != rustix::io::Errno::INTR,
            }),
            Process::Other(end) => {
                let is_told = is_readable(end);
                let mut status = [0; 4];
                if is_told && end.read_exact(&mut status).is_ok() {
                    watched.told = Some(ExitStatus::from_raw(i32::from_ne_bytes(status)));
                }
                is_told
            }
        }
    }

    fn pid(&self) -> Option<Pid> {
        match &self.process {
            Process::Own { pid, .. } => *pid,
            Process::Other(_) => None,
        }
    }

    fn kill(&self) {
        // The child is not reaped, so its number is not reused.
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// The processor time of all its threads; zero if it is unknown.
    fn processor_time(&self) -> Duration {
        let read = |pid: Pid| std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok();
        self.pid().and_then(read).map(|text| processor_time(&text)).unwrap_or_default()
    }

    fn peak(&self) -> u64 {
        self.pid().and_then(|pid| memory::peak_of(&pid.as_raw_pid().to_string())).unwrap_or_default()
    }
}

/// The processor time in the text of /proc/PID/stat. The name, in parentheses, may contain anything; the fields after it begin with the third.
fn processor_time(stat: &str) -> Duration {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_millis(ticks.saturating_mul(1000) / per_second)
}

/// Reads some of a pipe's contents, and closes it at its end. Not everything at once: a tool that never stops printing must
/// not delay the check of its time limit. Returns whether there was something. Errors are ignored.
fn drain(pipe: &mut Option<File>, into: &mut Vec<u8>) -> bool {
    let Some(open) = pipe else { return false };
    if !is_readable(open) {
        return false;
    }
    let mut buffer = [0; 16 * 1024];
    match open.read(&mut buffer) {
        Ok(0) => *pipe = None,
        Ok(read) => {
            into.extend_from_slice(&buffer[..read]);
            return true;
        }
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
        Err(_) => *pipe = None,
    }
    false
}

/// Whether there is something to read, or the pipe's other end is closed.
fn is_readable(pipe: &File) -> bool {
    let mut ready = [PollFd::new(pipe, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut ready, Some(&now)), Ok(1..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_time_is_that_of_the_process() {
        let ticks = rustix::param::clock_ticks_per_second();
        // Its name may be any; the times of its children follow its own.
        let stat = format!("12 (a) S 7 (b)) R 1 1 1 0 -1 0 5 6 7 8 {} {} 900 900 20 0 1", ticks, 2 * ticks);
        assert_eq!(processor_time(&stat), Duration::from_secs(3));
        assert_eq!(processor_time(""), Duration::ZERO);
    }
}
