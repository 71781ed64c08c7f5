//! Runs lit, and reports the outcome of each of its tests.
//!
//! The tests are the files in `tests/`, by topic; `lit.cfg.py` defines what they can use. They run the programs that
//! `cargo xtask dist` lays out, as a user would.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// The variable with the folder of the programs under test; `cargo xtask test` sets it.
const DIST: &str = "FATLINK_DIST";

/// A test that runs longer than this hangs: no test takes a tenth of it, even on a busy machine.
const TIMEOUT_SECONDS: &str = "600";

/// What a machine may lack: a GPU, or none; the privileges to mount a small disk or an image of a file system, to change the root folder, or
/// to limit the processes of a user that has no other.
const FEATURES: [&str; 7] = ["gpu", "no-gpu", "mount", "image-mount", "mount-numbers", "chroot", "process-limits"];

/// The variable with those of [`FEATURES`], separated by commas, that this machine has to have: a test that lacks one fails.
const REQUIRED: &str = "FATLINK_TEST_REQUIRE";

/// What lit puts before the names of this suite's tests.
const NAME_PREFIX: &str = "fatlink :: ";

/// The lit tests of this package.
pub struct Suite {
    tests: PathBuf,
    scratch: PathBuf,
}

/// The outcome of a test.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// It passed, or failed as expected.
    Passed,
    /// It needs these features, which a machine may lack, as this one does.
    Skipped(String),
    /// Why it failed, with the output of its commands.
    Failed(String),
}

#[derive(Deserialize)]
struct Report {
    tests: Vec<ReportedTest>,
}

#[derive(Deserialize)]
struct ReportedTest {
    name: String,
    code: String,
    output: String,
}

impl Suite {
    /// Finds the tests; `scratch` is where they may write.
    pub fn new(scratch: &Path) -> Result<Self, String> {
        if std::env::var_os(DIST).is_none() {
            return Err(format!(
                "{DIST} is not set: lit tests need the built programs and their environment; run `cargo xtask test`"
            ));
        }
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        Ok(Self { tests, scratch: scratch.to_owned() })
    }

    /// The names of all tests, such as `cuda/two-tu-lto.test`.
    pub fn names(&self) -> Result<Vec<String>, String> {
        let output = self.lit(&["--show-tests"], &[])?;
        let names: Vec<String> =
            output.lines().filter_map(|line| line.trim().strip_prefix(NAME_PREFIX)).map(str::to_owned).collect();
        if names.is_empty() { Err(format!("lit found no tests:\n{output}")) } else { Ok(names) }
    }

    /// Runs these tests, as many at once as there are cores.
    pub fn run(&self, names: &[String]) -> Result<HashMap<String, Outcome>, String> {
        if names.is_empty() {
            return Ok(HashMap::new());
        }
        let report = self.scratch.join("lit.json");
        // A report of an earlier run must not be taken for this one's.
        let _ = std::fs::remove_file(&report);
        let report_path = report.to_string_lossy();
        let output =
            self.lit(&["--ignore-fail", "--quiet", "--timeout", TIMEOUT_SECONDS, "--output", &report_path], names)?;
        let text = std::fs::read(&report).map_err(|error| format!("lit wrote no report: {error}\n{output}"))?;
        let required = std::env::var(REQUIRED).unwrap_or_default();
        outcomes(&text, &required).map_err(|error| format!("cannot read lit's report: {error}"))
    }

    fn lit(&self, options: &[&str], names: &[String]) -> Result<String, String> {
        let mut command = Command::new("lit");
        command.args(options).arg("--param").arg(format!("scratch={}", self.scratch.display()));
        if names.is_empty() {
            command.arg(&self.tests);
        }
        command.args(names.iter().map(|name| self.tests.join(name)));
        let output = command
            .output()
            .map_err(|error| format!("cannot run lit: {error}: run `cargo xtask test`, which installs it"))?;
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(text.into_owned()) } else { Err(format!("lit failed:\n{text}")) }
    }
}

fn outcomes(report: &[u8], required: &str) -> Result<HashMap<String, Outcome>, serde_json::Error> {
    let report: Report = serde_json::from_slice(report)?;
    let outcomes = report.tests.into_iter().map(|test| {
        let name = test.name.strip_prefix(NAME_PREFIX).unwrap_or(&test.name).to_owned();
        (name, outcome(&test.code, test.output, required))
    });
    Ok(outcomes.collect())
}

fn outcome(code: &str, output: String, required: &str) -> Outcome {
    match (code, missing_features(&output, required)) {
        ("PASS" | "XFAIL", _) => Outcome::Passed,
        ("UNSUPPORTED", Some(features)) => Outcome::Skipped(features),
        (code, _) => Outcome::Failed(format!("{code}\n{output}")),
    }
}

/// The features without which a test was skipped, if a machine may lack them all, and none of them is `required`.
fn missing_features(output: &str, required: &str) -> Option<String> {
    let (_, features) = output.trim_end().rsplit_once("unavailable features: ")?;
    let may_lack = |feature: &str| FEATURES.contains(&feature) && !required.split(',').any(|one| one == feature);
    features.split(", ").all(may_lack).then(|| features.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_machine_may_lack_excuses_a_test() {
        let missing = |features: &str| format!("Test requires the following unavailable features: {features}");
        for features in ["gpu", "mount", "image-mount, gpu"] {
            assert_eq!(outcome("UNSUPPORTED", missing(features), ""), Outcome::Skipped(features.to_owned()));
        }
        for excuse in [missing("cuda"), missing("cuda, gpu"), "no reason".to_owned()] {
            assert!(matches!(outcome("UNSUPPORTED", excuse, ""), Outcome::Failed(_)));
        }
    }

    #[test]
    fn a_machine_that_has_a_feature_runs_its_tests() {
        let missing = "Test requires the following unavailable features: mount".to_owned();
        assert!(matches!(outcome("UNSUPPORTED", missing.clone(), "mount,image-mount"), Outcome::Failed(_)));
        assert!(matches!(outcome("UNSUPPORTED", missing, "image-mount"), Outcome::Skipped(_)));
    }

    #[test]
    fn whatever_did_not_pass_has_failed() {
        for code in ["FAIL", "XPASS", "UNRESOLVED", "TIMEOUT", "FLAKYPASS", "SKIPPED"] {
            assert!(matches!(outcome(code, String::new(), ""), Outcome::Failed(_)), "{code}");
        }
    }

    #[test]
    fn a_report_is_read() {
        let report = br#"{"tests": [{"name": "fatlink :: a/b.test", "code": "PASS", "output": "", "elapsed": 0.1},
            {"name": "fatlink :: c.test", "code": "FAIL", "output": "because", "elapsed": 0.1}]}"#;
        let outcomes = outcomes(report, "").unwrap();
        assert_eq!(outcomes["a/b.test"], Outcome::Passed);
        assert_eq!(outcomes["c.test"], Outcome::Failed("FAIL\nbecause".into()));
    }
}
