//! Wheels of PyPI that are pinned by version and hash, and installed into folders of their own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian::python_with_pip;
use crate::failure::{Failure, Result};
use crate::repository::write_file;
use crate::step::Progress;
use crate::toolchain::Toolchain;

/// Wheels that are installed into one folder.
pub struct Wheels {
    /// What messages call them.
    pub title: &'static str,
    /// Their versions and hashes, in the format of pip.
    pub pins: &'static str,
    /// The folder of the toolchain that they are installed in.
    pub folder: &'static str,
    /// A file whose presence shows that all of them are installed.
    pub proof: &'static str,
    /// The platform that they are for, if it is not this one.
    pub platform: Option<&'static str>,
}

/// A copy of the pins in the installed folder, which records its contents.
const STAMP: &str = "cuda-wheels.txt";

impl Wheels {
    /// Where they are installed.
    pub fn place(&self, toolchain: &Toolchain) -> PathBuf {
        toolchain.folder().join(self.folder)
    }

    /// Whether exactly these are installed.
    pub fn are_installed(&self, toolchain: &Toolchain) -> bool {
        let place = self.place(toolchain);
        std::fs::read_to_string(place.join(STAMP)).is_ok_and(|stamp| stamp == self.pins)
            && place.join(self.proof).is_file()
    }

    /// Installs them, unless they are installed.
    pub fn install(&self, toolchain: &Toolchain) -> Result<()> {
        let title = format!("{} from PyPI", self.title);
        toolchain.install(
            &title,
            &self.place(toolchain),
            || self.are_installed(toolchain),
            |progress, folder| {
                let stamp = folder.join(STAMP);
                write_file(&stamp, self.pins)?;
                self.pip_install(progress, folder, &stamp)
            },
        )
    }

    fn pip_install(&self, progress: &Progress, folder: &Path, requirements: &Path) -> Result<()> {
        let title = self.title;
        let python = python_with_pip().ok_or_else(|| {
            Failure::new("no python3 with pip is in PATH, and CUDA comes as Python wheels: apt-get install python3-pip")
        })?;
        let pip = || {
            let mut command = Command::new(python);
            command.args(["-m", "pip", "install", "--require-hashes", "--no-deps", "--only-binary=:all:"]);
            command.args(["--no-compile", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]);
            command.args([OsStr::new("--target"), folder.as_os_str(), OsStr::new("-r"), requirements.as_os_str()]);
            command.args(self.platform.map(|platform| format!("--platform={platform}")));
            command
        };
        progress.run_patiently(pip).map(drop).map_err(|failure| {
            Failure::new(format!(
                "cannot install {title} from PyPI: pip says: {}\nCheck the network and pip's configuration, or let \
             FATLINK_TOOLCHAIN name a folder that another clone has set up",
                failure.tool_error()
            ))
        })
    }
}
