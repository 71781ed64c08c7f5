//! `cargo xtask package`: packages of dist/.
//!
//! They install into a prefix that other software shares: `prefix.rs` says what goes where, and `symbol_versions.rs` checks that
//! nothing in it needs a newer glibc than the packages promise.

mod copyright;
mod deb;
mod depends;
mod prefix;
mod symbol_versions;
mod wheel;

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder};
use crate::step::step;
use crate::toolchain::{Toolchain, remove_folder};
use crate::{dist, setup};

/// The version of all packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The files that were written.
pub struct Packages {
    /// The Debian package.
    pub deb: PathBuf,
    /// The Python wheel.
    pub wheel: PathBuf,
}

/// Builds dist/, unless it is to be taken as it is, and writes the packages of it into `target/packages`.
pub fn run(repository: &Repository, is_built: bool) -> Result<()> {
    let toolchain = setup::install(repository)?;
    if !is_built {
        dist::build(repository, &toolchain)?;
    }
    let packages = write_all(repository, &toolchain)?;
    println!("  {}\n  {}", packages.deb.display(), packages.wheel.display());
    Ok(())
}

/// Writes the packages of a dist/ that is built already.
pub fn write_all(repository: &Repository, toolchain: &Toolchain) -> Result<Packages> {
    let folder = output_folder(repository)?;
    wheel::MATURIN.install(toolchain)?;
    check_glibc(repository)?;
    let (mut deb, mut wheel) = (PathBuf::new(), PathBuf::new());
    step("write the Python wheel", |progress| {
        wheel = wheel::write_wheel(repository, toolchain, progress, &folder)?;
        Ok("")
    })?;
    step("write the Debian package", |progress| {
        deb = deb::write_package(repository, progress, &folder)?;
        Ok("")
    })?;
    Ok(Packages { deb, wheel })
}

fn output_folder(repository: &Repository) -> Result<PathBuf> {
    let folder = repository.target.join("packages");
    create_folder(&folder)?;
    Ok(folder)
}

fn check_glibc(repository: &Repository) -> Result<()> {
    step("check that dist/ needs no newer glibc than 2.31", |progress| {
        symbol_versions::check(progress, &repository.dist())
    })
}

/// An empty folder.
fn fresh_folder(path: &Path) -> Result<()> {
    remove_folder(path)?;
    create_folder(path)
}

fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    if let Some(folder) = path.parent() {
        create_folder(folder)?;
    }
    std::fs::write(path, text).map_err(|error| Failure::file("write", path, &error))
}
