//! NVIDIA's CUDA 13.0, from PyPI wheels pinned by version and hash.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::debian::python_with_pip;
use crate::failure::{Failure, Result};
use crate::repository::{create_folder, replace_link};
use crate::step::{Progress, step};
use crate::toolchain::Toolchain;

/// The pinned wheels, in the format of pip.
pub const PINS: &str = include_str!("../cuda-wheels.txt");

/// A copy of the pins inside the installed folder says what is in there.
const STAMP: &str = "cuda-wheels.txt";

/// The CUDA tree among what pip installs.
const TREE: &str = "nvidia/cu13";

/// What an install that is under way, or was interrupted, is called.
const PARTIAL: &str = "python.partial-";

/// Installs the pinned wheels, unless these very ones are there.
pub fn install_wheels(toolchain: &Toolchain) -> Result<()> {
    if is_installed(toolchain) {
        return Ok(());
    }
    let _lock = toolchain.lock()?;
    // Another clone may have installed them while this one waited.
    if is_installed(toolchain) {
        return Ok(());
    }
    let title = format!("install CUDA 13.0 from PyPI into {}", toolchain.folder().display());
    step(&title, |progress| install(progress, toolchain).map(|()| ""))
}

/// Whether the pinned wheels are there, whole.
pub fn is_installed(toolchain: &Toolchain) -> bool {
    std::fs::read_to_string(toolchain.python().join(STAMP)).is_ok_and(|stamp| stamp == PINS)
        && toolchain.cuda().join("bin/ptxas").is_file()
}

/// Installs into a folder beside, and moves it into place when it is whole.
fn install(progress: &Progress, toolchain: &Toolchain) -> Result<()> {
    remove_partial_folders(toolchain.folder())?;
    // A pip whose xtask was killed may still be at work: it must not write into this one.
    let partial = toolchain.folder().join(format!("{PARTIAL}{}", std::process::id()));
    create_folder(&partial)?;
    let stamp = partial.join(STAMP);
    std::fs::write(&stamp, PINS).map_err(|error| Failure::file("write", &stamp, &error))?;
    pip_install(progress, &partial, &stamp)?;
    complete_tree(&partial.join(TREE))?;
    move_into_place(&partial, &toolchain.python())?;
    replace_link(&format!("python/{TREE}"), &toolchain.cuda())
}

fn pip_install(progress: &Progress, folder: &Path, requirements: &Path) -> Result<()> {
    let python = python_with_pip().ok_or_else(|| {
        Failure::new("no python3 with pip is in PATH, and CUDA comes as Python wheels: apt-get install python3-pip")
    })?;
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--require-hashes", "--no-deps", "--only-binary=:all:"]);
    command.args(["--no-compile", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]);
    command.args([OsStr::new("--target"), folder.as_os_str(), OsStr::new("-r"), requirements.as_os_str()]);
    progress.run(&mut command).map(|_| ()).map_err(|failure| {
        Failure::new(format!(
            "cannot install CUDA 13.0 from PyPI: pip says: {}\nCheck the network and pip's configuration, or let \
             FATLINK_TOOLCHAIN name a folder that another clone has set up",
            failure.tool_error()
        ))
    })
}

/// What NVIDIA's other packages have and the wheels lack; without it nvcc's -dlto fails.
fn complete_tree(tree: &Path) -> Result<()> {
    replace_link("lib", &tree.join("lib64"))?;
    create_folder(&tree.join("nvvm/lib64"))?;
    replace_link("../../lib/libnvvm.so.4", &tree.join("nvvm/lib64/libnvvm.so"))
}

fn move_into_place(new: &Path, place: &Path) -> Result<()> {
    let old = place.with_extension("old");
    remove_folder(&old)?;
    if place.exists() {
        std::fs::rename(place, &old).map_err(|error| Failure::file("replace", place, &error))?;
    }
    std::fs::rename(new, place).map_err(|error| Failure::file("create", place, &error))?;
    remove_folder(&old)
}

fn remove_partial_folders(folder: &Path) -> Result<()> {
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::file("read", folder, &error))?;
    let partial = |name: &OsStr| name.as_encoded_bytes().starts_with(PARTIAL.as_bytes());
    entries.flatten().filter(|entry| partial(&entry.file_name())).try_for_each(|entry| remove_folder(&entry.path()))
}

fn remove_folder(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::file("remove", path, &error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wheel_is_pinned_by_version_and_hash() {
        let joined = PINS.replace("\\\n", " ");
        let wheels: Vec<&str> = joined.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(wheels.len() >= 10);
        for wheel in wheels {
            let (pin, hash) = wheel.split_once("--hash=sha256:").expect(wheel);
            assert!(pin.contains("=="), "{wheel}");
            assert_eq!(hash.trim().len(), 64, "{wheel}");
        }
    }
}
