//! `cargo xtask dist`: the programs and the C library as a user installs them.
//!
//! `dist/bin` is for `-B` of clang and gcc: one program as clang's linker wrapper and under the names of all linkers. `dist/gcc` has
//! the linkers alone, `dist/hip` the `lld` by which clang's former offload driver links HIP's device code. `dist/path` is for `PATH`, where no compiler may meet this program as `ld`. `dist/share` holds man pages and shell completions, `dist/lib` the C libraries and a CMake package.

pub(crate) mod aarch64;
pub(crate) mod archive;
mod cmake;
mod completions;
mod library;
pub(crate) mod licenses;
mod pages;
pub mod sbom;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::llvm_release::LlvmRelease;
use crate::repository::{Repository, create_folder, replace_link};
use crate::setup;
use crate::step::{Progress, step};
use crate::sysroot::{self, Sysroot};
use crate::toolchain::{LLVM, Toolchain};

/// The package of fatlink, the only program with LLVM in it.
const FATLINK: &str = "linker-wrapper";

/// A program, and its package.
type Program = (&'static str, &'static str);

/// The program that links.
const LINKER: Program = (FATLINK, "fatlink");
/// The programs that link and inspect files.
pub(crate) const PROGRAMS: [Program; 2] = [LINKER, ("offload-bundle", "offload-bundle")];
/// The programs that run jobs on other machines.
pub(crate) const DISTRIBUTORS: [Program; 2] =
    [("distributor", "fatlink-slurm"), ("distributor-reapi", "fatlink-reapi")];
/// The other names of fatlink, as links.
pub(crate) const LINKS: [(&str, &str); 13] = [
    ("bin/clang-linker-wrapper", "fatlink"),
    ("bin/ld.fatlink", "fatlink"),
    ("bin/ld", "fatlink"),
    ("bin/ld.bfd", "fatlink"),
    ("bin/ld.gold", "fatlink"),
    ("bin/ld.lld", "fatlink"),
    ("bin/ld.mold", "fatlink"),
    ("gcc/ld", "../bin/fatlink"),
    ("gcc/ld.bfd", "../bin/fatlink"),
    ("gcc/ld.gold", "../bin/fatlink"),
    ("gcc/ld.lld", "../bin/fatlink"),
    ("gcc/ld.mold", "../bin/fatlink"),
    ("hip/lld", "../bin/fatlink"),
];

/// Other names of fatlink that may be on `PATH`.
const LINKS_ON_PATH: [&str; 2] = ["clang-linker-wrapper", "ld.fatlink"];

/// Installs what is missing, builds and lays out, and writes the archive if that is wanted.
pub fn run(repository: &Repository, with_archive: bool, llvm: LlvmRelease) -> Result<()> {
    let toolchain = setup::install_to_link(repository)?;
    llvm.install(&toolchain)?;
    build(repository, &toolchain, llvm)?;
    if with_archive { archive::write(repository) } else { Ok(()) }
}

/// Builds and lays out everything.
pub fn build(repository: &Repository, toolchain: &Toolchain, llvm: LlvmRelease) -> Result<()> {
    step("build fatlink, offload-bundle, the distributors and the C libraries into dist/", |progress| {
        if llvm == LlvmRelease::default() {
            compile(repository, toolchain, progress, &packages())?;
        } else {
            let others: Vec<&str> = packages().into_iter().filter(|package| *package != FATLINK).collect();
            compile(repository, toolchain, progress, &others)?;
            build_fatlink(repository, toolchain, progress, llvm)?;
        }
        let built = Built { folder: &repository.target.join("release"), put: replace };
        lay_out_all(repository, toolchain, progress, built, &sysroot::X86_64)
    })
}

/// What cargo has built.
#[derive(Clone, Copy)]
struct Built<'a> {
    folder: &'a Path,
    /// Puts a program of it into its place.
    put: fn(&Path, &Path) -> Result<()>,
}

/// Lays out the programs and libraries.
fn lay_out_all(
    repository: &Repository,
    toolchain: &Toolchain,
    progress: &Progress,
    built: Built<'_>,
    sysroot: &Sysroot,
) -> Result<()> {
    lay_out(repository, &[PROGRAMS, DISTRIBUTORS].concat(), built)?;
    pages::write(repository, progress)?;
    pages::write_of_distributors(repository, progress)?;
    library::lay_out(repository, toolchain, progress, built.folder, sysroot)
}

/// Lays out what cargo has compiled with the dev profile, the programs as links, so that the next build replaces them. `built` has all of it.
///
/// # Errors
/// A program or library could not be built: there may be one of an earlier run in its place.
pub(crate) fn lay_out_debug(repository: &Repository, toolchain: &Toolchain, built: &HashSet<PathBuf>) -> Result<()> {
    step("lay out the programs for their tests", |progress| {
        let folder = repository.target.join("debug");
        let programs = [PROGRAMS, DISTRIBUTORS].concat().into_iter().map(|(_, program)| program);
        let mut files = programs.chain(library::LIBRARIES.map(|library| library.archive.0));
        match files.find(|file| !built.contains(&folder.join(file))) {
            Some(missing) => Err(Failure::new(format!("{missing} could not be built"))),
            None => {
                let link = |program: &Path, place: &Path| replace_link(&program.to_string_lossy(), place);
                let built = Built { folder: &folder, put: link };
                lay_out_all(repository, toolchain, progress, built, &sysroot::X86_64)
            }
        }
    })
}

