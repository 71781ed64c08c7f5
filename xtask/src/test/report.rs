//! What a test run prints at its end: the output of what failed, one table of all steps, and the totals.

use std::time::{Duration, Instant};

use crate::failure::{Failure, Result};

/// As many tests may fail once, and pass when they are run again alone, without making a run red.
const MOST_FLAKY: usize = 3;

/// The results of all test programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that passed, also those that passed when they were run again.
    pub passed: usize,
    /// Tests that failed twice.
    pub failed: Vec<String>,
    /// Tests that failed, and passed when they were run again alone.
    pub flaky: Vec<String>,
    /// Tests that this machine cannot run.
    pub skipped: usize,
}

impl Tally {
    /// Reads what cargo's test programs print.
    pub fn of(output: &str) -> Self {
        let total = |word: &str| -> usize {
            let results = output.lines().filter_map(|line| line.strip_prefix("test result: "));
            let counts =
                results.flat_map(|result| result.split([';', '.'])).filter_map(|part| part.trim().strip_suffix(word));
            counts.filter_map(|count| count.trim().parse::<usize>().ok()).sum()
        };
        let failed = |line: &str| Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.trim().to_owned());
        let failed = output.lines().filter_map(failed).collect();
        Tally { passed: total("passed"), failed, flaky: Vec::new(), skipped: total("ignored") }
    }

    /// Moves a test that passed when it was run again.
    pub fn passed_again(&mut self, name: &str) {
        self.failed.retain(|failed| failed != name);
        self.flaky.push(name.to_owned());
        self.passed += 1;
    }

    /// In one line.
    pub fn note(&self) -> String {
        let mut parts = vec![format!("{} passed", self.passed)];
        if !self.failed.is_empty() {
            parts.push(format!("{} failed", self.failed.len()));
        }
        if !self.flaky.is_empty() {
            parts.push(format!("flaky: {}", self.flaky.join(", ")));
        }
        if self.skipped != 0 {
            parts.push(format!("{} left out, for which this machine lacks something", self.skipped));
        }
        parts.join(", ")
    }
}

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
    /// Tests, with the output of those that failed.
    Tested(Tally, String),
    Failed(Failure),
    NotRun(&'static str),
}

impl Report {
    /// Runs a step, and returns whether it passed.
    pub fn step(&mut self, title: &'static str, work: impl FnOnce() -> Result<()>) -> bool {
        let begin = Instant::now();
        let outcome = work().map_or_else(Outcome::Failed, |()| Outcome::Passed);
        let passed = matches!(outcome, Outcome::Passed);
        self.rows.push(Row { title, took: begin.elapsed(), outcome });
        passed
    }

    /// Runs tests.
    pub fn tests(&mut self, title: &'static str, work: impl FnOnce() -> Result<(Tally, String)>) {
        let begin = Instant::now();
        let outcome = work().map_or_else(Outcome::Failed, |(tally, output)| Outcome::Tested(tally, output));
        self.rows.push(Row { title, took: begin.elapsed(), outcome });
    }

    /// Notes a step that cannot run, and why.
    pub fn not_run(&mut self, title: &'static str, why: &'static str) {
        self.rows.push(Row { title, took: Duration::ZERO, outcome: Outcome::NotRun(why) });
    }

    /// Prints everything, and returns the tests and steps that failed.
    pub fn finish(self) -> Vec<String> {
        for row in &self.rows {
            match &row.outcome {
                Outcome::Failed(failure) => println!("\n{}:\n{failure}", row.title),
                Outcome::Tested(tally, output) if !tally.failed.is_empty() => println!("\n{}:\n{output}", row.title),
                _ => {}
            }
        }
        println!();
        self.rows.iter().for_each(|row| println!("{}", row.line()));
        let totals = self.totals();
        // Test harnesses parse this line.
        println!("\n{} passed, {} failed, {} skipped", totals.passed, totals.failed.len(), totals.skipped);
        totals.failed
    }

    /// The tests of all steps. A step that failed or could not run counts as a test that failed, and so do too many flaky tests.
    fn totals(&self) -> Tally {
        let mut totals = Tally::default();
        for row in &self.rows {
            match &row.outcome {
                Outcome::Passed => {}
                Outcome::Tested(tally, _) => {
                    totals.passed += tally.passed;
                    totals.skipped += tally.skipped;
                    totals.failed.extend(tally.failed.iter().cloned());
                    if tally.flaky.len() > MOST_FLAKY {
                        totals.failed.extend(tally.flaky.iter().cloned());
                    }
                }
                Outcome::Failed(_) | Outcome::NotRun(_) => totals.failed.push(row.title.to_owned()),
            }
        }
        totals
    }
}

