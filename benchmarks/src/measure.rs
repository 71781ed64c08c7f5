//! One run of a program: its wall time, processor time, and the memory of all its processes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use procfs::process::Process;
use wait4::Wait4;

use xtask::failure::{Failure, Result};
use xtask::step::shown;

/// How often the memory is sampled.
const INTERVAL: Duration = Duration::from_millis(20);

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub wall: Duration,
    /// User and system time of the program and of all processes that it started and waited for.
    pub processor: Duration,
    /// Maximum over time of the sum over all its processes, in bytes; 0 if it was not sampled. Pages that processes share
    /// are counted once (the kernel's proportional set size).
    pub peak: u64,
}

impl Sample {
    pub fn seconds(&self) -> f64 {
        self.wall.as_secs_f64()
    }

    pub fn processor_seconds(&self) -> f64 {
        self.processor.as_secs_f64()
    }
}

/// Whether to sample the memory during the run, which costs a few per cent of one core.
#[derive(Clone, Copy, PartialEq)]
pub enum Memory {
    Sampled,
    Ignored,
}

/// Runs a command that must succeed; its output goes to `log`, and into the error.
pub fn run(command: &mut Command, log: &Path, memory: Memory) -> Result<Sample> {
    let output = std::fs::File::create(log).map_err(|error| Failure::file("create", log, &error))?;
    let errors = output.try_clone().map_err(|error| Failure::file("create", log, &error))?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let start = Instant::now();
    let child = command.spawn().map_err(|error| Failure::new(format!("cannot run {}: {error}", shown(command))))?;
    let (id, ended) = (child.id(), AtomicBool::new(false));
    let (wall, used, peak) = std::thread::scope(|scope| {
        let sampler = (memory == Memory::Sampled).then(|| scope.spawn(|| sample_memory(id, &ended)));
        let used = { child }.wait4();
        let wall = start.elapsed();
        ended.store(true, Ordering::Relaxed);
        (wall, used, sampler.map_or(0, |sampler| sampler.join().unwrap_or(0)))
    });
    let used = used.map_err(|error| Failure::new(format!("cannot wait for {}: {error}", shown(command))))?;
    if !used.status.success() {
        let output = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
        return Err(Failure { message: format!("`{}` failed: {}", abridged(command), used.status), output });
    }
    Ok(Sample { wall, processor: used.rusage.utime + used.rusage.stime, peak })
}

/// Maximum of all samples, in bytes.
pub fn peak(samples: &[Sample]) -> u64 {
    samples.iter().map(|sample| sample.peak).max().unwrap_or(0)
}

/// Whole mebibytes.
pub fn mebibytes(bytes: u64) -> u64 {
    bytes >> 20
}

fn sample_memory(process: u32, ended: &AtomicBool) -> u64 {
    let mut peak = 0;
    while !ended.load(Ordering::Relaxed) {
        peak = peak.max(descendants(process).into_iter().filter_map(memory).sum());
        std::thread::sleep(INTERVAL);
    }
    peak
}

/// A process and all that it started, as long as their parents live.
fn descendants(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(process) = found.get(next).copied() {
        next += 1;
        found.extend(children(process).unwrap_or_default().into_iter().filter(|child| *child != root));
    }
    found
}

/// The processes that the threads of a process started; reading this list is far cheaper than looking at every process.
fn children(process: u32) -> Option<Vec<u32>> {
    let threads = open(process)?.tasks().ok()?;
    Some(threads.flatten().filter_map(|thread| thread.children().ok()).flatten().collect())
}

/// Proportional set size in bytes; none for a process that has ended meanwhile.
fn memory(process: u32) -> Option<u64> {
    let rollup = open(process)?.smaps_rollup().ok()?.memory_map_rollup;
    rollup.into_iter().find_map(|map| map.extension.map.get("Pss").copied())
}

fn open(process: u32) -> Option<Process> {
    Process::new(process.try_into().ok()?).ok()
}

/// A command line of hundreds of objects, cut in its middle.
fn abridged(command: &Command) -> String {
    let line = shown(command);
    if line.len() <= 1000 {
        return line;
    }
    let (start, end) = (line.floor_char_boundary(700), line.ceil_char_boundary(line.len() - 200));
    format!("{} … {}", &line[..start], &line[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, memory: Memory) -> Result<Sample> {
        let folder = tempfile::tempdir().unwrap();
        run(Command::new("sh").args(["-c", script]), &folder.path().join("log"), memory)
    }

    #[test]
    fn memory_of_the_grandchildren_counts() {
        // sort, a child of the shell, holds 64 MiB until its own child ends.
        let script = "head -c 67108864 /dev/zero | { sort -S 80M | { sleep 1; cat; } } >/dev/null; true";
        let sample = shell(script, Memory::Sampled).unwrap();
        assert!(sample.peak > 64 << 20, "{sample:?}");
    }

    #[test]
    fn processor_time_of_the_grandchildren_counts() {
        let script = "(sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; true); true";
        let sample = shell(script, Memory::Ignored).unwrap();
        assert!(sample.processor > Duration::from_millis(10), "{sample:?}");
    }

    #[test]
    fn a_failure_keeps_what_was_printed() {
        let failure = shell("echo no luck; exit 3", Memory::Ignored).unwrap_err();
        assert_eq!(failure.output, "no luck\n");
        assert!(failure.message.contains("exit status: 3"), "{}", failure.message);
    }

    #[test]
    fn this_process_is_its_own_descendant() {
        assert!(descendants(std::process::id()).contains(&std::process::id()));
        assert!(memory(std::process::id()).unwrap() > 100_000);
    }
}
