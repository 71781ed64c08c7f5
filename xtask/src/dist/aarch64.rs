//! `cargo xtask dist --aarch64`: the programs and the C library for AArch64, compiled here, in `dist-aarch64/`.
//!
//! LLVM is that of PyPI's packages, which has 23. The programs run under qemu here, which writes their pages.

use std::path::PathBuf;
use std::process::Command;

use super::{Built, DISTRIBUTORS, FATLINK, PROGRAMS, archive, flags_of, lay_out_all, library, replace, run_cargo};
use crate::failure::{Failure, Result};
use crate::llvm_release::LlvmRelease;
use crate::repository::Repository;
use crate::step::{Progress, step};
use crate::toolchain::Toolchain;
use crate::wheels::Wheels;
use crate::{debian, setup, sysroot};

/// As Rust names it.
pub const TARGET: &str = "aarch64-unknown-linux-gnu";

const LLVM: Wheels = Wheels {
    title: "LLVM 23 for AArch64",
    pins: include_str!("../../llvm-23-aarch64-wheels.txt"),
    folder: "llvm-23-aarch64",
    proof: "mlc_llvm_static/static/lib/libLLVMNVPTXCodeGen.a",
    platform: Some("manylinux_2_28_aarch64"),
};

/// Installs what is missing, builds and lays out, and writes the archive if that is wanted.
pub fn run(repository: &Repository, with_archive: bool) -> Result<()> {
    let toolchain = setup::install(repository)?;
    install(&toolchain)?;
    let ours = repository.for_machine("aarch64");
    step("build the programs for AArch64 into dist-aarch64/", |progress| {
        // Features are those of all packages of a run of cargo: only fatlink's has LLVM's.
        let others = PROGRAMS.iter().chain(&DISTRIBUTORS).map(|(package, _)| *package).filter(|name| *name != FATLINK);
        let mut cargo = build(repository, &ours, &toolchain);
        cargo.args(
            others
                .chain(library::LIBRARIES.map(|library| library.package))
                .map(|package| format!("--package={package}")),
        );
        run_cargo(progress, &mut cargo)?;
        let mut cargo = build(repository, &ours, &toolchain);
        LlvmRelease::Llvm23.choose(cargo.arg(format!("--package={FATLINK}")), &toolchain);
        cargo.env("LLVM_SYS_231_PREFIX", LLVM.place(&toolchain).join("mlc_llvm_static/static"));
        run_cargo(progress, &mut cargo)?;
        let built = Built { folder: &ours.target.join(TARGET).join("release"), put: replace };
        lay_out_all(&ours, &toolchain, progress, built, &sysroot::AARCH64)
    })?;
    if with_archive { archive::write(&ours) } else { Ok(()) }
}

/// Compiles a package whose program is not in dist-aarch64/, and returns that program.
pub fn compile(repository: &Repository, toolchain: &Toolchain, progress: &Progress, package: &str) -> Result<PathBuf> {
    let ours = repository.for_machine("aarch64");
    run_cargo(progress, build(repository, &ours, toolchain).arg(format!("--package={package}")))?;
    Ok(ours.target.join(TARGET).join("release").join(package))
}

/// Installs Rust's library, a C++ compiler, LLVM's libraries and Debian's C library for AArch64.
fn install(toolchain: &Toolchain) -> Result<()> {
    step("install Rust's library and a C++ compiler for AArch64", |progress| {
        debian::install_for(progress, "aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu")?;
        progress
            .run(Command::new("rustup").args(["target", "add", TARGET]))
            .map(drop)
            .map_err(|failure| Failure::new(format!("rustup cannot install {TARGET}: {}", failure.tool_error())))
    })?;
    LLVM.install(toolchain)?;
    sysroot::AARCH64.install(toolchain)
}

fn build(repository: &Repository, ours: &Repository, toolchain: &Toolchain) -> Command {
    let mut cargo = repository.cargo("build");
    cargo.args(["--release", "--locked", "--target", TARGET, "--target-dir"]).arg(&ours.target);
    compile_for(&mut cargo, toolchain);
    cargo
}

/// Tells cargo the tools for AArch64.
pub fn compile_for(cargo: &mut Command, toolchain: &Toolchain) {
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags_of(sysroot::AARCH64.linker(toolchain)));
    for (variable, tool) in [("CC", "gcc"), ("CXX", "g++"), ("AR", "ar")] {
        cargo.env(format!("{variable}_{}", TARGET.replace('-', "_")), format!("aarch64-linux-gnu-{tool}"));
    }
}
