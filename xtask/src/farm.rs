//! `cargo xtask test --farm [ENGINE...]`: links with real engines for jobs on other machines and for shared results. The default run leaves it
//! out, because it installs servers from Debian and PyPI and starts them, as root.

use std::process::Command;

use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder};
use crate::{dist, setup};

/// Its folder has one file for each engine.
const SCRIPT: &str = "benchmarks/farm/farm.py";

/// Builds dist/ and runs the tests of these engines, or of all. Each prints a line.
pub fn run(repository: &Repository, engines: &[String]) -> Result<()> {
    let toolchain = setup::install(repository)?;
    dist::build(repository, &toolchain)?;
    let work = repository.target.join("farm");
    create_folder(&work)?;
    let mut python = Command::new("python3");
    Environment::new(repository, &toolchain).apply(&mut python);
    python.arg("-B").arg(repository.root.join(SCRIPT));
    python.arg("--dist").arg(repository.dist()).arg("--cuda").arg(toolchain.cuda()).arg("--work").arg(&work);
    python.args(engines.iter().map(|engine| format!("--engine={engine}")));
    let status = python.status().map_err(|error| Failure::new(format!("cannot run python3: {error}")))?;
    let failed = || Failure::new(format!("tests of engines failed; the logs of the servers are in {}", work.display()));
    if status.success() { Ok(()) } else { Err(failed()) }
}