/// The packages of everything in dist/.
fn packages() -> Vec<&'static str> {
    let programs = [PROGRAMS, DISTRIBUTORS].concat().into_iter().map(|(package, _)| package);
    programs.chain(library::LIBRARIES.map(|library| library.package)).collect()
}

/// Builds and lays out what links on this machine alone, which takes half of the time.
pub fn build_local_linker(repository: &Repository, toolchain: &Toolchain) -> Result<()> {
    step("build fatlink without remote caches", |progress| {
        let mut cargo = release_build(repository, toolchain);
        // All packages decide on the features of what they share, which a build of everything then finds compiled.
        cargo.args(packages().iter().map(|package| format!("--package={package}")));
        cargo.args(["--no-default-features", &format!("--features={FATLINK}/llvm22"), "--bin", LINKER.1]);
        run_cargo(progress, &mut cargo)?;
        lay_out(repository, &[LINKER], Built { folder: &repository.target.join("release"), put: replace })
    })
}

/// Compiles packages in one run of cargo, which compiles what they share once.
pub(crate) fn compile(
    repository: &Repository,
    toolchain: &Toolchain,
    progress: &Progress,
    packages: &[&str],
) -> Result<()> {
    let mut cargo = release_build(repository, toolchain);
    run_cargo(progress, cargo.args(packages.iter().map(|package| format!("--package={package}"))))
}

/// Compiles fatlink with an LLVM that is not the default.
fn build_fatlink(repository: &Repository, toolchain: &Toolchain, progress: &Progress, llvm: LlvmRelease) -> Result<()> {
    let mut cargo = release_build(repository, toolchain);
    llvm.choose(cargo.arg(format!("--package={FATLINK}")), toolchain);
    run_cargo(progress, &mut cargo)
}

/// Cargo's command line without packages.
fn release_build(repository: &Repository, toolchain: &Toolchain) -> Command {
    let mut cargo = repository.cargo("build");
    cargo.args(["--release", "--locked"]);
    cargo.arg("--target-dir").arg(&repository.target);
    compile_for(&mut cargo, toolchain);
    cargo
}

fn run_cargo(progress: &Progress, cargo: &mut Command) -> Result<()> {
    progress.run(cargo).map(drop).map_err(|failure| failure.led_by("cargo build failed"))
}

/// Tells cargo the tools for this machine: those that link with the C library of the toolchain folder, and clang, which compiles C and C++
/// in three quarters of gcc's time. The user's compiler would compile the C libraries again whenever it is another one.
pub(crate) fn compile_for(cargo: &mut Command, toolchain: &Toolchain) {
    // A build for another target would land elsewhere, and would not run here.
    cargo.env_remove("CARGO_BUILD_TARGET").env("CARGO_ENCODED_RUSTFLAGS", flags_of(sysroot::X86_64.linker(toolchain)));
    for (variable, compiler) in [("CC", "clang"), ("CXX", "clang++")] {
        cargo.env(format!("{variable}_x86_64_unknown_linux_gnu"), Path::new(LLVM).join("bin").join(compiler));
    }
}

/// The flags that link with this driver and its options, as `CARGO_ENCODED_RUSTFLAGS` has them.
fn flags_of((linker, words): (PathBuf, [OsString; 3])) -> OsString {
    let mut flags = OsString::from("-Clinker=");
    flags.push(linker);
    for word in words {
        flags.push("\u{1f}-Clink-arg=");
        flags.push(word);
    }
    flags
}

/// Lays out programs.
fn lay_out(repository: &Repository, programs: &[Program], built: Built<'_>) -> Result<()> {
    let dist = repository.dist();
    create_folder(&dist.join("bin"))?;
    create_folder(&dist.join("gcc"))?;
    create_folder(&dist.join("hip"))?;
    create_folder(&dist.join("path"))?;
    let on_path = programs.iter().map(|(_, program)| *program).chain(LINKS_ON_PATH);
    on_path.into_iter().try_for_each(|name| replace_link(&format!("../bin/{name}"), &dist.join("path").join(name)))?;
    let put = |program: &str| (built.put)(&built.folder.join(program), &dist.join("bin").join(program));
    programs.iter().try_for_each(|(_, program)| put(program))?;
    LINKS.into_iter().try_for_each(|(link, program)| replace_link(program, &dist.join(link)))?;
    cmake::write(repository)
}

/// Replaces a file atomically: a link that runs meanwhile sees the old program or the new one.
fn replace(from: &Path, to: &Path) -> Result<()> {
    let partial = to.with_extension("partial");
    std::fs::copy(from, &partial).map_err(|error| Failure::file("copy", from, &error))?;
    std::fs::rename(&partial, to).map_err(|error| Failure::file("replace", to, &error))
}
