//! `cargo xtask test`: every test that can run on this machine. A missing tool is a failure, never a skip.

pub mod quick;

use std::ffi::{OsStr, OsString};
use std::process::Command;

use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::llvm_release::LlvmRelease;
use crate::repository::Repository;
use crate::step::{Progress, noted_step, step};
use crate::toolchain::remove_folder;
use crate::{dist, setup};

struct Checker<'a> {
    repository: &'a Repository,
    environment: Environment,
}

/// Stops at the first step that fails.
pub fn run(repository: &Repository) -> Result<()> {
    let toolchain = setup::install(repository)?;
    let checker = Checker { repository, environment: Environment::new(repository, &toolchain) };
    // The quick ones first. The tests themselves come last, after the build of dist/, which lit tests use: they see the
    // programs as they are shipped, while unit tests run with the overflow checks of the dev profile.
    step("cargo fmt --check", |progress| format(&checker, progress))?;
    step("cargo clippy, warnings denied", |progress| clippy(&checker, progress))?;
    step("cargo doc, warnings denied", |progress| doc(&checker, progress))?;
    dist::build(repository, &toolchain, LlvmRelease::default())?;
    let test = |progress: &Progress| cargo_test(&checker, progress);
    let counted = noted_step("cargo test, all packages and the lit tests", test, Tally::note)?;
    // Test harnesses parse this line.
    println!("{} passed, 0 failed, {} skipped", counted.passed, counted.ignored);
    Ok(())
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

fn cargo_test(checker: &Checker, progress: &Progress) -> Result<Tally> {
    let mut cargo = checker.cargo("test");
    cargo.args(["--workspace", "--locked", "--no-fail-fast"]).env("FATLINK_DIST", checker.repository.dist());
    match progress.run(&mut cargo) {
        Ok(output) => Ok(Tally::of(&output)),
        Err(failure) => Err(cargo_failure(failure)),
    }
}

/// The results of all test programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: usize,
    ignored: usize,
}

impl Tally {
    fn of(output: &str) -> Self {
        let total = |word: &str| -> usize {
            let results = output.lines().filter_map(|line| line.strip_prefix("test result: "));
            let counts =
                results.flat_map(|result| result.split([';', '.'])).filter_map(|part| part.trim().strip_suffix(word));
            counts.filter_map(|count| count.trim().parse::<usize>().ok()).sum()
        };
        Tally { passed: total("passed"), ignored: total("ignored") }
    }

    fn note(&self) -> String {
        match self.ignored {
            0 => format!("{} passed", self.passed),
            ignored => format!("{} passed, {ignored} left out because they need a GPU", self.passed),
        }
    }
}

/// Names the tests that failed.
fn cargo_failure(failure: Failure) -> Failure {
    let failed = |line: &str| Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.trim().to_owned());
    let names: Vec<String> = failure.output.lines().filter_map(failed).collect();
    let message = match names.len() {
        0 => return failure.led_by("cargo test failed"),
        1 => format!("a test failed: {}", names[0]),
        count => format!("{count} tests failed: {}", names.join(", ")),
    };
    Failure { message, output: failure.output }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "test a::b ... ok\ntest   c.test  ... FAILED\n\
        test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.05s\n\
        test result: FAILED. 4 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.05s\n";

    #[test]
    fn results_are_added_up() {
        assert_eq!(Tally::of(OUTPUT), Tally { passed: 7, ignored: 2 });
        assert_eq!(Tally::of(OUTPUT).note(), "7 passed, 2 left out because they need a GPU");
    }

    #[test]
    fn failed_tests_are_named() {
        let failure = Failure { message: "exit status: 101".into(), output: OUTPUT.into() };
        assert_eq!(cargo_failure(failure).message, "a test failed: c.test");
        let failure =
            Failure { message: "exit status: 101".into(), output: "error: expected `;`\nerror: done\n".into() };
        assert_eq!(cargo_failure(failure).message, "cargo test failed: expected `;`");
    }
}
