//! `cargo xtask test --browser [REPORT...]`: opens reports in headless Chromium. The default run leaves it out, because it installs a browser
//! from Debian.

use std::path::PathBuf;
use std::process::Command;

use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder};
use crate::{debian, dist, setup};

/// Makes reports and opens them.
const SCRIPT: &str = "html-report/browser/test.py";

/// Debian's Python, which has Debian's client of the browser.
const PYTHON: &str = "/usr/bin/python3";

/// Builds dist/, makes reports of every kind with it, and opens them and `reports`. Screenshots stay in the target folder.
pub fn run(repository: &Repository, reports: &[PathBuf]) -> Result<()> {
    let toolchain = setup::install(repository)?;
    debian::install_browser()?;
    dist::build(repository, &toolchain)?;
    let work = repository.target.join("browser");
    create_folder(&work)?;
    let mut python = script(repository, SCRIPT);
    Environment::new(repository, &toolchain).apply(&mut python);
    python.arg("--dist").arg(repository.dist()).arg("--work").arg(&work).args(reports);
    let status = python.status().map_err(|error| Failure::new(format!("cannot run {PYTHON}: {error}")))?;
    let failed = || Failure::new(format!("reports failed in the browser; screenshots are in {}", work.display()));
    if status.success() { Ok(()) } else { Err(failed()) }
}

/// A script of the browser's folder, which leaves no compiled code there.
pub fn script(repository: &Repository, script: &str) -> Command {
    let mut python = Command::new(PYTHON);
    python.arg("-B").arg(repository.root.join(script));
    python
}

/// Installs what a benchmark in the browser needs.
pub fn install() -> Result<()> {
    debian::install_browser()
}
