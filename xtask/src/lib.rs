//! The project's own commands, run as `cargo xtask COMMAND`.
//!
//! A bare machine compiles this crate first, and `setup` installs everything else; its dependencies are therefore few and
//! need nothing but Rust. `fatlink-benchmarks` builds on the public modules.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "commands for a developer's terminal")]

mod apt;
mod arguments;
mod bench;
pub mod browser;
mod chroot;
pub mod cuda;
pub mod cuda_release;
mod debian;
mod demo;
pub mod dist;
mod docs;
pub mod environment;
pub mod failure;
mod fuzz;
mod lit;
pub mod llvm_release;
mod llvm_source;
mod openmp_device;
mod package;
mod package_test;
mod release_notes;
mod releases;
pub mod repository;
mod rocm;
mod roundtrip;
mod sarif;
pub mod setup;
pub mod step;
mod sysroot;
mod test;
pub mod toolchain;
mod upstream;
mod wheels;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Subcommand};
use failure::Result;
use repository::Repository;
use setup::Others;

/// Runs the command that this process was started with.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match Repository::find().and_then(|repository| run(&repository, &arguments.subcommand)) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(repository: &Repository, subcommand: &Subcommand) -> Result<ExitCode> {
    match subcommand {
        Subcommand::Demo => demo::run(repository)?,
        Subcommand::Test { quick: true, .. } => test::quick::run(repository)?,
        Subcommand::Test { big: true, .. } => test::big(repository)?,
        Subcommand::Test { rocm: true, .. } => test::rocm(repository)?,
        Subcommand::Test { farm: Some(engines), .. } => browser::farm(repository, engines)?,
        Subcommand::Test { packages: true, no_build, .. } => package_test::run(repository, *no_build)?,
        Subcommand::Test { browser: Some(reports), .. } => browser::run(repository, reports)?,
        Subcommand::Test { stress: true, selection, .. } => return Ok(code(test::stress::run(repository, selection)?)),
        Subcommand::Test { nightly: true, selection, .. } => {
            return Ok(code(test::nightly::run(repository, selection)?));
        }
        Subcommand::Test { selection, .. } => return Ok(code(test::run(repository, selection)?)),
        Subcommand::Setup { openmp_device, rocm, llvm, cuda } => {
            setup::run(repository, &Others { openmp_device: *openmp_device, rocm: *rocm, llvm: *llvm, cuda })?;
        }
        Subcommand::Env => environment::run(repository)?,
        Subcommand::Bench { arguments } => return bench::run(repository, arguments),
        Subcommand::Fuzz { seconds, targets } => fuzz::run(repository, *seconds, targets)?,
        Subcommand::Releases { check } => releases::run(repository, *check)?,
        Subcommand::ReleaseNotes { tag } => release_notes::run(repository, tag)?,
        Subcommand::Roundtrip => roundtrip::run(repository)?,
        Subcommand::UpstreamTests { programs: true, .. } => upstream::programs::run(repository)?,
        Subcommand::UpstreamTests { llvm, tests, .. } => upstream::run(repository, llvm, tests.as_deref())?,
        Subcommand::Dist { archive, aarch64: true, wheel, .. } => {
            dist::aarch64::run(repository, *archive)?;
            if *wheel {
                package::wheel::write_for_aarch64(repository)?;
            }
        }
        Subcommand::Dist { archive, llvm, .. } => dist::run(repository, *archive, *llvm)?,
        Subcommand::Docs => docs::run(repository)?,
        Subcommand::Package { no_build, image } => package::run(repository, *no_build, *image)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn code(passed: bool) -> ExitCode {
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
