//! `cargo xtask test`: every test that can run on this machine. A missing tool is a failure, never a skip.

pub mod quick;
mod report;
pub mod selection;

use std::ffi::{OsStr, OsString};
use std::process::Command;

use clap::ValueEnum;

use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::llvm_release::LlvmRelease;
use crate::repository::Repository;
use crate::step::{Progress, noted_step, step};
use crate::toolchain::remove_folder;
use crate::{dist, setup};
use report::{Report, Tally, has_dead_program, output_of_failed};
use selection::{Run, Selection, Step};

struct Checker<'a> {
    repository: &'a Repository,
    environment: Environment,
}

/// Runs every step of the selection, whatever failed before, and returns whether all passed.
pub fn run(repository: &Repository, selection: &Selection) -> Result<bool> {
    let toolchain = setup::install(repository)?;
    let checker = Checker { repository, environment: Environment::new(repository, &toolchain) };
    let run = Run::begin(selection, &repository.target);
    let mut report = Report::default();
    // The quick ones first. The tests themselves come last, after the build of dist/, which lit tests use: they see the
    // programs as they are shipped, while unit tests run with the overflow checks of the dev profile.
    let mut has_programs = true;
    for step_of_run in Step::value_variants().iter().copied().filter(|step| run.has(*step)) {
        let title = step_of_run.title();
        match step_of_run {
            _ if run.is_over() => report.not_run(title, "the time is used up (--budget)"),
            Step::Format => _ = report.step(title, || step(title, |progress| format(&checker, progress))),
            Step::Clippy => _ = report.step(title, || step(title, |progress| clippy(&checker, progress))),
            Step::Doc => _ = report.step(title, || step(title, |progress| doc(&checker, progress))),
            Step::Dist => {
                has_programs = report.step(title, || dist::build(repository, &toolchain, LlvmRelease::default()));
            }
            Step::Tests if !has_programs => report.not_run(title, "there are no programs to test"),
            Step::Tests => {
                let test = |progress: &Progress| match run.tests() {
                    Some(names) => tests_alone(&checker, &names, progress),
                    None => cargo_test(&checker, progress),
                };
                report.tests(title, || noted_step(title, test, |(tally, _)| tally.note()));
            }
        }
    }
    let failed = report.finish();
    run.keep(&failed)?;
    Ok(failed.is_empty())
}

impl Checker<'_> {
    fn cargo(&self, subcommand: &str) -> Command {
        let mut cargo = self.repository.cargo(subcommand);
        self.environment.apply(&mut cargo);
        cargo
    }
}

/// `cargo xtask test --big`: programs with gigabytes of device code.
pub fn big(repository: &Repository) -> Result<()> {
    let toolchain = setup::install(repository)?;
    dist::build(repository, &toolchain, LlvmRelease::default())?;
    let scratch = repository.target.join("big");
    step("link programs with 2.3 GB of device code", |progress| {
        let mut lit = lit(&Environment::new(repository, &toolchain), &[("scratch", &scratch)]);
        lit.env("FATLINK_DIST", repository.dist()).args(["--quiet", "--verbose"]);
        let outcome = progress.run(lit.arg(repository.root.join("lit-tests/big")));
        remove_folder(&scratch)?;
        outcome.map(drop).map_err(|failure| Failure { message: "lit tests failed".to_owned(), ..failure })
    })
}

/// lit, with values for its configuration.
pub fn lit(environment: &Environment, parameters: &[(&str, &dyn AsRef<OsStr>)]) -> Command {
    let mut lit = Command::new("lit");
    environment.apply(&mut lit);
    for (name, value) in parameters {
        let mut word = OsString::from(format!("{name}="));
        word.push(value);
        lit.arg("--param").arg(word);
    }
    lit
}

fn format(checker: &Checker, progress: &Progress) -> Result<()> {
    let outcome = progress.run(checker.cargo("fmt").args(["--all", "--", "--check", "--files-with-diff"]));
    outcome.map(drop).map_err(|failure| Failure {
        message: "these files are not formatted: run `cargo fmt --all`".to_owned(),
        output: failure.output,
    })
}

fn clippy(checker: &Checker, progress: &Progress) -> Result<()> {
    let arguments = ["--workspace", "--all-targets", "--locked", "--", "--deny=warnings"];
    let outcome = progress.run(checker.cargo("clippy").args(arguments));
    outcome.map(drop).map_err(|failure| failure.led_by("clippy complains"))
}

fn doc(checker: &Checker, progress: &Progress) -> Result<()> {
    // The library of fatlink has one public item.
    for scope in [&["--workspace"][..], &["--package=linker-wrapper", "--document-private-items"]] {
        let mut cargo = checker.cargo("doc");
        cargo.args(["--no-deps", "--locked"]).args(scope).env("RUSTDOCFLAGS", "--deny=warnings");
        progress.run(&mut cargo).map_err(|failure| failure.led_by("rustdoc complains"))?;
    }
    Ok(())
}

/// Runs all tests, and those that fail once more, each alone. Returns also the output of what failed.
fn cargo_test(checker: &Checker<'_>, progress: &Progress) -> Result<(Tally, String)> {
    let mut cargo = test_command(checker);
    let (status, output) = progress.status(cargo.args(["--workspace", "--no-fail-fast"]))?;
    let mut tally = Tally::of(&output);
    if !status.success() && (tally.failed.is_empty() || has_dead_program(&output)) {
        return Err(Failure { message: String::new(), output }.led_by("cargo test failed"));
    }
    let mut failed = output_of_failed(&output);
    // A broken program fails many tests; these are not a matter of the machine's load.
    const MOST_REPEATED: usize = 10;
    if tally.failed.len() <= MOST_REPEATED {
        for name in tally.failed.clone() {
            let (status, output) = progress.status(&mut repetition(checker, &name))?;
            match status.success() && Tally::of(&output).passed == 1 {
                true => tally.passed_again(&name),
                false => failed += &output_of_failed(&output),
            }
        }
    }
    Ok((tally, failed))
}

/// Runs these tests, each alone.
fn tests_alone(checker: &Checker<'_>, names: &[String], progress: &Progress) -> Result<(Tally, String)> {
    let (mut tally, mut said) = (Tally::default(), String::new());
    for name in names {
        let (status, output) = progress.status(&mut repetition(checker, name))?;
        match status.success() && Tally::of(&output).passed == 1 {
            true => tally.passed += 1,
            false => {
                tally.failed.push(name.clone());
                said += &output_of_failed(&output);
            }
        }
    }
    Ok((tally, said))
}

fn test_command(checker: &Checker<'_>) -> Command {
    let mut cargo = checker.cargo("test");
    cargo.arg("--locked").env("FATLINK_DIST", checker.repository.dist());
    cargo
}

/// The command that runs one test alone.
fn repetition(checker: &Checker<'_>, name: &str) -> Command {
    let mut cargo = test_command(checker);
    match name.ends_with(".test") {
        true => cargo.args(["--package=lit-tests", "--test=lit"]),
        false => cargo.args(["--workspace", "--exclude=lit-tests", "--no-fail-fast"]),
    };
    cargo.args(["--", "--exact", name]);
    cargo
}
