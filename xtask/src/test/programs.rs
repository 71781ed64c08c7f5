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
    /// Whether its tests are those inside a library or a program.
    pub is_unit: bool,
    /// Its path, and the folder of its package, which it runs in. `None` for the examples, which cargo compiles and runs.
    built: Option<(PathBuf, PathBuf)>,
}

/// What cargo has built.
#[derive(Default)]
pub struct Built {
    /// The test programs, in the order in which they run.
    pub tests: Vec<TestProgram>,
    /// The programs and libraries.
    pub files: HashSet<PathBuf>,
}

/// Builds the programs, the libraries and their tests, in one run of cargo: another one could choose other features of a crate that they
/// share, and compile it again. `built` has all that could be built.
///
/// # Errors
/// Some of them cannot be built, or clippy or the compiler warns.
pub fn build(checker: &Checker, progress: &Progress, built: &mut Built) -> Result<()> {
    let mut cargo = checker.cargo("build");
    cargo.args(["--workspace", "--lib", "--bins", "--tests", "--examples"]);
    let (status, output) = progress.status(cargo.args(["--locked", "--keep-going", "--message-format=json"]))?;
    built.add(&output);
    let complaints = complaints(&output);
    if status.success() {
        let failed = || Failure { message: "warnings are denied".to_owned(), output: complaints.clone() };
        return if complaints.is_empty() { Ok(()) } else { Err(failed()) };
    }
    let said: String = output.lines().filter(|line| !line.starts_with('{')).map(|line| format!("{line}\n")).collect();
    Err(Failure { message: status.to_string(), output: complaints + &said }.led_by("cargo build failed"))
}

impl Built {
    /// Adds what cargo's messages are about.
    fn add(&mut self, output: &str) {
        for message in output.lines().filter_map(json).filter(|message| message["reason"] == "compiler-artifact") {
            if message["profile"]["test"] == true {
                self.tests.extend(of_message(&message));
            } else if let Some(files) = message["filenames"].as_array() {
                self.files.extend(files.iter().filter_map(|file| file.as_str().map(PathBuf::from)));
            }
        }
        self.tests.sort_by(|a, b| a.name.cmp(&b.name));
        if !self.tests.is_empty() {
            // They leave cores idle, so they come first.
            self.tests.insert(0, TestProgram { name: EXAMPLES.to_owned(), is_unit: false, built: None });
        }
    }
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

/// The test program that one of cargo's messages is about.
fn of_message(message: &Value) -> Option<TestProgram> {
    let path = message["executable"].as_str()?;
    let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    // "path+file:///folder/PACKAGE#0.1.0", or "path+file:///folder/sub#PACKAGE@0.1.0".
    let (place, version) = message["package_id"].as_str()?.rsplit_once('#')?;
    let package = version.split_once('@').map_or_else(|| place.rsplit('/').next(), |(name, _)| Some(name))?;
    let (target, kind) = (message["target"]["name"].as_str()?, message["target"]["kind"][0].as_str()?);
    let is_library = kind.ends_with("lib");
    let name = if is_library { package.to_owned() } else { format!("{package}::{target}") };
    Some(TestProgram { name, is_unit: is_library || kind == "bin", built: Some((path.into(), folder)) })
}

impl TestProgram {
    /// Runs the tests that these arguments of test programs select.
    pub fn run(&self, checker: &Checker, progress: &Progress, arguments: &[String]) -> Result<Tally> {
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
    fn command(&self, checker: &Checker) -> Command {
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
    fn messages_name_what_was_built() {
        let message = |id: &str, kind: &str, is_test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":"/w/a/Cargo.toml","target":{{"kind":["{kind}"],"name":"t_t"}},
                "profile":{{"test":{is_test}}},"filenames":["/w/a/t"],"executable":"/w/a/t"}}"#
            )
            .replace('\n', "")
        };
        let built = |id: &str, kind: &str, is_test: bool| {
            let mut built = Built::default();
            built.add(&format!("   Compiling a v0.1.0\n{}\n", message(id, kind, is_test)));
            let tests: Vec<(String, bool)> =
                built.tests.into_iter().map(|program| (program.name, program.is_unit)).collect();
            (tests, built.files.len())
        };
        let test = |name: &str, is_unit| (vec![("doc".to_owned(), false), (name.to_owned(), is_unit)], 0);
        assert_eq!(built("path+file:///w/a#0.1.0", "lib", true), test("a", true));
        assert_eq!(built("path+file:///w/a#b@0.1.0", "cdylib", true), test("b", true));
        assert_eq!(built("path+file:///w/a#0.1.0", "bin", true), test("a::t_t", true));
        assert_eq!(built("path+file:///w/a#0.1.0", "test", true), test("a::t_t", false));
        assert_eq!(built("path+file:///w/a#0.1.0", "bin", false), (Vec::new(), 1));
    }
}
