//! Which steps and tests a run has, and how long it may take.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::failure::Result;
use crate::repository::write_file;

/// A step of `cargo xtask test`, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Step {
    Format,
    Clippy,
    Doc,
    Dist,
    Tests,
}

impl Step {
    /// Its name in reports.
    pub fn title(self) -> &'static str {
        match self {
            Step::Format => "cargo fmt --check",
            Step::Clippy => "cargo clippy, warnings denied",
            Step::Doc => "cargo doc, warnings denied",
            Step::Dist => "build of dist/",
            Step::Tests => "cargo test, all packages and the lit tests",
        }
    }
}

/// The options of a run.
#[derive(Debug, Clone, Args, PartialEq, Eq)]
pub struct Selection {
    /// Only these steps
    #[arg(long, value_enum, value_name = "STEP", value_delimiter = ',')]
    pub only: Vec<Step>,
    /// Only this step and the ones after it
    #[arg(long, value_enum, value_name = "STEP")]
    pub from: Option<Step>,
    /// Only what failed in the last run
    #[arg(long)]
    pub failed: bool,
    /// What has not begun by then is not run, and the run is red
    #[arg(long, value_name = "MINUTES", default_value_t = 80)]
    pub budget: u64,
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

    /// Whether the step belongs to the run.
    pub fn has(&self, step: Step) -> bool {
        let Selection { only, from, failed, .. } = &self.selection;
        let failed_before = || match step {
            // The programs have to be there.
            Step::Dist | Step::Tests => {
                self.failed_before.iter().any(|name| is_of(name, step)) || self.tests().is_some()
            }
            _ => self.failed_before.iter().any(|name| is_of(name, step)),
        };
        let is_named = only.is_empty() || only.contains(&step);
        is_named && from.is_none_or(|from| step >= from) && (!failed || failed_before())
    }

    /// The tests to run alone; all if there is no list.
    pub fn tests(&self) -> Option<Vec<String>> {
        let is_step = |name: &&String| Step::value_variants().iter().any(|step| step.title() == *name);
        let tests: Vec<String> = self.failed_before.iter().filter(|name| !is_step(name)).cloned().collect();
        (self.selection.failed && !tests.is_empty()).then_some(tests)
    }

    /// Whether the time is used up.
    pub fn is_over(&self) -> bool {
        self.begin.elapsed() >= Duration::from_secs(self.selection.budget.saturating_mul(60))
    }

    /// Keeps what failed for `--failed`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, failed: &[String]) -> Result<()> {
        write_file(&self.record, failed.iter().map(|name| format!("{name}\n")).collect::<String>())
    }
}

fn is_of(name: &str, step: Step) -> bool {
    name == step.title()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(selection: Selection, failed: &[&str]) -> Run {
        let failed_before = failed.iter().map(|name| (*name).to_owned()).collect();
        Run { selection, failed_before, record: PathBuf::new(), begin: Instant::now() }
    }

    fn usual() -> Selection {
        Selection { only: Vec::new(), from: None, failed: false, budget: 80 }
    }

    fn steps(run: &Run) -> Vec<Step> {
        Step::value_variants().iter().copied().filter(|step| run.has(*step)).collect()
    }

    #[test]
    fn steps_are_selected() {
        assert_eq!(steps(&run(usual(), &[])).len(), 5);
        assert_eq!(steps(&run(Selection { only: vec![Step::Doc], ..usual() }, &[])), [Step::Doc]);
        assert_eq!(steps(&run(Selection { from: Some(Step::Dist), ..usual() }, &[])), [Step::Dist, Step::Tests]);
    }

    #[test]
    fn what_failed_is_repeated() {
        let failed = Selection { failed: true, ..usual() };
        let clippy = run(failed.clone(), &[Step::Clippy.title()]);
        assert_eq!((steps(&clippy), clippy.tests()), (vec![Step::Clippy], None));
        let test = run(failed.clone(), &["errors/a.test"]);
        assert_eq!(
            (steps(&test), test.tests()),
            (vec![Step::Dist, Step::Tests], Some(vec!["errors/a.test".to_owned()]))
        );
        assert!(steps(&run(failed, &[])).is_empty());
    }

    #[test]
    fn a_budget_ends() {
        assert!(!run(usual(), &[]).is_over());
        assert!(run(Selection { budget: 0, ..usual() }, &[]).is_over());
    }
}
