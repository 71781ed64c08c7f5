//! Waits for a tool in one thread: reads its output, samples its memory, and kills it when its processor time is over.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
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
}

/// How long what a tool has started may still write to the tool's pipes after its end, such as `tee` behind a script. A daemon holds them for as
/// long as it runs.
const FAREWELL: Duration = Duration::from_millis(500);

/// Waits until the child has ended and its pipes are closed, or have been silent for a while. `output` sees the output so far after each read,
/// and may take some of it.
pub fn until_the_end(child: &mut Child, limit: Duration, output: &mut dyn FnMut(&mut Watched)) -> Watched {
    let mut pause = Duration::from_millis(4);
    let mut look = Instant::now() + pause;
    let mut watched = Watched::default();
    let mut tool = Tool::of(child);
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

/// A running child, with its open pipes.
struct Tool {
    pid: Option<Pid>,
    /// Readable when the child has ended. Kernels before 5.3 do not have it.
    end: Option<OwnedFd>,
    ended: bool,
    stdout: Option<File>,
    stderr: Option<File>,
}

impl Tool {
    fn of(child: &mut Child) -> Self {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Tool {
            pid,
            end: pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
            ended: false,
            stdout: child.stdout.take().map(|pipe| File::from(OwnedFd::from(pipe))),
            stderr: child.stderr.take().map(|pipe| File::from(OwnedFd::from(pipe))),
        }
    }

    fn is_over(&self) -> bool {
        self.ended && self.stdout.is_none() && self.stderr.is_none()
    }

    /// Waits for an event, at most for this long.
    fn wait(&self, most: Duration) {
        let open = [self.stdout.as_ref().map(File::as_fd), self.stderr.as_ref().map(File::as_fd)];
        let end = self.end.as_ref().filter(|_| !self.ended).map(OwnedFd::as_fd);
        let mut all: Vec<PollFd<'_>> =
            open.into_iter().chain([end]).flatten().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // A signal ends the wait early, which is harmless.
        let _ = poll(&mut all, Timespec::try_from(most.min(RAREST)).ok().as_ref());
    }

    /// Reads some of the output that is available. Returns whether there was any.
    fn read(&mut self, watched: &mut Watched) -> bool {
        let has_read = drain(&mut self.stdout, &mut watched.stdout) | drain(&mut self.stderr, &mut watched.stderr);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        self.ended = self.ended
            || self.pid.is_none_or(|pid| match waitid(WaitId::Pid(pid), options) {
                Ok(status) => status.is_some(),
                Err(error) => error != rustix::io::Errno::INTR,
            });
        has_read
    }

    fn kill(&self) {
        // The child is not reaped, so its number is not reused.
        if let Some(pid) = self.pid {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// The processor time of all its threads; zero if it is unknown.
    fn processor_time(&self) -> Duration {
        let read = |pid: Pid| std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok();
        self.pid.and_then(read).map(|text| processor_time(&text)).unwrap_or_default()
    }

    fn peak(&self) -> u64 {
        self.pid.and_then(|pid| memory::peak_of(&pid.as_raw_pid().to_string())).unwrap_or_default()
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
    let mut ready = [PollFd::new(open, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if !matches!(poll(&mut ready, Some(&now)), Ok(1..)) {
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
