//! `cargo xtask test --quick`: what a change most often breaks, in a minute.

use super::programs::Built;
use super::selection::Step;
use super::tally::Tally;
use super::{Checker, format, programs};
use crate::failure::{Failure, Result};
use crate::lit::lit;
use crate::repository::Repository;
use crate::step::{Progress, noted_step, step};

/// The lit tests that run in seconds, but for those of `SLOW`.
const FOLDERS: [&str; 2] = ["errors", "options"];
/// A regular expression: each of these tests links dozens of times.
const SLOW: &str = "errors/full-.*-disk|errors/unwritable-messages|errors/little-memory";
/// The module of unit tests that try all damage of a file.
const EXHAUSTIVE: &str = "::exhaustive::";

/// Stops at the first step that fails.
pub fn run(repository: &Repository) -> Result<()> {
    let mut checker = Checker::new(repository, false)?;
    checker.environment = checker.environment.with("PROPTEST_CASES", "64");
    step("cargo fmt --check", |progress| format(&checker, progress))?;
    let mut built = Built::default();
    step(Step::Build.title(), |progress| programs::build(&checker, progress, &mut built))?;
    checker.lay_out(&built)?;
    noted_step("unit tests", |progress| unit_tests(&checker, &built, progress), Tally::note)?;
    step("the lit tests of options and errors", |progress| lit_tests(&checker, progress))
}

fn unit_tests(checker: &Checker, built: &Built, progress: &Progress) -> Result<Tally> {
    let programs = built.tests.iter().filter(|program| program.is_unit).collect();
    let tally = programs::run_all(programs, |program| {
        program.run(checker, progress, &["--skip".to_owned(), EXHAUSTIVE.to_owned()])
    })?;
    match tally.failed.is_empty() {
        true => Ok(tally),
        false => Err(Failure { message: format!("failed: {}", tally.failed.join(", ")), output: tally.output }),
    }
}

fn lit_tests(checker: &Checker, progress: &Progress) -> Result<()> {
    let repository = &checker.repository;
    let scratch = repository.target.join("tmp/quick-lit");
    let mut lit = lit(&checker.environment, &[("scratch", &scratch)]);
    lit.env("FATLINK_DIST", repository.dist()).args(["--quiet", "--verbose", "--filter-out", SLOW]);
    lit.args(FOLDERS.map(|folder| repository.root.join("lit-tests/tests").join(folder)));
    let outcome = progress.run(&mut lit);
    outcome.map(drop).map_err(|failure| Failure { message: "lit tests failed".to_owned(), ..failure })
}
