//! `cargo xtask package`: packages of dist/.
//!
//! They install into a prefix that other software shares: `prefix.rs` says what goes where, and `symbol_versions.rs` checks that
//! nothing in it needs a newer glibc than the packages promise.

mod deb;
mod image;
mod prefix;
mod symbol_versions;
pub mod wheel;

use std::path::{Path, PathBuf};

pub use deb::STATIC;

use crate::dist::{self, archive, sbom};
use crate::failure::{Failure, Result};
use crate::llvm_release::LlvmRelease;
use crate::repository::{Repository, copy_file, create_folder, name_of, write_file};
use crate::setup;
use crate::step::{Progress, noted_step, step};
use crate::toolchain::{Toolchain, fresh_folder};

/// The version of all packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The files of all packages.
pub struct Packages {
    /// The Debian packages: fatlink's, and that of its static library.
    pub debs: [PathBuf; 2],
    /// The Python wheel.
    pub wheel: PathBuf,
    /// The archives of `cargo xtask dist --archive`: of dist/, and of the static library.
    pub archives: [PathBuf; 2],
}

/// Builds dist/, unless it is to be taken as it is, and writes all packages of it into the target folder.
pub fn run(repository: &Repository, is_built: bool, with_image: bool) -> Result<()> {
    let toolchain = setup::install(repository)?;
    match is_built {
        true => repository.built_dist().map(drop)?,
        false => dist::build(repository, &toolchain, LlvmRelease::default())?,
    }
    write_all(repository, &toolchain)?;
    let folder = output_folder(repository)?;
    for package in [deb::path(&folder), deb::static_path(&folder), wheel::path(repository, &folder)] {
        println!("  {}", package.display());
    }
    if with_image {
        println!("  {}", image::write(repository, &toolchain, &deb::path(&folder), &folder)?.display());
    }
    Ok(())
}

/// Writes the packages of a dist/ that is built already. They get their final place together, when all are complete.
pub fn write_all(repository: &Repository, toolchain: &Toolchain) -> Result<()> {
    let folder = repository.target.join("packages.partial");
    fresh_folder(&folder)?;
    wheel::MATURIN.install(toolchain)?;
    let check = |progress: &Progress| symbol_versions::check(progress, &repository.dist());
    noted_step("check that dist/ needs no newer glibc than 2.31", check, String::clone)?;
    step("write the Python wheel", |progress| wheel::write_wheel(repository, toolchain, progress, &folder))?;
    step("write the Debian packages", |progress| deb::write_packages(repository, progress, &folder))?;
    archive::write(repository)?;
    step("write their bill of materials", |progress| {
        sbom::write(repository, progress, VERSION, &folder.join(sbom_name()))
    })?;
    step("write their checksums", |progress| write_checksums(repository, progress, &folder))?;
    let place = output_folder(repository)?;
    fresh_folder(&place)?;
    std::fs::rename(&folder, &place).map_err(|error| Failure::file("write", &place, &error))
}

fn sbom_name() -> String {
    format!("fatlink-{VERSION}.cdx.json")
}

/// Puts the archives beside the packages, and the hashes of all of them.
fn write_checksums(repository: &Repository, progress: &Progress, folder: &Path) -> Result<()> {
    let file_name = |path: &PathBuf| PathBuf::from(name_of(path));
    let archives = archive::paths(repository);
    for from in &archives {
        copy_file(from, &folder.join(file_name(from)))?;
    }
    let packages = [deb::path(folder), deb::static_path(folder), wheel::path(repository, folder)];
    let files = archives.iter().chain(&packages).map(file_name).chain([PathBuf::from(sbom_name())]);
    let files: Vec<PathBuf> = files.collect();
    write(&folder.join(archive::CHECKSUMS), archive::sha256(progress, &files, folder)?)
}

/// The packages that were written last.
pub fn find(repository: &Repository) -> Result<Packages> {
    let folder = output_folder(repository)?;
    let packages = Packages {
        debs: [deb::path(&folder), deb::static_path(&folder)],
        wheel: wheel::path(repository, &folder),
        archives: archive::paths(repository),
    };
    for path in packages.debs.iter().chain([&packages.wheel]).chain(&packages.archives) {
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

fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    if let Some(folder) = path.parent() {
        create_folder(folder)?;
    }
    write_file(path, text)
}
