//! `cargo xtask upstream-tests`: LLVM's own tests of clang-linker-wrapper, with fatlink in its place.
//!
//! The tests stay out of this repository. Calls that cannot pass are listed with their reasons in `lit-tests/upstream/known.txt`; any
//! other that fails is an error, and so is a listed one that passes.

mod calls;
mod known;
pub mod programs;
pub mod source;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder, read_text, write_file};
use crate::step::step;
use crate::toolchain::{LLVM, Toolchain, remove_folder};

/// A release of LLVM whose tests are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Release {
    /// The release whose tools fatlink replaces.
    #[value(name = "22")]
    Llvm22,
    /// The next one; fatlink follows its rules with an option.
    #[value(name = "23")]
    Llvm23,
}

impl Release {
    fn number(self) -> &'static str {
        match self {
            Release::Llvm22 => "22",
            Release::Llvm23 => "23",
        }
    }

    /// Its full version.
    pub fn version(self) -> &'static str {
        match self {
            Release::Llvm22 => "22.1.8",
            Release::Llvm23 => "23.1.1",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Release::Llvm22 => "llvm-toolchain-22",
            Release::Llvm23 => "llvm-toolchain-23",
        }
    }

    /// Where the tests are in LLVM's sources.
    fn folder(self) -> &'static str {
        match self {
            Release::Llvm22 => "clang/test/Driver",
            Release::Llvm23 => "clang/test/OffloadTools/clang-linker-wrapper",
        }
    }

    /// Debian's suites that may have the source.
    fn suites(self) -> [&'static str; 3] {
        ["bookworm-security", "testing", "sid"]
    }

    /// What every call of the tool gets.
    fn options(self) -> &'static str {
        match self {
            Release::Llvm22 => "",
            Release::Llvm23 => "--offload-llvm-rules=23",
        }
    }
}

/// Runs the tests on `dist/`.
pub fn run(repository: &Repository, release: Release, tests: Option<&Path>) -> Result<()> {
    let toolchain = Toolchain::locate(repository)?;
    let sources = match tests {
        Some(folder) => folder.to_owned(),
        None => source::install(&toolchain, release, source::Part::Tool)?,
    };
    let folder = repository.target.join("upstream-tests").join(release.number());
    remove_folder(&folder)?;
    create_folder(&folder)?;
    let mut tests = Vec::new();
    for path in test_files(&sources)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = read_text(&path)?;
        let (text, runs) = calls::rewrite(&text);
        let written = folder.join(&name);
        write_file(&written, text)?;
        tests.push(Test { name, runs });
    }
    let configuration = folder.join("lit.cfg.py");
    std::fs::write(&configuration, include_str!("../../lit-tests/upstream/lit.cfg.py"))
        .map_err(|error| Failure::file("write", &configuration, &error))?;
    step(&format!("run {} tests of LLVM {}", tests.len(), release.version()), |progress| {
        let mut lit = Command::new("lit");
        Environment::new(repository, &toolchain).apply(&mut lit);
        let parameters = [
            ("tests", folder.display().to_string()),
            ("wrapper", repository.dist().join("bin/clang-linker-wrapper").display().to_string()),
            ("llvm", LLVM.to_owned()),
            ("options", release.options().to_owned()),
        ];
        lit.args(["--quiet", "--ignore-fail"]);
        lit.args(parameters.iter().flat_map(|(name, value)| ["--param".to_owned(), format!("{name}={value}")]));
        progress.run(lit.arg(&folder)).map(|_| "")
    })?;
    report(release, &tests, &folder.join("out/Output"))
}

struct Test {
    name: String,
    runs: Vec<calls::Run>,
}

fn test_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::file("read", folder, &error))?;
    let is_test = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("linker-wrapper") && name.ends_with(".c")
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_test).collect();
    files.sort();
    if files.is_empty() {
        return Err(Failure::new(format!("{} has no tests linker-wrapper*.c", folder.display())));
    }
    Ok(files)
}

/// Prints each call with its result.
fn report(release: Release, tests: &[Test], output: &Path) -> Result<()> {
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
            let known = known::reason(release.number(), &test.name, &prefix);
            let verdict = match (pass, known) {
                (true, None) => "pass".to_owned(),
                (false, Some((why, remark))) => format!("fail: {} {remark}", why.words()).trim_end().to_owned(),
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
