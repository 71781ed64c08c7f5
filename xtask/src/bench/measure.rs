//! One run of a program: how long, how much processor time, how much memory in all its processes.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::failure::{Failure, Result};
use crate::step::shown;

/// How often the memory is looked at.
const STEP: Duration = Duration::from_millis(20);

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub wall: Duration,
    /// Of the program and all that it started and waited for; the kernel counts it in steps of 10 ms.
    pub processor: Duration,
    /// Greatest sum over all its processes at one moment, in bytes; 0 where nobody looked. Memory that several
    /// processes share is counted once (the kernel's proportional set size).
    pub peak: u64,
}

/// Whether to look at the memory meanwhile, which costs a few per cent of one core.
#[derive(Clone, Copy, PartialEq)]
pub enum Memory {
    Sampled,
    Ignored,
}

/// Runs a command that must succeed; what it prints is kept in `log` for the error.
pub fn run(command: &mut Command, log: &Path, memory: Memory) -> Result<Sample> {
    let open = || std::fs::File::create(log).map_err(|error| Failure::file("create", log, &error));
    let output = open()?;
    let errors = output.try_clone().map_err(|error| Failure::file("create", log, &error))?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let before = children_time();
    let start = Instant::now();
    let mut child = command.spawn().map_err(|error| Failure::new(format!("cannot run {}: {error}", shown(command))))?;
    let peak = match memory {
        Memory::Sampled => watch(&mut child),
        Memory::Ignored => 0,
    };
    let status = child.wait().map_err(|error| Failure::new(format!("cannot wait for {}: {error}", shown(command))))?;
    let wall = start.elapsed();
    if !status.success() {
        let output = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
        return Err(Failure { message: format!("`{}` failed: {status}", abridged(command)), output });
    }
    Ok(Sample { wall, processor: children_time().saturating_sub(before), peak })
}

/// Looks at the memory until the child ends.
fn watch(child: &mut Child) -> u64 {
    let mut peak = 0;
    while let Ok(None) = child.try_wait() {
        peak = peak.max(descendants(child.id()).into_iter().map(memory).sum());
        std::thread::sleep(STEP);
    }
    peak
}

/// A process and all that it started, as long as their parents live.
fn descendants(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(process) = found.get(next).copied() {
        next += 1;
        found.extend(children(process).into_iter().filter(|child| *child != root));
    }
    found
}

/// What the threads of a process started; asking the kernel for it is far cheaper than looking at every process.
fn children(process: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<_>>()).collect()
}

/// The fields behind the program's name, which may hold anything: the state is the first of them.
fn after_name(stat: &str) -> Option<Vec<&str>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace().collect())
}

/// Bytes; 0 for a process that has ended meanwhile.
fn memory(process: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    rollup.lines().find_map(|line| line.strip_prefix("Pss:")).map_or(0, kilobytes)
}

fn kilobytes(field: &str) -> u64 {
    field.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

/// User and system time of all children that have been waited for, and of theirs.
fn children_time() -> Duration {
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = after_name(&stat).unwrap_or_default();
    let ticks: u64 = [13, 14].iter().filter_map(|index| fields.get(*index)?.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

/// A command line of hundreds of objects, cut in its middle.
fn abridged(command: &Command) -> String {
    let line = shown(command);
    let cut = |index: usize| (0..=index).rev().find(|index| line.is_char_boundary(*index)).unwrap_or(0);
    if line.len() <= 1000 { line } else { format!("{} … {}", &line[..cut(700)], &line[cut(line.len() - 200)..]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("xtask-measure-{}-{name}", std::process::id()))
    }

    #[test]
    fn memory_of_the_grandchildren_counts() {
        // The shell's own child holds 64 MiB until the shell ends.
        let script = "head -c 67108864 /dev/zero | { sort -S 80M | { sleep 1; cat; } } >/dev/null; true";
        let log = log("memory");
        let sample = run(Command::new("sh").args(["-c", script]), &log, Memory::Sampled).unwrap();
        assert!(sample.peak > 64 << 20, "{sample:?}");
        std::fs::remove_file(&log).unwrap();
    }

    #[test]
    fn a_failure_keeps_what_was_printed() {
        let log = log("failure");
        let failure = run(Command::new("sh").args(["-c", "echo no luck; exit 3"]), &log, Memory::Ignored).unwrap_err();
        assert_eq!(failure.output, "no luck\n");
        assert!(failure.message.contains("exit status: 3"), "{}", failure.message);
        std::fs::remove_file(&log).unwrap();
    }

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        assert_eq!(after_name("12 (a) b) S 1 12 12 0").unwrap()[..3], ["S", "1", "12"]);
    }

    #[test]
    fn this_process_is_its_own_descendant() {
        assert!(descendants(std::process::id()).contains(&std::process::id()));
        assert!(memory(std::process::id()) > 100_000);
    }
}
