//! `cargo xtask dist`: the programs and the C library as a user installs them.
//!
//! `dist/bin` is for clang's `-B`: one program under the three names that it is looked up by. `dist/gcc` is for gcc's
//! `-B`, under the names of all linkers that gcc knows, and stands apart, because clang would take a `ld` beside its linker
//! wrapper for the host linker. `dist/share` holds man pages and shell completions.

use std::path::Path;

use crate::failure::{Failure, Result};
use crate::pages;
use crate::repository::{Repository, create_folder, replace_link};
use crate::step::step;
use crate::{library, setup};

const PROGRAMS: [&str; 2] = ["fatlink", "offload-bundle"];
const LINKS: [(&str, &str); 7] = [
    ("bin/clang-linker-wrapper", "fatlink"),
    ("bin/ld.fatlink", "fatlink"),
    ("gcc/ld", "../bin/fatlink"),
    ("gcc/ld.bfd", "../bin/fatlink"),
    ("gcc/ld.gold", "../bin/fatlink"),
    ("gcc/ld.lld", "../bin/fatlink"),
    ("gcc/ld.mold", "../bin/fatlink"),
];

/// Builds and lays out, on a machine that may still lack the tools.
pub fn run(repository: &Repository) -> Result<()> {
    setup::install(repository)?;
    build(repository)
}

/// Builds and lays out.
pub fn build(repository: &Repository) -> Result<()> {
    step("build fatlink and offload-bundle into dist/", |progress| {
        let mut cargo = repository.cargo("build");
        cargo.args(["--release", "--locked", "--package=linker-wrapper", "--package=offload-bundle", "--bins"]);
        // A build for another target would land elsewhere, and would not run here.
        cargo.arg("--target-dir").arg(&repository.target).env_remove("CARGO_BUILD_TARGET");
        progress.run(&mut cargo).map_err(|failure| failure.led_by("cargo build failed"))?;
        lay_out(&repository.target.join("release"), &repository.dist())?;
        pages::write(repository, progress).map(|()| "")
    })?;
    step("build libnvfatbin into dist/", |progress| library::build(repository, progress).map(|()| ""))
}

fn lay_out(built: &Path, dist: &Path) -> Result<()> {
    create_folder(&dist.join("bin"))?;
    create_folder(&dist.join("gcc"))?;
    for program in PROGRAMS {
        copy_whole(&built.join(program), &dist.join("bin").join(program))?;
    }
    LINKS.into_iter().try_for_each(|(link, program)| replace_link(program, &dist.join(link)))
}

/// A link that runs meanwhile sees the old program or the new one, never half of it.
fn copy_whole(from: &Path, to: &Path) -> Result<()> {
    let partial = to.with_extension("partial");
    std::fs::copy(from, &partial).map_err(|error| Failure::file("copy", from, &error))?;
    std::fs::rename(&partial, to).map_err(|error| Failure::file("replace", to, &error))
}
