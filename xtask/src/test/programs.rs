//! The test programs that cargo builds, and how one of them runs.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::Checker;
use super::tally::{Ending, Tally};
use crate::failure::{Failure, Result};
use crate::step::{Progress, in_parallel};

/// A test program that prints nothing for as long hangs.
const MOST_SILENCE: Duration = Duration::from_secs(600);

/// The program that runs lit, which prints nothing before the end. lit itself stops tests that hang.
pub const LIT: &str = "lit-tests::lit";

/// What runs the examples of the documentation, which only rustdoc compiles.
const EXAMPLES: &str = "doc";

/// A program with tests, as cargo has built it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestProgram {
    /// `PACKAGE` for the tests of a library, `PACKAGE::TARGET` for others.
    pub name: String,
    /// Its path, and the folder of its package, which it runs in. `None` for the examples, which cargo compiles and runs.
    built: Option<(PathBuf, PathBuf)>,
}

/// Builds the test programs of these kinds of targets, or all, in the order in which they run. `programs` has all that could be built.
///
/// # Errors
/// Some of them cannot be built, or clippy or the compiler warns.
pub fn build(
    checker: &Checker<'_>,
    progress: &Progress,
    targets: &[&str],
    programs: &mut Vec<TestProgram>,
) -> Result<()> {
    let mut cargo = checker.cargo("test");
    cargo.args(["--workspace", "--locked", "--no-run", "--no-fail-fast", "--message-format=json"]);
    let (status, output) = progress.status(cargo.args(targets))?;
    programs.extend(output.lines().filter_map(of_message));
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    if targets.is_empty() && !programs.is_empty() {
        // They leave cores idle, so they come first.
        programs.insert(0, TestProgram { name: EXAMPLES.to_owned(), built: None });
    }
    let complaints = complaints(&output);
    if status.success() {
        let failed = || Failure { message: "warnings are denied".to_owned(), output: complaints.clone() };
        return if complaints.is_empty() { Ok(()) } else { Err(failed()) };
    }
    let said: String = output.lines().filter(|line| !line.starts_with('{')).map(|line| format!("{line}\n")).collect();
    Err(Failure { message: status.to_string(), output: complaints + &said }.led_by("cargo test --no-run failed"))
}

/// Runs test programs, several at once: some tests wait for other processes, and the last one of a program leaves cores idle.
pub fn run_all(programs: Vec<&TestProgram>, run: impl Fn(&TestProgram) -> Result<Tally> + Sync) -> Result<Tally> {
    let tally = Mutex::new(Tally::default());
    in_parallel(programs, |program| {
        let own = run(program)?;
        tally.lock().unwrap_or_else(PoisonError::into_inner).add(own);
        Ok(())
    })?;
    Ok(tally.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// What clippy and the compiler complain about, each once: a file is compiled for programs and for tests.
fn complaints(output: &str) -> String {
    let mut seen = HashSet::new();
    let messages = output.lines().filter_map(json).filter(|message| message["reason"] == "compiler-message");
    let texts = messages.filter_map(|message| message["message"]["rendered"].as_str().map(str::to_owned));
    texts.filter(|text| seen.insert(text.clone())).collect()
}

/// One of cargo's messages; other lines are what its tools print.
fn json(line: &str) -> Option<Value> {
    serde_json::from_str(line.starts_with('{').then_some(line)?).ok()
}

/// The test program of one of cargo's messages, if it is about one.
fn of_message(line: &str) -> Option<TestProgram> {
    let message = json(line)?;
    let path = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    // "path+file:///folder/PACKAGE#0.1.0", or "path+file:///folder/sub#PACKAGE@0.1.0".
    let (place, version) = message["package_id"].as_str()?.rsplit_once('#')?;
    let package = version.split_once('@').map_or_else(|| place.rsplit('/').next(), |(name, _)| Some(name))?;
    let target = message["target"]["name"].as_str()?;
    let is_library = message["target"]["kind"][0].as_str().is_some_and(|kind| kind.ends_with("lib"));
    let name = if is_library { package.to_owned() } else { format!("{package}::{target}") };
    Some(TestProgram { name, built: Some((path.into(), folder)) })
}

impl TestProgram {
    /// Runs the tests that these arguments of test programs select.
    pub fn run(&self, checker: &Checker<'_>, progress: &Progress, arguments: &[String]) -> Result<Tally> {
        let mut command = self.command(checker);
        command.env("FATLINK_DIST", checker.repository.dist()).args(arguments);
        let silence = if self.name == LIT { Duration::MAX } else { MOST_SILENCE };
        let (status, output) = progress.watch(&mut command, silence)?;
        let ending = match status {
            Some(status) if status.success() => Ending::Success,
            Some(status) => Ending::Failure(status.to_string()),
            None => Ending::Failure(format!("killed, as it printed nothing for {} s", silence.as_secs())),
        };
        Ok(Tally::of(&self.name, &output, &ending))
    }

    /// Its command line up to the arguments of test programs.
    fn command(&self, checker: &Checker<'_>) -> Command {
        let Some((path, folder)) = &self.built else {
            let mut cargo = checker.cargo("test");
            cargo.args(["--doc", "--workspace", "--locked", "--no-fail-fast", "--"]);
            return cargo;
        };
        let mut command = Command::new(path);
        checker.environment.apply(&mut command);
        command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_shown_once() {
        let message = r#"{"reason":"compiler-message","message":{"level":"warning","rendered":"warning: unused\n"}}"#;
        let output = format!("   Compiling a v0.1.0\n{message}\n{message}\n{{\"reason\":\"build-finished\"}}\n");
        assert_eq!(complaints(&output), "warning: unused\n");
    }

    #[test]
    fn messages_name_test_programs() {
        let message = |id: &str, kind: &str, is_test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":"/w/a/Cargo.toml","target":{{"kind":["{kind}"],"name":"t_t"}},
                "profile":{{"test":{is_test}}},"executable":"/w/target/debug/deps/t-1"}}"#
            )
            .replace('\n', "")
        };
        let name = |id: &str, kind: &str| of_message(&message(id, kind, true)).map(|program| program.name);
        assert_eq!(name("path+file:///w/a#0.1.0", "lib").as_deref(), Some("a"));
        assert_eq!(name("path+file:///w/a#b@0.1.0", "cdylib").as_deref(), Some("b"));
        assert_eq!(name("path+file:///w/a#0.1.0", "test").as_deref(), Some("a::t_t"));
        assert_eq!(of_message(&message("path+file:///w/a#0.1.0", "bin", false)), None);
        assert_eq!(of_message("   Compiling a v0.1.0"), None);
    }
}
