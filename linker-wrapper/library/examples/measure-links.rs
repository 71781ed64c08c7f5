//! Measures links of the library beside those of the program, with samples that clang has compiled:
//!
//! ```text
//! measure-links speed PROGRAM CUDA PAIRS FILE...
//! measure-links many PROGRAM CUDA COUNT THREADS FILE...
//! measure-links cancel PROGRAM CUDA COUNT FILE...
//! ```
//!
//! `speed` runs pairs of links in turn and prints medians in milliseconds. `many` runs that many links in this one process, compares each
//! image with the first, and prints the memory of the process on the way. `cancel` cancels links at moments that are spread over their
//! duration, and prints how long each took to end, and what was left.
#![allow(clippy::print_stdout, reason = "an example program")]

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fatlink::{Cancellation, Error, Link, Linker};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["speed", program, cuda, pairs, ref files @ ..] => speed(program, cuda, pairs, files),
        ["many", program, cuda, count, threads, ref files @ ..] => many(program, cuda, [count, threads], files),
        ["cancel", program, cuda, count, ref files @ ..] => cancel(program, cuda, count, files),
        _ => Err("usage: measure-links speed|many|cancel PROGRAM CUDA NUMBER... FILE...".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// LLVM's programs, of which ld.lld links for AMD's GPUs.
const LLVM: &str = "/usr/lib/llvm-22/bin";

fn linker(program: &str, cuda: &str) -> Linker {
    Linker::at(program).cuda(cuda).variable("PATH", LLVM)
}

/// A link of the contents of these files.
fn link_of(files: &[&str]) -> Outcome<Link> {
    let mut link = Link::new();
    for file in files {
        link = link.unit(std::fs::read(file)?, *file);
    }
    Ok(link)
}

fn speed(program: &str, cuda: &str, pairs: &str, files: &[&str]) -> Outcome<()> {
    let link = link_of(files)?;
    let (ready, plain) = (linker(program, cuda).ahead(1), linker(program, cuda));
    ready.prepare()?;
    let folder = tempfile::tempdir()?;
    let output: PathBuf = folder.path().join("program");
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..pairs.parse()? {
        let mut command = Command::new(program);
        command.arg(format!("--cuda-path={cuda}")).arg("--linker-path=/bin/true").args(files).arg("-o").arg(&output);
        pause();
        let start = Instant::now();
        let status = command.env("PATH", LLVM).stdin(Stdio::null()).status()?;
        times[0].push(start.elapsed());
        if !status.success() {
            return Err(format!("the program failed: {status}").into());
        }
        pause();
        let start = Instant::now();
        plain.run(&link)?;
        times[1].push(start.elapsed());
        pause();
        let start = Instant::now();
        ready.run(&link)?;
        times[2].push(start.elapsed());
    }
    let names = ["the program, --linker-path=/bin/true", "the library", "the library, one process ahead"];
    let base = median(&mut times[0]);
    for (name, times) in names.iter().zip(&mut times) {
        let median = median(times);
        println!("{name}: {:.1} ms ({:.2})", median * 1e3, median / base);
    }
    Ok(())
}

/// The time between links, in which the process for the next one prepares itself.
fn pause() {
    std::thread::sleep(Duration::from_millis(200));
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, Duration::as_secs_f64)
}

fn many(program: &str, cuda: &str, [count, threads]: [&str; 2], files: &[&str]) -> Outcome<()> {
    let (count, threads): (usize, usize) = (count.parse()?, threads.parse()?);
    let linker = linker(program, cuda);
    let link = link_of(files)?;
    let first = linker.run(&link)?;
    let next = AtomicUsize::new(1);
    let start = Instant::now();
    let run_all = || -> Result<usize, Error> {
        let mut different = 0;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return Ok(different);
            }
            let linked = linker.run(&link)?;
            different += usize::from(linked != first);
            if index.is_multiple_of((count / 10).max(1)) {
                println!("{index} links, {} KiB resident, {} open files", resident()?, open_files()?);
            }
        }
    };
    let different = std::thread::scope(|scope| -> Outcome<usize> {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run_all)).collect();
        let mut all = 0;
        for thread in running {
            all += thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok(all)
    })?;
    println!(
        "{count} links in {:.1} s, {different} different, {} KiB resident",
        start.elapsed().as_secs_f64(),
        resident()?
    );
    if different == 0 { Ok(()) } else { Err("links differ".into()) }
}

/// The resident memory of this process in KiB.
fn resident() -> Result<u64, Error> {
    let of = |source| Error::File { path: "/proc/self/status".into(), source };
    let status = std::fs::read_to_string("/proc/self/status").map_err(of)?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    Ok(line.trim().trim_end_matches(" kB").parse().unwrap_or_default())
}

fn open_files() -> Result<usize, Error> {
    let of = |source| Error::File { path: "/proc/self/fd".into(), source };
    Ok(std::fs::read_dir("/proc/self/fd").map_err(of)?.count())
}

fn cancel(program: &str, cuda: &str, count: &str, files: &[&str]) -> Outcome<()> {
    let temporary = tempfile::tempdir()?;
    let linker = linker(program, cuda).temporary_files_in(temporary.path());
    let start = Instant::now();
    linker.run(&link_of(files)?)?;
    let (duration, count): (Duration, u32) = (start.elapsed(), count.parse()?);
    let (mut times, mut left) = (Vec::new(), 0);
    for index in 0..count {
        let cancellation = Cancellation::new()?;
        let link = link_of(files)?.cancelled_by(&cancellation);
        let took = std::thread::scope(|scope| {
            let running = scope.spawn(|| (linker.run(&link).is_err(), Instant::now()));
            std::thread::sleep(duration * index / count);
            let start = Instant::now();
            cancellation.cancel();
            running.join().map(|(is_cancelled, end)| is_cancelled.then(|| end.saturating_duration_since(start)))
        });
        times.extend(took.map_err(|_| "a thread panicked")?);
        left += std::fs::read_dir(temporary.path())?.count() + children()?;
    }
    let most = times.iter().max().copied().unwrap_or_default();
    println!(
        "{} of {count} cancelled, median {:.1} ms, at most {:.1} ms; {left} files and processes left",
        times.len(),
        median(&mut times) * 1e3,
        most.as_secs_f64() * 1e3
    );
    Ok(())
}

/// How many children this process has.
fn children() -> std::io::Result<usize> {
    let own = std::process::id().to_string();
    let lists = std::fs::read_dir(format!("/proc/{own}/task"))?.flatten().map(|task| task.path().join("children"));
    Ok(lists.filter_map(|list| std::fs::read_to_string(list).ok()).map(|list| list.split_whitespace().count()).sum())
}
