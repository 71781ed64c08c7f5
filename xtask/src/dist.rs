//! `cargo xtask dist`: the programs and the C library as a user installs them.
//!
//! `dist/bin` is for clang's `-B`: one program under the three names that it is looked up by. `dist/gcc` is for gcc's
//! `-B`, under the names of all linkers that gcc knows, and stands apart, because clang would take a `ld` beside its linker
//! wrapper for the host linker. `dist/share` holds man pages and shell completions, `dist/lib` libnvfatbin and a CMake package.

pub(crate) mod archive;
mod cmake;
mod completions;
mod distributor_pages;
mod library;
pub(crate) mod licenses;
mod pages;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder, replace_link};
use crate::step::{Progress, step};
use crate::toolchain::Toolchain;
use crate::{setup, sysroot};

/// Each with its package.
const PROGRAMS: [(&str, &str); 4] = [
    ("linker-wrapper", "fatlink"),
    ("offload-bundle", "offload-bundle"),
    ("distributor", "fatlink-slurm"),
    ("distributor-reapi", "fatlink-reapi"),
];
const LINKS: [(&str, &str); 7] = [
    ("bin/clang-linker-wrapper", "fatlink"),
    ("bin/ld.fatlink", "fatlink"),
    ("gcc/ld", "../bin/fatlink"),
    ("gcc/ld.bfd", "../bin/fatlink"),
    ("gcc/ld.gold", "../bin/fatlink"),
    ("gcc/ld.lld", "../bin/fatlink"),
    ("gcc/ld.mold", "../bin/fatlink"),
];

/// Installs what is missing, builds and lays out, and writes the archive if that is wanted.
pub fn run(repository: &Repository, with_archive: bool) -> Result<()> {
    let toolchain = setup::install(repository)?;
    build(repository, &toolchain)?;
    if with_archive { archive::write(repository) } else { Ok(()) }
}

/// Builds and lays out.
pub fn build(repository: &Repository, toolchain: &Toolchain) -> Result<()> {
    step("build fatlink, offload-bundle and the distributors into dist/", |progress| {
        for (package, program) in PROGRAMS {
            build_program(repository, toolchain, progress, package, program)?;
        }
        lay_out(&repository.target.join("release"), &repository.dist())?;
        cmake::write(repository)?;
        pages::write(repository, progress)?;
        distributor_pages::write(repository, progress).map(|()| "")
    })?;
    step("build libnvfatbin into dist/", |progress| library::build(repository, toolchain, progress).map(|()| ""))
}

/// Differs from `cargo build --release` only in how the program is linked, so that cargo reuses everything else.
pub(crate) fn build_program(
    repository: &Repository,
    toolchain: &Toolchain,
    progress: &Progress,
    package: &str,
    program: &str,
) -> Result<()> {
    let mut cargo = repository.cargo("rustc");
    cargo.args(["--release", "--locked", "--package", package, "--bin", program]);
    // A build for another target would land elsewhere, and would not run here.
    cargo.arg("--target-dir").arg(&repository.target).env_remove("CARGO_BUILD_TARGET");
    let (linker, words) = sysroot::linker(toolchain);
    cargo.arg("--").arg(option("linker", linker.as_os_str()));
    cargo.args(words.iter().map(|word| option("link-arg", word)));
    progress.run(&mut cargo).map(drop).map_err(|failure| failure.led_by("cargo build failed"))
}

/// One of rustc's `-C` options.
pub(crate) fn option(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(format!("-C{name}="));
    word.push(value);
    word
}

fn lay_out(built: &Path, dist: &Path) -> Result<()> {
    create_folder(&dist.join("bin"))?;
    create_folder(&dist.join("gcc"))?;
    for (_, program) in PROGRAMS {
        replace(&built.join(program), &dist.join("bin").join(program))?;
    }
    LINKS.into_iter().try_for_each(|(link, program)| replace_link(program, &dist.join(link)))
}

/// Replaces a file atomically: a link that runs meanwhile sees the old program or the new one.
fn replace(from: &Path, to: &Path) -> Result<()> {
    let partial = to.with_extension("partial");
    std::fs::copy(from, &partial).map_err(|error| Failure::file("copy", from, &error))?;
    std::fs::rename(&partial, to).map_err(|error| Failure::file("replace", to, &error))
}
