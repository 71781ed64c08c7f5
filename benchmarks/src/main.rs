//! `cargo xtask bench`: fatlink against LLVM's own linker wrapper or another build of itself, in one run on one machine.
//!
//! The corpora are generated and compiled once ([`corpus`]). Each case ([`cases`]) links them with both linkers in turn, so
//! that a machine whose speed drifts affects both alike, measures time and memory of all processes ([`measure`]), and compares
//! the machine code kernel by kernel ([`code`]), because a linker that loses kernels is fast. [`builds`] compares two builds
//! of fatlink: by time, by instructions, or by the bytes of the images.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command for a developer's terminal")]

mod arguments;
mod bench;
mod builds;
mod cases;
mod code;
mod corpus;
mod link;
mod measure;
mod pack;
mod report;
mod statistics;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Selection, Subcommand};
use bench::Bench;
use cases::Case;
use corpus::{Compiler, Corpus};
use xtask::failure::{Failure, Result};
use xtask::repository::Repository;
use xtask::setup;
use xtask::step::{self, noted_step, step};

fn main() -> ExitCode {
    match Repository::find().and_then(|repository| run(&repository, &Arguments::parse())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(repository: &Repository, arguments: &Arguments) -> Result<()> {
    let selection = &arguments.selection;
    if selection.brief {
        step::be_quiet();
    }
    if let Some(Subcommand::CompareImages(comparison)) = &arguments.subcommand {
        return builds::images::compare(&mut Bench::prepare(repository, comparison.dist.as_deref())?, comparison);
    }
    if let Some(corpus) = arguments.objects {
        return compile_objects(repository, corpus);
    }
    let mut bench = Bench::prepare(repository, selection.dist.as_deref())?;
    if let Some(file) = &arguments.pack {
        return write_pack(&bench, file);
    }
    bench.rounds = selection.rounds.map(usize::from);
    if let Some(baseline) = &selection.against {
        return builds::compare(&mut bench, baseline, selection);
    }
    run_cases(repository, &mut bench, selection)
}

fn run_cases(repository: &Repository, bench: &mut Bench, selection: &Selection) -> Result<()> {
    let mut missed = Vec::new();
    for case in cases::chosen(&selection.cases) {
        let outcome = match measured(case, bench) {
            Ok(outcome) => outcome,
            Err(failure) => {
                eprintln!("{failure}");
                missed.push(format!("{}: failed", case.name));
                continue;
            }
        };
        if selection.brief {
            println!("{}: {}", case.name, outcome.brief);
        } else {
            report::keep(&bench.folder, case, &outcome, bench.rounds)?;
        }
        missed.extend(outcome.missed.iter().map(|goal| format!("{}: {goal}", case.name)));
    }
    if !selection.brief {
        report::write(repository, &bench.folder)?;
        println!("  written to docs/benchmarks.md");
    }
    if missed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("goals missed (the machine may be busy):\n  {}", missed.join("\n  "))))
}

fn measured(case: &Case, bench: &mut Bench) -> Result<cases::Outcome> {
    noted_step(case.name, |progress| case.run(bench, progress), |outcome| outcome.brief.clone())
}

/// `--pack`
fn write_pack(bench: &Bench, file: &Path) -> Result<()> {
    let note = |bytes: &u64| format!("{} MiB", measure::mebibytes(*bytes));
    noted_step(&format!("write {}", file.display()), |progress| pack::write(bench, progress, file), note).map(drop)
}

/// `--objects`
fn compile_objects(repository: &Repository, corpus: Corpus) -> Result<()> {
    let compiler = Compiler::new(repository, &setup::install(repository)?, &bench::folder(repository));
    let objects = step("compile the corpus", |progress| corpus.objects(&compiler, progress))?;
    objects.iter().for_each(|object| println!("{}", object.display()));
    Ok(())
}
