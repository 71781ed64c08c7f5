//! Counts instructions by valgrind: the count is the same on a busy machine and needs no access to the processor's counters.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::bench::remove;
use xtask::failure::{Failure, Result};
use xtask::repository::{create_folder, files_in, name_of};
use xtask::step::Progress;

/// How the process of a command ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    Exit,
    /// Another program takes its place.
    Exec,
}

/// Runs a command and returns the number of instructions of its own process, with all threads and without the tools that it
/// starts.
///
/// Cachegrind has no result for a process that another program replaces. Callgrind takes five times as long, but can write its
/// counts before each `execve`, to files named `out.PID.NUMBER`.
pub fn count(command: &Command, end: End, folder: &Path, progress: &Progress) -> Result<f64> {
    remove(folder)?;
    create_folder(folder)?;
    let mut valgrind = Command::new("valgrind");
    match end {
        End::Exit => valgrind.args(["--tool=cachegrind", "--cache-sim=no"]),
        End::Exec => valgrind.args(["--tool=callgrind", "--dump-before=execve"]),
    };
    let tool = if end == End::Exit { "cachegrind" } else { "callgrind" };
    valgrind.arg("--trace-children=no").arg(format!("--{tool}-out-file={}/out.%p", folder.display()));
    valgrind.arg(format!("--log-file={}/log.%p", folder.display()));
    valgrind.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => valgrind.env(name, value),
            None => valgrind.env_remove(name),
        };
    }
    progress.run(&mut valgrind).map_err(|failure| {
        let hint = "counting instructions needs valgrind: apt-get install valgrind";
        Failure { message: format!("{}\n{hint}", failure.message), ..failure }
    })?;
    // The processes that it forked have files, too, up to their execve; its own number is the lowest.
    let mut totals = BTreeMap::<u32, u64>::new();
    for path in files_in(folder)? {
        let Some(process) = process_of(&name_of(&path)) else { continue };
        let text = std::fs::read(&path).map_err(|error| Failure::file("read", &path, &error))?;
        *totals.entry(process).or_default() += total(&String::from_utf8_lossy(&text));
    }
    let (_, total) = totals.first_key_value().ok_or_else(|| Failure::new("valgrind wrote no counts"))?;
    #[allow(clippy::cast_precision_loss)]
    Ok(*total as f64)
}

/// `out.12.1` is of process 12.
fn process_of(name: &str) -> Option<u32> {
    name.strip_prefix("out.")?.split('.').next()?.parse().ok()
}

/// The instructions in one of valgrind's files; one that was not finished has none.
fn total(file: &str) -> u64 {
    let counts = file.lines().filter_map(|line| line.strip_prefix("summary: "));
    counts.filter_map(|count| count.trim().parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_from_all_parts() {
        assert_eq!((process_of("out.12"), process_of("out.12.3"), process_of("log.12")), (Some(12), Some(12), None));
        assert_eq!(total("version: 1\nsummary: 7\nfn=(1)\n1 7\ntotals: 7\n"), 7);
        assert_eq!(total(""), 0);
    }
}
