//! The Python wheel, built by maturin from a folder that is laid out here: the module `fatlink`, and the programs and the CMake package for
//! the prefix of the environment that it is installed into.
//!
//! Wheels cannot hold symbolic links, so that the program `launcher` takes the place of each other name of fatlink.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::prefix::{self, Placed};
use super::{VERSION, symbol_versions, write};
use crate::dist::{self, aarch64, licenses};
use crate::failure::{Failure, Result};
use crate::repository::{Repository, copy_file, read_text};
use crate::step::{Progress, step};
use crate::toolchain::{Toolchain, fresh_folder};
use crate::wheels::Wheels;

/// The program that builds it.
pub const MATURIN: Wheels = Wheels {
    title: "maturin",
    pins: include_str!("../../maturin-wheels.txt"),
    folder: "maturin",
    proof: "bin/maturin",
    platform: None,
};

/// Where maturin finds, beside this file, what offload-bundle/python/pyproject.toml leaves open.
const PLACES: &str = "\
python-source = \"python\"
data = \"fatlink.data\"
manifest-path = \"../../offload-bundle/python/Cargo.toml\"
";

/// The wheel for the machine of this dist/, in this folder.
pub fn path(repository: &Repository, folder: &Path) -> PathBuf {
    folder.join(format!("fatlink-{VERSION}-cp39-abi3-{}_{}.whl", tag(), repository.machine))
}

/// What the wheel promises about the C library that it needs.
fn tag() -> String {
    format!("manylinux_{}_{}", symbol_versions::GLIBC.0, symbol_versions::GLIBC.1)
}

/// Compiles what the wheel has beside dist/, and writes it into the folder.
pub fn write_wheel(repository: &Repository, toolchain: &Toolchain, progress: &Progress, folder: &Path) -> Result<()> {
    dist::compile(repository, toolchain, progress, &["launcher"])?;
    let launcher = repository.target.join("release/launcher");
    write_with(repository, toolchain, progress, folder, &launcher, |maturin| {
        dist::compile_for(maturin, toolchain);
    })
}

/// Writes the wheel of `dist-aarch64/` into the target folder for AArch64.
pub fn write_for_aarch64(repository: &Repository) -> Result<()> {
    let toolchain = Toolchain::locate(repository)?;
    MATURIN.install(&toolchain)?;
    let ours = repository.for_machine("aarch64");
    step("write the Python wheel for AArch64", |progress| {
        let launcher = aarch64::compile(repository, &toolchain, progress, "launcher")?;
        write_with(&ours, &toolchain, progress, &ours.target, &launcher, |maturin| {
            aarch64::compile_for(maturin.args(["--target", aarch64::TARGET]), &toolchain);
        })
    })?;
    println!("  {}", path(&ours, &ours.target).display());
    Ok(())
}

/// Writes the wheel of this dist/ into the folder. The caller says how maturin compiles the module.
fn write_with(
    repository: &Repository,
    toolchain: &Toolchain,
    progress: &Progress,
    folder: &Path,
    launcher: &Path,
    for_machine: impl FnOnce(&mut Command),
) -> Result<()> {
    // Relative to `offload-bundle/python`, it has to lie at this depth; `CARGO_TARGET_DIR` may be anywhere.
    let work = repository.root.join("target/package-wheel");
    fresh_folder(&work)?;
    lay_out(repository, progress, &work, launcher)?;
    let mut maturin = Command::new(MATURIN.place(toolchain).join("bin/maturin"));
    maturin.current_dir(&work).args(["build", "--release", "--locked", "--auditwheel=check"]);
    maturin
        .arg(format!("--compatibility={}", tag()))
        .arg("--out")
        .arg(folder)
        .arg("--target-dir")
        .arg(&repository.target);
    // One library for all versions of Python: that of the builder does not matter, and need not exist.
    for_machine(maturin.args(["--interpreter", "python3.9"]));
    progress.run(&mut maturin).map_err(|failure| failure.led_by("maturin failed"))?;
    // maturin reads the symbols of the module alone.
    symbol_versions::check_file(progress, launcher)?;
    match path(repository, folder) {
        wheel if wheel.is_file() => Ok(()),
        wheel => Err(Failure::new(format!("maturin has not written {}", wheel.display()))),
    }
}

fn lay_out(repository: &Repository, progress: &Progress, work: &Path, launcher: &Path) -> Result<()> {
    let (dist, sources) = (repository.dist(), repository.root.join("offload-bundle/python"));
    let data = work.join("fatlink.data");
    for Placed { from, to } in [prefix::programs(&dist), prefix::cmake(&dist)?, prefix::pages(&dist)?].concat() {
        copy_file(&from, &data.join(scheme(&to)))?;
    }
    for (place, _) in prefix::names() {
        copy_file(launcher, &data.join(scheme(Path::new(&place))))?;
    }
    write(&data.join(scheme(Path::new(prefix::README.0))), prefix::README.1)?;
    for name in ["__init__.py", "_link.py", "_fatlink.pyi", "py.typed"] {
        copy_file(&sources.join("fatlink").join(name), &work.join("python/fatlink").join(name))?;
    }
    copy_file(&sources.join("README.md"), &work.join("README.md"))?;
    copy_file(&repository.root.join("LICENSE"), &work.join("licenses/LICENSE"))?;
    licenses::collect(repository, progress, &work.join("licenses"))?;
    let project = sources.join("pyproject.toml");
    let text = read_text(&project)?;
    write(&work.join("pyproject.toml"), text + PLACES)
}

/// Programs are scripts, which pip may put elsewhere than the rest of a prefix.
fn scheme(place: &Path) -> PathBuf {
    match place.strip_prefix("bin") {
        Ok(name) => Path::new("scripts").join(name),
        Err(_) => Path::new("data").join(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_scripts_and_the_rest_is_data() {
        assert_eq!(scheme(Path::new("bin/fatlink")), Path::new("scripts/fatlink"));
        assert_eq!(scheme(Path::new("lib/fatlink/bin/ld.fatlink")), Path::new("data/lib/fatlink/bin/ld.fatlink"));
    }
}
