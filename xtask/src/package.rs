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

use crate::dist::{self, archive};
use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder};
use crate::setup;
use crate::step::{Progress, step};
use crate::toolchain::{Toolchain, remove_folder};

/// The version of all packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The files of all packages.
pub struct Packages {
    /// The Debian package.
    pub deb: PathBuf,
    /// The Python wheel.
    pub wheel: PathBuf,
    /// The archive of `cargo xtask dist --archive`.
    pub archive: PathBuf,
}

/// Builds dist/, unless it is to be taken as it is, and writes all packages of it into the target folder.
pub fn run(repository: &Repository, is_built: bool) -> Result<()> {
    let toolchain = setup::install(repository)?;
    if !is_built {
        dist::build(repository, &toolchain)?;
    }
    write_all(repository, &toolchain)?;
    let folder = output_folder(repository)?;
    println!("  {}\n  {}", deb::path(&folder).display(), wheel::path(&folder).display());
    Ok(())
}

/// Writes the packages of a dist/ that is built already.
pub fn write_all(repository: &Repository, toolchain: &Toolchain) -> Result<()> {
    let folder = output_folder(repository)?;
    wheel::MATURIN.install(toolchain)?;
    step("check that dist/ needs no newer glibc than 2.31", |progress| {
        symbol_versions::check(progress, &repository.dist())
    })?;
    step("write the Python wheel", |progress| {
        wheel::write_wheel(repository, toolchain, progress, &folder).map(|()| "")
    })?;
    step("write the Debian package", |progress| deb::write_package(repository, progress, &folder).map(|()| ""))?;
    archive::write(repository)?;
    step("write their checksums", |progress| write_checksums(repository, progress, &folder).map(|()| ""))
}

/// Puts the archive beside the packages, and the hashes of all of them.
fn write_checksums(repository: &Repository, progress: &Progress, folder: &Path) -> Result<()> {
    let from = archive::path(repository);
    let name = PathBuf::from(from.file_name().unwrap_or_default());
    std::fs::copy(&from, folder.join(&name)).map_err(|error| Failure::file("copy", &from, &error))?;
    let file_name = |path: PathBuf| PathBuf::from(path.file_name().unwrap_or_default());
    let files = [name, file_name(deb::path(folder)), file_name(wheel::path(folder))];
    write(&folder.join(archive::CHECKSUMS), archive::sha256(progress, &files, folder)?)
}

/// The packages that were written last.
pub fn find(repository: &Repository) -> Result<Packages> {
    let folder = output_folder(repository)?;
    let packages =
        Packages { deb: deb::path(&folder), wheel: wheel::path(&folder), archive: archive::path(repository) };
    for path in [&packages.deb, &packages.wheel, &packages.archive] {
        if !path.is_file() {
            return Err(Failure::new(format!(
                "{} is missing: `cargo xtask package` and `cargo xtask dist --archive` write the packages",
                path.display()
            )));
        }
    }
    Ok(packages)
}

fn output_folder(repository: &Repository) -> Result<PathBuf> {
    let folder = repository.target.join("packages");
    create_folder(&folder)?;
    Ok(folder)
}

/// An empty folder.
pub fn fresh_folder(path: &Path) -> Result<()> {
    remove_folder(path)?;
    create_folder(path)
}

fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    if let Some(folder) = path.parent() {
        create_folder(folder)?;
    }
    std::fs::write(path, text).map_err(|error| Failure::file("write", path, &error))
}
