//! What a test run prints at its end: the output of what failed, one table of all steps, and the totals.

use std::time::{Duration, Instant};

use super::tally::Tally;
use crate::failure::{Failure, Result};

/// As many tests may fail once, and pass when they are run again alone, without making a run red.
const MOST_FLAKY: usize = 3;

/// The steps of a run.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

/// One step.
struct Row {
    title: &'static str,
    took: Duration,
    outcome: Outcome,
}

enum Outcome {
    Passed,
    Tested(Tally),
    Failed(Failure),
    NotRun(&'static str),
}

impl Report {
    /// Runs a step, and returns what it made.
    pub fn step<T>(&mut self, title: &'static str, work: impl FnOnce() -> Result<T>) -> Option<T> {
        let begin = Instant::now();
        let (outcome, made) = match work() {
            Ok(made) => (Outcome::Passed, Some(made)),
            Err(failure) => (Outcome::Failed(failure), None),
        };
        self.rows.push(Row { title, took: begin.elapsed(), outcome });
        made
    }

    /// Runs tests.
    pub fn tests(&mut self, title: &'static str, work: impl FnOnce() -> Result<Tally>) {
        let begin = Instant::now();
        let outcome = work().map_or_else(Outcome::Failed, Outcome::Tested);
        self.rows.push(Row { title, took: begin.elapsed(), outcome });
    }

    /// Notes a step that cannot run, and why.
    pub fn not_run(&mut self, title: &'static str, why: &'static str) {
        self.rows.push(Row { title, took: Duration::ZERO, outcome: Outcome::NotRun(why) });
    }

    /// The tests that have failed so far.
    pub fn failed_tests(&self) -> Vec<String> {
        self.tallies().flat_map(|tally| tally.failed.clone()).collect()
    }

    /// Moves the tests that passed when they were run again alone.
    pub fn repeated(&mut self, passed: &[String]) {
        for row in &mut self.rows {
            let Outcome::Tested(tally) = &mut row.outcome else { continue };
            let (flaky, failed) = std::mem::take(&mut tally.failed).into_iter().partition(|name| passed.contains(name));
            (tally.flaky, tally.failed) = (flaky, failed);
            tally.passed += tally.flaky.len();
        }
    }

    fn tallies(&self) -> impl Iterator<Item = &Tally> {
        self.rows.iter().filter_map(|row| match &row.outcome {
            Outcome::Tested(tally) => Some(tally),
            _ => None,
        })
    }

    /// Everything, as it is printed; what failed; and how many passed.
    pub fn finish(self) -> Summary {
        let mut text = String::new();
        for row in &self.rows {
            match &row.outcome {
                Outcome::Failed(failure) => text += &format!("\n{}:\n{failure}\n", row.title),
                Outcome::Tested(tally) if !tally.output.is_empty() => {
                    text += &format!("\n{}:\n{}", row.title, tally.output);
                }
                _ => {}
            }
        }
        text.push('\n');
        self.rows.iter().for_each(|row| text += &format!("{}\n", row.line()));
        let failed = self.failed();
        let (passed, skipped) =
            self.tallies().fold((0, 0), |(passed, skipped), tally| (passed + tally.passed, skipped + tally.skipped()));
        if !failed.is_empty() {
            text += &format!("\nfailed:\n{}", failed.iter().map(|name| format!("  {name}\n")).collect::<String>());
        }
        // Test harnesses parse this line.
        text += &format!("\n{passed} passed, {} failed, {skipped} skipped", failed.len());
        Summary { text, failed }
    }

    /// A step that failed or could not run counts as a test that failed, and so do too many flaky tests.
    fn failed(&self) -> Vec<String> {
        let mut failed = Vec::new();
        for row in &self.rows {
            match &row.outcome {
                Outcome::Passed => {}
                Outcome::Tested(tally) => failed.extend([&tally.failed[..], &tally.not_run].concat()),
                Outcome::Failed(_) | Outcome::NotRun(_) => failed.push(row.title.to_owned()),
            }
        }
        let flaky: Vec<String> = self.tallies().flat_map(|tally| tally.flaky.clone()).collect();
        if flaky.len() > MOST_FLAKY {
            failed.extend(flaky);
        }
        failed
    }
}

/// The end of a run.
pub struct Summary {
    /// What is printed, without a line feed at the end.
    pub text: String,
    /// The tests and steps that failed.
    pub failed: Vec<String>,
}

impl Row {
    fn line(&self) -> String {
        let what = match &self.outcome {
            Outcome::Passed => "passed".to_owned(),
            Outcome::Tested(tally) => tally.note(),
            Outcome::Failed(failure) => format!("FAILED: {}", failure.message.lines().next().unwrap_or_default()),
            Outcome::NotRun(why) => format!("not run: {why}"),
        };
        format!("{:8.1} s  {}: {what}", self.took.as_secs_f64(), self.title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("p {number}")).collect()
    }

    #[test]
    fn all_steps_run_and_count() {
        let mut report = Report::default();
        assert_eq!(report.step("one", || Ok(7)), Some(7));
        assert_eq!(report.step("two", || Err::<(), _>(Failure::new("no"))), None);
        report.not_run("three", "two failed");
        let skipped = [("gpu".to_owned(), 2)].into();
        report.tests("four", || Ok(Tally { passed: 7, failed: names(1), skipped, ..Tally::default() }));
        let summary = report.finish();
        assert_eq!(summary.failed, ["two", "three", "p 0"]);
        assert!(summary.text.ends_with("\n7 passed, 3 failed, 2 skipped"), "{}", summary.text);
    }

    #[test]
    fn tests_that_pass_when_they_are_repeated_are_flaky() {
        let failed_of = |count: usize, passed: usize| {
            let mut report = Report::default();
            report.tests("tests", || Ok(Tally { passed: 9, failed: names(count), ..Tally::default() }));
            assert_eq!(report.failed_tests().len(), count);
            report.repeated(&names(passed));
            report.finish().failed.len()
        };
        assert_eq!(failed_of(2, 1), 1);
        // Few of them leave a run green.
        assert_eq!((failed_of(MOST_FLAKY, MOST_FLAKY), failed_of(MOST_FLAKY + 1, MOST_FLAKY + 1)), (0, MOST_FLAKY + 1));
    }
}
