//! Each lit test as one test of cargo's, with its output when it fails.

#![allow(clippy::print_stderr, reason = "a test program")]

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use lit_tests::{Outcome, Suite};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    match trials(&arguments) {
        Ok(trials) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// lit runs all tests at once, and before the trials: only then is it known which of them this machine can run.
fn trials(arguments: &Arguments) -> Result<Vec<Trial>, String> {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lit");
    std::fs::create_dir_all(&scratch).map_err(|error| format!("cannot create {}: {error}", scratch.display()))?;
    let suite = Suite::new(&scratch)?;
    let names: Vec<String> = suite.names()?.into_iter().filter(|name| is_wanted(arguments, name)).collect();
    let mut outcomes = if arguments.list { Default::default() } else { suite.run(&names)? };
    let trial = |name: String| match outcomes.remove(&name) {
        Some(Outcome::Passed) => Trial::test(name, || Ok(())),
        Some(Outcome::Skipped(features)) => {
            Trial::test(name, || Ok(())).with_kind(format!("needs {features}")).with_ignored_flag(true)
        }
        Some(Outcome::Failed(why)) => Trial::test(name, || Err(why.into())),
        None => Trial::test(name, || Err("lit did not run it".into())),
    };
    Ok(names.into_iter().map(trial).collect())
}

/// As libtest-mimic chooses, so that lit runs nothing that is not reported.
fn is_wanted(arguments: &Arguments, name: &str) -> bool {
    let matches = |pattern: &String| if arguments.exact { name == pattern } else { name.contains(pattern.as_str()) };
    arguments.filter.as_ref().is_none_or(matches) && !arguments.skip.iter().any(matches)
}
