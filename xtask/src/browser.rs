//! `cargo xtask test --browser [REPORT...]` and `--farm [ENGINE...]`: tests by scripts in Python, which use what comes from Debian and PyPI
//! and is installed as root. The default run leaves them out.

use std::path::PathBuf;
use std::process::Command;

use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::llvm_release::LlvmRelease;
use crate::repository::{Repository, create_folder};
use crate::{debian, dist, setup};

/// Debian's Python, which has Debian's client of the browser.
const PYTHON: &str = "/usr/bin/python3";

/// Opens reports of every kind, which the script makes, and `reports` in headless Chromium. Screenshots stay in the target folder.
pub fn run(repository: &Repository, reports: &[PathBuf]) -> Result<()> {
    install()?;
    let mut python = script(repository, "html-report/browser/test.py");
    python.args(reports);
    test(repository, python, "browser", "reports failed in the browser; screenshots are in")
}

/// Links with real engines for jobs on other machines and for shared results: with these, or with all. The script's folder has a file for each.
pub fn farm(repository: &Repository, engines: &[String]) -> Result<()> {
    let mut python = script(repository, "benchmarks/farm/farm.py");
    python.args(engines.iter().map(|engine| format!("--engine={engine}")));
    test(repository, python, "farm", "tests of engines failed; the logs of the servers are in")
}

/// Builds dist/ and runs a script on it, which prints a line for each test.
fn test(repository: &Repository, mut python: Command, folder: &str, failed: &str) -> Result<()> {
    let toolchain = setup::install(repository)?;
    dist::build(repository, &toolchain, LlvmRelease::default())?;
    let work = repository.target.join(folder);
    create_folder(&work)?;
    Environment::new(repository, &toolchain).apply(&mut python);
    python.arg("--dist").arg(repository.dist()).arg("--work").arg(&work);
    let status = python.status().map_err(|error| Failure::new(format!("cannot run {PYTHON}: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("{failed} {}", work.display()))) }
}

/// A script, which leaves no compiled code in its folder.
pub fn script(repository: &Repository, script: &str) -> Command {
    let mut python = Command::new(PYTHON);
    python.arg("-B").arg(repository.root.join(script));
    python
}

/// Installs what a test in the browser needs.
pub fn install() -> Result<()> {
    debian::install_browser()
}
