//! What test programs print, added up.

use std::collections::BTreeMap;

/// How a test program ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    Success,
    /// In words.
    Failure(String),
}

/// The results of test programs. A test is named by its program and its own name, with a space between.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that passed, also those that passed when they were run again.
    pub passed: usize,
    /// Tests that failed, and programs that ended without a result.
    pub failed: Vec<String>,
    /// Tests that failed, and passed when they were run again alone.
    pub flaky: Vec<String>,
    /// Tests and programs for which there was no time.
    pub not_run: Vec<String>,
    /// What this machine lacks for other tests, with their number.
    pub skipped: BTreeMap<String, usize>,
    /// What the failed ones printed.
    pub output: String,
}

impl Tally {
    /// Reads what a test program has printed.
    pub fn of(program: &str, output: &str, ending: &Ending) -> Self {
        let named = |name: &str| format!("{program} {name}");
        let results = || output.lines().filter_map(|line| line.strip_prefix("test ")?.rsplit_once(" ... "));
        let failed: Vec<String> =
            results().filter(|(_, result)| *result == "FAILED").map(|(name, _)| named(name.trim())).collect();
        let mut skipped = BTreeMap::new();
        for reason in results().filter_map(|(name, result)| reason_to_skip(name, result)) {
            *skipped.entry(reason.to_owned()).or_default() += 1;
        }
        let mut tally =
            Tally { passed: passed(output), failed, skipped, output: output_of_failed(output), ..Tally::default() };
        if let Ending::Failure(how) = ending
            && !output.lines().any(|line| line.starts_with("test result: FAILED."))
        {
            // Nobody knows which of its tests would have failed, so that they all count as one.
            tally = Tally { output: format!("{program}: {how}\n{output}\n"), ..Tally::default() };
            tally.failed.push(program.to_owned());
        }
        tally
    }

    /// Adds the results of other tests.
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.flaky.extend(other.flaky);
        self.not_run.extend(other.not_run);
        self.output += &other.output;
        for (reason, count) in other.skipped {
            *self.skipped.entry(reason).or_default() += count;
        }
    }

    /// How many tests this machine cannot run.
    pub fn skipped(&self) -> usize {
        self.skipped.values().sum()
    }

    /// In one line.
    pub fn note(&self) -> String {
        let mut parts = vec![format!("{} passed", self.passed)];
        let counts = [(self.failed.len(), "failed"), (self.not_run.len(), "not run"), (self.skipped(), "skipped")];
        parts.extend(counts.iter().filter(|(count, _)| *count != 0).map(|(count, what)| format!("{count} {what}")));
        if !self.skipped.is_empty() {
            let reasons: Vec<String> =
                self.skipped.iter().map(|(reason, count)| format!("{reason}: {count}")).collect();
            let last = parts.pop().unwrap_or_default();
            parts.push(format!("{last} ({})", reasons.join(", ")));
        }
        if !self.flaky.is_empty() {
            parts.push(format!("{} flaky ({})", self.flaky.len(), self.flaky.join(", ")));
        }
        parts.join(", ")
    }
}

/// How many tests passed.
fn passed(output: &str) -> usize {
    let results = output.lines().filter_map(|line| line.strip_prefix("test result: "));
    let counts =
        results.filter_map(|result| result.split([';', '.']).find_map(|part| part.trim().strip_suffix("passed")));
    counts.filter_map(|count| count.trim().parse::<usize>().ok()).sum()
}

/// Why a test was skipped: "[REASON] NAME ... ignored", or "NAME ... ignored, REASON".
fn reason_to_skip<'t>(name: &'t str, result: &'t str) -> Option<&'t str> {
    let reason = result.strip_prefix("ignored")?;
    let of_kind = name.strip_prefix('[').and_then(|name| name.split_once(']')).map(|(kind, _)| kind);
    Some(of_kind.or_else(|| reason.strip_prefix(", ")).unwrap_or("no reason given"))
}

/// What a test program prints about tests that failed, without those that passed.
fn output_of_failed(output: &str) -> String {
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
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "test a::b ... ok\ntest   c.test  ... FAILED\ntest [needs gpu] d.test ... ignored\ntest e ... ignored, slow\n\n\
        failures:\n\n---- c.test ----\nwhy\n\nfailures:\n    c.test\n\n\
        test result: FAILED. 4 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.05s\n";

    fn failure() -> Ending {
        Ending::Failure("exit status: 101".to_owned())
    }

    #[test]
    fn results_are_read() {
        let mut tally = Tally::of("lit", OUTPUT, &failure());
        assert_eq!((tally.passed, &*tally.failed), (4, &["lit c.test".to_owned()][..]));
        assert_eq!(tally.output, "---- c.test ----\nwhy\n\n");
        assert_eq!(tally.note(), "4 passed, 1 failed, 2 skipped (needs gpu: 1, slow: 1)");
        tally.add(Tally { passed: 1, flaky: vec!["lit f".to_owned()], ..Tally::default() });
        assert_eq!(tally.note(), "5 passed, 1 failed, 2 skipped (needs gpu: 1, slow: 1), 1 flaky (lit f)");
    }

    #[test]
    fn a_program_that_dies_has_failed() {
        let output = "test a::b ... ok\nthread panicked\n";
        let tally = Tally::of("xtask", output, &Ending::Failure("signal: 11".to_owned()));
        assert_eq!((tally.passed, &*tally.failed), (0, &["xtask".to_owned()][..]));
        assert!(tally.output.starts_with("xtask: signal: 11\ntest a::b"), "{}", tally.output);
        assert!(Tally::of("xtask", output, &Ending::Success).failed.is_empty());
    }
}
