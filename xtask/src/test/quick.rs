//! `cargo xtask test --quick`: what a change most often breaks, in a minute.

use super::tally::Tally;
use super::{Checker, format, programs};
use crate::dist;
use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::lit::lit;
use crate::repository::Repository;
use crate::setup;
use crate::step::{Progress, noted_step, step};

/// The lit tests that run in seconds, but for those of `SLOW`.
const FOLDERS: [&str; 2] = ["errors", "options"];
/// A regular expression: each of these tests links dozens of times.
const SLOW: &str = "errors/full-.*-disk|errors/unwritable-messages|errors/little-memory";
/// The module of unit tests that try all damage of a file.
const EXHAUSTIVE: &str = "::exhaustive::";

/// Stops at the first step that fails.
pub fn run(repository: &Repository) -> Result<()> {
    let toolchain = setup::install(repository)?;
    let environment = Environment::new(repository, &toolchain).with("PROPTEST_CASES", "64");
    let checker = Checker { repository, environment };
    step("cargo fmt --check", |progress| format(&checker, progress))?;
    step("build fatlink and offload-bundle for debugging", |progress| build(&checker, progress))?;
    noted_step("unit tests", |progress| unit_tests(&checker, progress), Tally::note)?;
    step("the lit tests of options and errors", |progress| lit_tests(&checker, progress))
}

fn build(checker: &Checker<'_>, progress: &Progress) -> Result<()> {
    let mut cargo = checker.cargo("build");
    cargo.args(["--locked", "--bins"]).args(dist::PROGRAMS.map(|(package, _)| format!("--package={package}")));
    progress.run(&mut cargo).map_err(|failure| failure.led_by("cargo build failed"))?;
    dist::link_debug_programs(checker.repository)
}

fn unit_tests(checker: &Checker<'_>, progress: &Progress) -> Result<Tally> {
    let mut programs = Vec::new();
    programs::build(checker, progress, &["--lib", "--bins"], &mut programs)?;
    let tally = programs::run_all(programs.iter().collect(), |program| {
        program.run(checker, progress, &["--skip".to_owned(), EXHAUSTIVE.to_owned()])
    })?;
    match tally.failed.is_empty() {
        true => Ok(tally),
        false => Err(Failure { message: format!("failed: {}", tally.failed.join(", ")), output: tally.output }),
    }
}

fn lit_tests(checker: &Checker<'_>, progress: &Progress) -> Result<()> {
    let repository = checker.repository;
    let scratch = repository.target.join("tmp/quick-lit");
    let mut lit = lit(&checker.environment, &[("scratch", &scratch)]);
    lit.env("FATLINK_DIST", dist::debug_dist(repository)).args(["--quiet", "--verbose", "--filter-out", SLOW]);
    lit.args(FOLDERS.map(|folder| repository.root.join("lit-tests/tests").join(folder)));
    let outcome = progress.run(&mut lit);
    outcome.map(drop).map_err(|failure| Failure { message: "lit tests failed".to_owned(), ..failure })
}
