//! NVIDIA's CUDA 13.0 and a newer nvFatbin, from PyPI wheels pinned by version and hash.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian::python_with_pip;
use crate::failure::{Failure, Result};
use crate::repository::{create_folder, replace_link};
use crate::step::{Progress, step};
use crate::toolchain::Toolchain;

/// The pinned wheels of CUDA, in the format of pip.
pub const PINS: &str = include_str!("../cuda-wheels.txt");

/// Wheels that are installed into one folder.
struct Wheels {
    title: &'static str,
    pins: &'static str,
    place: fn(&Toolchain) -> PathBuf,
    /// A file whose presence shows that all of them are installed.
    proof: &'static str,
    /// Completes the installed tree.
    complete: fn(&Path) -> Result<()>,
}

const ALL: [Wheels; 2] = [
    Wheels {
        title: "CUDA 13.0",
        pins: PINS,
        place: Toolchain::python,
        proof: "nvidia/cu13/bin/ptxas",
        complete: complete_tree,
    },
    Wheels {
        title: "nvFatbin 13.1",
        pins: include_str!("../nvfatbin-wheels.txt"),
        place: Toolchain::nvfatbin,
        proof: "nvidia/cu13/lib/libnvfatbin.so.13",
        complete: |_| Ok(()),
    },
];

/// A copy of the pins in the installed folder, which records its contents.
const STAMP: &str = "cuda-wheels.txt";

/// The CUDA tree among what pip installs.
const TREE: &str = "nvidia/cu13";

/// Installs the pinned wheels, unless exactly these are installed.
pub fn install_wheels(toolchain: &Toolchain) -> Result<()> {
    ALL.iter().try_for_each(|wheels| wheels.install(toolchain))?;
    replace_link(&format!("python/{TREE}"), &toolchain.cuda())
}

/// Whether the pinned wheels are completely installed.
pub fn is_installed(toolchain: &Toolchain) -> bool {
    toolchain.cuda().join("bin/ptxas").is_file() && ALL.iter().all(|wheels| wheels.are_installed(toolchain))
}

impl Wheels {
    fn are_installed(&self, toolchain: &Toolchain) -> bool {
        let place = (self.place)(toolchain);
        std::fs::read_to_string(place.join(STAMP)).is_ok_and(|stamp| stamp == self.pins)
            && place.join(self.proof).is_file()
    }

    fn install(&self, toolchain: &Toolchain) -> Result<()> {
        if self.are_installed(toolchain) {
            return Ok(());
        }
        let _lock = toolchain.lock()?;
        // Another clone may have installed them while this one waited.
        if self.are_installed(toolchain) {
            return Ok(());
        }
        let title = format!("install {} from PyPI into {}", self.title, toolchain.folder().display());
        step(&title, |progress| self.install_beside(progress, toolchain).map(|()| ""))
    }

    /// Installs into a folder beside `place`, and moves it into place when it is complete.
    fn install_beside(&self, progress: &Progress, toolchain: &Toolchain) -> Result<()> {
        let place = (self.place)(toolchain);
        let partial = toolchain.begin(&place)?;
        let stamp = partial.join(STAMP);
        std::fs::write(&stamp, self.pins).map_err(|error| Failure::file("write", &stamp, &error))?;
        pip_install(progress, self.title, &partial, &stamp)?;
        (self.complete)(&partial.join(TREE))?;
        toolchain.finish(&partial, &place)
    }
}

fn pip_install(progress: &Progress, title: &str, folder: &Path, requirements: &Path) -> Result<()> {
    let python = python_with_pip().ok_or_else(|| {
        Failure::new("no python3 with pip is in PATH, and CUDA comes as Python wheels: apt-get install python3-pip")
    })?;
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--require-hashes", "--no-deps", "--only-binary=:all:"]);
    command.args(["--no-compile", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]);
    command.args([OsStr::new("--target"), folder.as_os_str(), OsStr::new("-r"), requirements.as_os_str()]);
    progress.run(&mut command).map(|_| ()).map_err(|failure| {
        Failure::new(format!(
            "cannot install {title} from PyPI: pip says: {}\nCheck the network and pip's configuration, or let \
             FATLINK_TOOLCHAIN name a folder that another clone has set up",
            failure.tool_error()
        ))
    })
}

/// Adds the links that NVIDIA's other packages have and the wheels lack; nvcc -dlto needs them.
fn complete_tree(tree: &Path) -> Result<()> {
    replace_link("lib", &tree.join("lib64"))?;
    create_folder(&tree.join("nvvm/lib64"))?;
    replace_link("../../lib/libnvvm.so.4", &tree.join("nvvm/lib64/libnvvm.so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wheel_is_pinned_by_version_and_hash() {
        let joined = ALL.map(|wheels| wheels.pins.replace("\\\n", " ")).concat();
        let wheels: Vec<&str> = joined.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(wheels.len() >= 11);
        for wheel in wheels {
            let (pin, hash) = wheel.split_once("--hash=sha256:").expect(wheel);
            assert!(pin.contains("=="), "{wheel}");
            assert_eq!(hash.trim().len(), 64, "{wheel}");
        }
    }
}
