//! Which steps and tests a run has, and how long it may take.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::failure::Result;
use crate::repository::write_file;

/// Why something of a run is not run.
pub const OVER: &str = "the time is used up (--budget)";

/// A step of `cargo xtask test`, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Step {
    Format,
    Build,
    Rust,
    Lit,
    /// Those of `lit-tests/environmental.txt`
    Environmental,
}

impl Step {
    /// Its name in reports.
    pub fn title(self) -> &'static str {
        match self {
            Step::Format => "cargo fmt --check",
            Step::Build => "build by clippy, warnings denied",
            Step::Rust => "Rust's tests",
            Step::Lit => "lit tests",
            Step::Environmental => "tests that depend on the machine, one at a time",
        }
    }

    /// Whether it runs tests.
    pub fn is_test(self) -> bool {
        self >= Step::Rust
    }
}

/// The options of a run.
#[derive(Debug, Clone, Args, PartialEq, Eq)]
pub struct Selection {
    /// Only these steps, and the builds that they need
    #[arg(long, value_enum, value_name = "STEP", value_delimiter = ',')]
    pub only: Vec<Step>,
    /// Only this step and the ones after it
    #[arg(long, value_enum, value_name = "STEP")]
    pub from: Option<Step>,
    /// With the programs as they are shipped, in dist/, instead of those of the dev profile
    #[arg(long)]
    pub shipped: bool,
    /// Only what failed in the last run
    #[arg(long)]
    pub failed: bool,
    /// What has not begun by then is not run, and the run is red; 80 by default, 600 with --stress
    #[arg(long, value_name = "MINUTES")]
    pub budget: Option<u64>,
}

/// A run that has begun.
pub struct Run {
    selection: Selection,
    /// What failed in the last run: titles of steps, and names of tests.
    failed_before: Vec<String>,
    /// Where that is kept.
    record: PathBuf,
    begin: Instant,
}

impl Run {
    /// Begins a run, which keeps its failures in the folder of what is built.
    pub fn begin(selection: &Selection, target: &Path) -> Self {
        let record = target.join("failed-tests.txt");
        let failed_before = std::fs::read_to_string(&record).unwrap_or_default().lines().map(str::to_owned).collect();
        Run { selection: selection.clone(), failed_before, record, begin: Instant::now() }
    }

    /// The steps of the run, in their order.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        Step::value_variants().iter().copied().filter(|step| self.has(*step))
    }

    /// Whether the step belongs to the run.
    fn has(&self, step: Step) -> bool {
        let Selection { only, from, failed, .. } = &self.selection;
        // No test runs without its program and those under test.
        let is_built = |tests: bool| step == Step::Build && tests;
        let is_named = only.is_empty() || only.contains(&step) || is_built(only.iter().any(|step| step.is_test()));
        let is_behind = from.is_none_or(|from| step >= from || is_built(from.is_test()));
        let failed_before = |step: Step| self.failed_before.iter().any(|name| name == step.title());
        let repeats_tests = || {
            self.tests().is_some() || Step::value_variants().iter().any(|step| step.is_test() && failed_before(*step))
        };
        let is_failed = !failed || failed_before(step) || is_built(repeats_tests());
        is_named && is_behind && is_failed
    }

    /// The tests to repeat, each alone.
    pub fn tests(&self) -> Option<Vec<String>> {
        let is_step = |name: &&String| Step::value_variants().iter().any(|step| step.title() == *name);
        let tests: Vec<String> = self.failed_before.iter().filter(|name| !is_step(name)).cloned().collect();
        (self.selection.failed && !tests.is_empty()).then_some(tests)
    }

    /// Whether the time is used up.
    pub fn is_over(&self) -> bool {
        const MINUTES: u64 = 80;
        let minutes = self.selection.budget.unwrap_or(MINUTES);
        self.begin.elapsed() >= Duration::from_secs(minutes.saturating_mul(60))
    }

    /// Keeps what failed for `--failed`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, failed: &[String]) -> Result<()> {
        write_file(&self.record, failed.iter().map(|name| format!("{name}\n")).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(selection: Selection, failed: &[&str]) -> Run {
        let failed_before = failed.iter().map(|name| (*name).to_owned()).collect();
        Run { selection, failed_before, record: PathBuf::new(), begin: Instant::now() }
    }

    fn usual() -> Selection {
        Selection { only: Vec::new(), from: None, shipped: false, failed: false, budget: None }
    }

    fn steps(run: &Run) -> Vec<Step> {
        run.steps().collect()
    }

    #[test]
    fn steps_are_selected() {
        assert_eq!(steps(&run(usual(), &[])).len(), 5);
        assert_eq!(steps(&run(Selection { only: vec![Step::Format], ..usual() }, &[])), [Step::Format]);
        let of_lit = [Step::Build, Step::Lit];
        assert_eq!(steps(&run(Selection { only: vec![Step::Lit], ..usual() }, &[])), of_lit);
        let from_lit = [Step::Build, Step::Lit, Step::Environmental];
        assert_eq!(steps(&run(Selection { from: Some(Step::Lit), ..usual() }, &[])), from_lit);
    }

    #[test]
    fn what_failed_is_repeated() {
        let failed = Selection { failed: true, ..usual() };
        let format = run(failed.clone(), &[Step::Format.title()]);
        assert_eq!((steps(&format), format.tests()), (vec![Step::Format], None));
        let test = run(failed.clone(), &["lit-tests::lit errors/a.test"]);
        assert_eq!(
            (steps(&test), test.tests()),
            (vec![Step::Build], Some(vec!["lit-tests::lit errors/a.test".to_owned()]))
        );
        let build = run(failed.clone(), &[Step::Build.title(), Step::Rust.title()]);
        assert_eq!(steps(&build), [Step::Build, Step::Rust]);
        assert!(steps(&run(failed, &[])).is_empty());
    }

    #[test]
    fn a_budget_ends() {
        assert!(!run(usual(), &[]).is_over());
        assert!(run(Selection { budget: Some(0), ..usual() }, &[]).is_over());
    }
}
