//! How each package is installed and removed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::chroot::Chroot;
use crate::failure::{Failure, Result};
use crate::package::{Packages, STATIC};
use crate::repository::{copy_file, create_folder};
use crate::step::Progress;
use crate::toolchain::remove_folder;

/// Where a wheel is installed: an environment of its own, as Python's documentation recommends.
const ENVIRONMENT: &str = "/opt/environment";
/// Folders of an environment that packages share.
const SHARED: [&str; 5] = ["lib/cmake", "share/bash-completion", "share/fish", "share/man", "share/zsh"];

/// Where an archive is unpacked.
const UNPACKED: &str = "/opt/fatlink";

/// A package, and where its files are once it is installed.
pub struct Form<'p> {
    /// What messages call it.
    pub title: &'static str,
    kind: Kind,
    files: &'p [PathBuf],
    /// The folder of its programs.
    pub programs: &'static str,
    /// The folder for clang's `-B`.
    pub clang: &'static str,
    /// The folder for gcc's `-B`.
    pub gcc: &'static str,
    /// The interpreter that finds the module, if there is one.
    pub python: Option<&'static str>,
}

enum Kind {
    Deb,
    Wheel,
    Archive,
}

/// All of them.
pub fn ofs(packages: &Packages) -> [Form<'_>; 3] {
    [
        Form {
            title: "the Debian packages",
            kind: Kind::Deb,
            files: &packages.debs,
            programs: "/usr/bin",
            clang: "/usr/lib/fatlink/bin",
            gcc: "/usr/lib/fatlink/gcc",
            python: None,
        },
        Form {
            title: "the wheel",
            kind: Kind::Wheel,
            files: std::slice::from_ref(&packages.wheel),
            programs: "/opt/environment/bin",
            clang: "/opt/environment/lib/fatlink/bin",
            gcc: "/opt/environment/lib/fatlink/gcc",
            python: Some("/opt/environment/bin/python"),
        },
        Form {
            title: "the archives",
            kind: Kind::Archive,
            files: &packages.archives,
            programs: "/opt/fatlink/bin",
            clang: "/opt/fatlink/bin",
            gcc: "/opt/fatlink/gcc",
            python: None,
        },
    ]
}

impl Form<'_> {
    /// What is no part of the package and has to be there first.
    pub fn prepare(&self, progress: &Progress, chroot: &Chroot) -> Result<()> {
        let Kind::Wheel = self.kind else { return Ok(()) };
        remove_folder(&chroot.path(ENVIRONMENT))?;
        progress.run(chroot.command("python3").args(["-m", "venv", ENVIRONMENT]))?;
        // pip removes a folder that it empties, and leaves the one above, which other packages have files in, too.
        SHARED.into_iter().try_for_each(|folder| create_folder(&chroot.path(ENVIRONMENT).join(folder)))
    }

    /// Installs it, without the network.
    pub fn install(&self, progress: &Progress, chroot: &Chroot) -> Result<()> {
        let names: Vec<&OsStr> = self.files.iter().filter_map(|file| file.file_name()).collect();
        let copies: Vec<PathBuf> = names.iter().map(|name| chroot.path("tmp").join(name)).collect();
        for (file, copy) in self.files.iter().zip(&copies) {
            copy_file(file, copy)?;
        }
        let inside: Vec<PathBuf> = names.iter().map(|name| Path::new("/tmp").join(name)).collect();
        match self.kind {
            Kind::Deb => {
                let mut apt = chroot.command("apt-get");
                progress.run(apt.args(["install", "--yes", "--no-install-recommends"]).args(&inside))?;
            }
            Kind::Wheel => {
                let mut pip = chroot.command(Path::new(self.programs).join("pip"));
                progress.run(pip.args(["install", "--no-index", "--no-cache-dir"]).args(&inside))?;
            }
            Kind::Archive => {
                let folder = chroot.path(UNPACKED);
                create_folder(&folder)?;
                for copy in &copies {
                    let mut tar = Command::new("tar");
                    tar.args(["--strip-components=1", "--extract", "--file"]).arg(copy);
                    progress.run(tar.arg("--directory").arg(&folder))?;
                }
                let mut sums = Command::new("sha256sum");
                progress.run(sums.args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&folder))?;
            }
        }
        let remove = |copy: &PathBuf| std::fs::remove_file(copy).map_err(|e| Failure::file("remove", copy, &e));
        copies.iter().try_for_each(remove)
    }

    /// Removes it as its user does.
    pub fn remove(&self, progress: &Progress, chroot: &Chroot) -> Result<()> {
        match self.kind {
            Kind::Deb => {
                let names = ["fatlink", STATIC];
                progress.run(chroot.command("apt-get").args(["purge", "--yes"]).args(names))?;
                for name in names {
                    let (status, output) = progress.status(chroot.command("dpkg").args(["--status", name]))?;
                    if status.success() {
                        return Err(Failure { message: format!("dpkg still knows the package {name}"), output });
                    }
                }
                Ok(())
            }
            Kind::Wheel => {
                let mut pip = chroot.command(Path::new(self.programs).join("pip"));
                progress.run(pip.args(["uninstall", "--yes", "fatlink"])).map(drop)
            }
            Kind::Archive => remove_folder(&chroot.path(UNPACKED)),
        }
    }
}