impl Row {
    fn line(&self) -> String {
        let what = match &self.outcome {
            Outcome::Passed => "passed".to_owned(),
            Outcome::Tested(tally, _) => tally.note(),
            Outcome::Failed(failure) => format!("FAILED: {}", failure.message.lines().next().unwrap_or_default()),
            Outcome::NotRun(why) => format!("not run: {why}"),
        };
        format!("{:8.1} s  {}: {what}", self.took.as_secs_f64(), self.title)
    }
}

/// What the test programs print about tests that failed, without those that passed.
pub fn output_of_failed(output: &str) -> String {
    let mut kept = String::new();
    let mut is_kept = false;
    for line in output.lines() {
        let begins = line.starts_with("---- ") && line.trim_end().ends_with("----");
        let ends = line == "failures:" || line.starts_with("test result: ");
        is_kept = begins || (is_kept && !ends);
        if is_kept {
            kept += line;
            kept.push('\n');
        }
    }
    // A test program that died says nothing in this form.
    if kept.is_empty() { output.to_owned() } else { kept }
}

/// Whether a test program ended without its result, by a signal or by `exit`: nobody knows which of its tests would have failed.
pub fn has_dead_program(output: &str) -> bool {
    let failed = output.lines().filter(|line| line.starts_with("error: ") && line.contains(" failed, to rerun pass `"));
    let results = output.lines().filter(|line| line.starts_with("test result: FAILED."));
    failed.count() > results.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "test a::b ... ok\ntest   c.test  ... FAILED\n\nfailures:\n\n---- c.test ----\nwhy\n\nfailures:\n    c.test\n\n\
        test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.05s\n\
        test result: FAILED. 4 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.05s\n";

    #[test]
    fn results_are_added_up() {
        let mut tally = Tally::of(OUTPUT);
        let expected = Tally { passed: 7, failed: vec!["c.test".to_owned()], flaky: Vec::new(), skipped: 2 };
        assert_eq!(tally, expected);
        assert_eq!(tally.note(), "7 passed, 1 failed, 2 left out, for which this machine lacks something");
        tally.passed_again("c.test");
        assert_eq!(tally.note(), "8 passed, flaky: c.test, 2 left out, for which this machine lacks something");
    }

    #[test]
    fn the_output_of_failed_tests_is_kept() {
        assert_eq!(output_of_failed(OUTPUT), "---- c.test ----\nwhy\n\n");
        assert_eq!(output_of_failed("killed\n"), "killed\n");
    }

    #[test]
    fn programs_that_die_are_noticed() {
        let failed = "error: test failed, to rerun pass `-p lit-tests --test lit`\n";
        let died =
            "error: test failed, to rerun pass `-p xtask --lib`\n\nCaused by:\n  process didn't exit successfully\n";
        assert!(!has_dead_program(&format!("{OUTPUT}{failed}")));
        assert!(has_dead_program(&format!("{OUTPUT}{failed}{died}")));
    }

    #[test]
    fn all_steps_run_and_count() {
        let mut report = Report::default();
        assert!(report.step("one", || Ok(())));
        assert!(!report.step("two", || Err(Failure::new("no"))));
        report.not_run("three", "two failed");
        report.tests("four", || Ok((Tally::of(OUTPUT), String::new())));
        let totals = report.totals();
        assert_eq!((totals.passed, totals.skipped), (7, 2));
        assert_eq!(totals.failed, ["two", "three", "c.test"]);
    }

    #[test]
    fn few_flaky_tests_leave_a_run_green() {
        let flaky = |count: usize| {
            let mut report = Report::default();
            let flaky = (0..count).map(|number| number.to_string()).collect();
            report.tests("tests", || Ok((Tally { passed: 9, flaky, ..Tally::default() }, String::new())));
            report.totals().failed.len()
        };
        assert_eq!((flaky(MOST_FLAKY), flaky(MOST_FLAKY + 1)), (0, MOST_FLAKY + 1));
    }
}
