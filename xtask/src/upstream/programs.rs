//! `cargo xtask upstream-tests --programs`: LLVM's programs that offload to x86-64, linked by LLVM's tool and by fatlink, and run.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::lit::lit;
use crate::llvm_source::{self, LLVM_22};
use crate::repository::{Repository, create_folder, read_text, write_file};
use crate::step::step;
use crate::toolchain::{LLVM, Toolchain, remove_folder};

const CONFIGURATION: &str = include_str!("../../../lit-tests/upstream/programs.cfg.py");

/// Seconds for a program; some of the failing ones do not end.
const LIMIT: &str = "60";

/// Links and runs them with both tools. An error names the programs that pass with LLVM's tool alone.
pub fn run(repository: &Repository) -> Result<()> {
    let (toolchain, dist) = (Toolchain::locate(repository)?, repository.built_dist()?);
    let tests = llvm_source::install(&toolchain, &LLVM_22, &llvm_source::PROGRAMS)?;
    let flags = format!("-B {}", dist.join("bin").display());
    let theirs = results(repository, &toolchain, &tests, "LLVM's tool", "")?;
    let ours = results(repository, &toolchain, &tests, "fatlink", &flags)?;
    compare(&theirs, &ours)
}

/// Runs all with one tool; returns the verdict of each test that is not unsupported.
fn results(
    repository: &Repository,
    toolchain: &Toolchain,
    tests: &Path,
    tool: &str,
    flags: &str,
) -> Result<BTreeMap<String, String>> {
    let name = if flags.is_empty() { "programs-llvm" } else { "programs" };
    let folder = repository.target.join("upstream-tests").join(name);
    remove_folder(&folder)?;
    let output = folder.join("out");
    create_folder(&output)?;
    let (configuration, report) = (folder.join("lit.site.cfg"), folder.join("results.json"));
    write_file(&configuration, CONFIGURATION)?;
    step(&format!("link LLVM's programs by {tool}, and run them"), |progress| {
        let mut lit = lit(
            &Environment::new(repository, toolchain),
            &[("tests", &tests), ("output", &output), ("llvm", &LLVM), ("flags", &flags)],
        );
        lit.args(["--quiet", "--ignore-fail", "--timeout", LIMIT, "--output"]).arg(&report);
        progress.run(lit.arg(&folder)).map(drop)
    })?;
    let text = read_text(&report)?;
    verdicts(&text).ok_or_else(|| Failure::new(format!("{} is no report of lit", report.display())))
}

/// The verdicts in lit's report, by test.
fn verdicts(report: &str) -> Option<BTreeMap<String, String>> {
    let report: Value = serde_json::from_str(report).ok()?;
    let tests = report["tests"].as_array()?.iter();
    let verdict = |test: &Value| Some((test["name"].as_str()?.to_owned(), test["code"].as_str()?.to_owned()));
    let all: BTreeMap<String, String> = tests.map(verdict).collect::<Option<_>>()?;
    Some(all.into_iter().filter(|(_, code)| code != "UNSUPPORTED" && code != "EXCLUDED").collect())
}

fn compare(theirs: &BTreeMap<String, String>, ours: &BTreeMap<String, String>) -> Result<()> {
    let passes = |verdicts: &BTreeMap<String, String>, name: &str| {
        verdicts.get(name).is_some_and(|code| matches!(code.as_str(), "PASS" | "FLAKYPASS" | "XFAIL"))
    };
    let count = |verdicts: &BTreeMap<String, String>| verdicts.keys().filter(|name| passes(verdicts, name)).count();
    println!("of {} programs {} pass with LLVM's tool, {} with fatlink", theirs.len(), count(theirs), count(ours));
    let lost: Vec<String> = theirs
        .keys()
        .filter(|name| passes(theirs, name) && !passes(ours, name))
        .map(|name| format!("{name} passes with LLVM's tool alone"))
        .collect();
    let won = ours.keys().filter(|name| passes(ours, name) && !passes(theirs, name));
    won.for_each(|name| println!("{name} passes with fatlink alone"));
    if lost.is_empty() { Ok(()) } else { Err(Failure::new(lost.join("\n"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(verdicts: &[(&str, &str)]) -> BTreeMap<String, String> {
        let tests: Vec<Value> =
            verdicts.iter().map(|(name, code)| serde_json::json!({"name": name, "code": code})).collect();
        super::verdicts(&serde_json::json!({ "tests": tests }).to_string()).unwrap()
    }

    #[test]
    fn what_only_llvm_passes_is_an_error() {
        let theirs = report(&[("a", "PASS"), ("b", "XFAIL"), ("c", "FAIL"), ("d", "UNSUPPORTED")]);
        assert_eq!(theirs.len(), 3);
        assert!(compare(&theirs, &report(&[("a", "PASS"), ("b", "XFAIL"), ("c", "PASS")])).is_ok());
        let lost = compare(&theirs, &report(&[("a", "FAIL"), ("c", "FAIL")])).unwrap_err().to_string();
        assert!(
            lost.contains("a passes with") && lost.contains("b passes with") && !lost.contains("c passes"),
            "{lost}"
        );
        assert_eq!(verdicts("{}"), None);
    }
}
