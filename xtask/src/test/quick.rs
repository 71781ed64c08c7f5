//! `cargo xtask test --quick`: what a change most often breaks, in a minute.

use super::{Checker, Tally, clippy, format, lit};
use crate::dist;
use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::repository::Repository;
use crate::setup;
use crate::step::{Progress, in_parallel, noted_step, step};

/// The lit tests that run in seconds.
const FOLDERS: [&str; 2] = ["errors", "options"];

/// Stops at the first step that fails.
pub fn run(repository: &Repository) -> Result<()> {
    let toolchain = setup::install(repository)?;
    let checker = Checker { repository, environment: Environment::new(repository, &toolchain) };
    step("cargo fmt --check", |progress| format(&checker, progress))?;
    step("build fatlink and offload-bundle for debugging", |progress| build(&checker, progress))?;
    noted_step("unit tests", |progress| unit_tests(&checker, progress), Tally::note)?;
    let checks: Vec<fn(&Checker<'_>, &Progress) -> Result<()>> = vec![lit_tests, clippy];
    step("cargo clippy, and the lit tests of options and errors", |progress| {
        in_parallel(checks, |check| check(&checker, progress))
    })
}

fn build(checker: &Checker<'_>, progress: &Progress) -> Result<()> {
    let mut cargo = checker.cargo("build");
    cargo.args(["--locked", "--bins"]).args(dist::PROGRAMS.map(|(package, _)| format!("--package={package}")));
    progress.run(&mut cargo).map_err(|failure| failure.led_by("cargo build failed"))?;
    dist::link_debug_programs(checker.repository)
}

fn unit_tests(checker: &Checker<'_>, progress: &Progress) -> Result<Tally> {
    let mut cargo = checker.cargo("test");
    cargo.args(["--workspace", "--locked", "--no-fail-fast", "--lib", "--bins"]).env("PROPTEST_CASES", "64");
    progress.run(&mut cargo).map(|output| Tally::of(&output)).map_err(cargo_failure)
}

/// By lit itself: cargo would wait until clippy has ended.
fn lit_tests(checker: &Checker<'_>, progress: &Progress) -> Result<()> {
    let repository = checker.repository;
    let scratch = repository.target.join("tmp/quick-lit");
    let mut lit = lit(&checker.environment, &[("scratch", &scratch)]);
    lit.env("FATLINK_DIST", dist::debug_dist(repository)).args(["--quiet", "--verbose"]);
    lit.args(FOLDERS.map(|folder| repository.root.join("lit-tests/tests").join(folder)));
    let outcome = progress.run(&mut lit);
    outcome.map(drop).map_err(|failure| Failure { message: "lit tests failed".to_owned(), ..failure })
}

/// Names the tests that failed.
fn cargo_failure(failure: Failure) -> Failure {
    let names = Tally::of(&failure.output).failed;
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

    #[test]
    fn failed_tests_are_named() {
        let output = "test a::b ... ok\ntest   c.test  ... FAILED\n";
        let failure = Failure { message: "exit status: 101".into(), output: output.into() };
        assert_eq!(cargo_failure(failure).message, "a test failed: c.test");
        let failure =
            Failure { message: "exit status: 101".into(), output: "error: expected `;`\nerror: done\n".into() };
        assert_eq!(cargo_failure(failure).message, "cargo test failed: expected `;`");
    }
}
