//! `cargo xtask bench`: builds and runs the crate in benchmarks/, which needs more dependencies than xtask has.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::failure::{Failure, Result};
use crate::repository::Repository;

/// Passes the arguments on, and returns the exit code of the benchmark.
pub fn run(repository: &Repository, arguments: &[OsString]) -> Result<ExitCode> {
    let mut cargo = repository.cargo_here("run");
    cargo.args(["--quiet", "--locked", "--package", "fatlink-benchmarks", "--"]).args(arguments);
    let status = cargo.status().map_err(|error| Failure::new(format!("cannot run cargo: {error}")))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
