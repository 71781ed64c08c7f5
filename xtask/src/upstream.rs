//! `cargo xtask upstream-tests`: LLVM's own tests of clang-linker-wrapper, with fatlink in its place.
//!
//! The tests stay out of this repository. Calls that cannot pass are listed with their reasons in `lit-tests/upstream/known.txt`; any
//! other that fails is an error, and so is a listed one that passes.

mod calls;
mod known;
pub mod programs;

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::lit::lit;
use crate::llvm_source::{self, Release};
use crate::repository::{Repository, files_in, name_of, read_text, write_file};
use crate::step::step;
use crate::toolchain::{LLVM, Toolchain, fresh_folder};

/// Runs the tests on `dist/`.
pub fn run(repository: &Repository, release: &Release, tests: Option<&Path>) -> Result<()> {
    let (toolchain, dist) = (Toolchain::locate(repository)?, repository.built_dist()?);
    let sources = match tests {
        Some(folder) => folder.to_owned(),
        None => llvm_source::install(&toolchain, release, &llvm_source::Part::of_tool(release))?,
    };
    let folder = repository.target.join("upstream-tests").join(release.number);
    fresh_folder(&folder)?;
    let mut tests = Vec::new();
    for path in test_files(&sources)? {
        let name = name_of(&path);
        let (text, runs) = calls::rewrite(&read_text(&path)?);
        write_file(&folder.join(&name), text)?;
        tests.push(Test { name, runs });
    }
    write_file(&folder.join("lit.cfg.py"), include_str!("../../lit-tests/upstream/lit.cfg.py"))?;
    step(&format!("run {} tests of LLVM {}", tests.len(), release.version), |progress| {
        let wrapper = dist.join("bin/clang-linker-wrapper");
        let mut lit = lit(
            &Environment::new(repository, &toolchain),
            &[("tests", &folder), ("wrapper", &wrapper), ("llvm", &LLVM), ("options", &release.options)],
        );
        progress.run(lit.args(["--quiet", "--ignore-fail"]).arg(&folder)).map(drop)
    })?;
    report(release, &tests, &folder.join("out/Output"))
}

struct Test {
    name: String,
    runs: Vec<calls::Run>,
}

fn test_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let is_test = |path: &PathBuf| {
        let name = name_of(path);
        name.starts_with("linker-wrapper") && name.ends_with(".c")
    };
    let files: Vec<PathBuf> = files_in(folder)?.into_iter().filter(is_test).collect();
    if files.is_empty() {
        return Err(Failure::new(format!("{} has no tests linker-wrapper*.c", folder.display())));
    }
    Ok(files)
}

/// Prints each call with its result.
fn report(release: &Release, tests: &[Test], output: &Path) -> Result<()> {
    let (mut passed, mut calls) = (0, 0);
    let mut unexpected = Vec::new();
    for test in tests {
        let recorded = output.join(format!("{}.tmp.results", test.name));
        let recorded = read_text(&recorded)?;
        let results: Vec<(usize, bool)> = calls::results(&recorded).collect();
        for run in &test.runs {
            let pass = results.contains(&(run.line, true));
            let prefix = if run.prefix.is_empty() { run.line.to_string() } else { run.prefix.clone() };
            let name = format!("{}:{} {prefix}", test.name, run.line);
            let known = known::reason(release.number, &test.name, &prefix);
            let verdict = match (pass, known) {
                (true, None) => "pass".to_owned(),
                (false, Some((why, remark))) => format!("fail: {why} {remark}").trim_end().to_owned(),
                (true, Some(_)) => {
                    unexpected.push(format!("{name} passes: remove it from lit-tests/upstream/known.txt"));
                    "pass, although listed".to_owned()
                }
                (false, None) => {
                    let log = output.join(format!("{}.tmp.{}.log", test.name, run.line));
                    unexpected.push(format!("{name} fails: see {}", log.display()));
                    "FAIL".to_owned()
                }
            };
            if run.is_call {
                calls += 1;
                passed += usize::from(pass);
                println!("{name}: {verdict}");
            }
        }
    }
    println!("{passed} of {calls} calls pass");
    if unexpected.is_empty() { Ok(()) } else { Err(Failure::new(unexpected.join("\n"))) }
}
