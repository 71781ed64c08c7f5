//! Parts of LLVM's source, such as its tests of the linker wrapper, out of Debian's source package.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::apt::{Apt, KEYRING};
use crate::debian;
use crate::failure::{Failure, Result};
use crate::step::Progress;
use crate::toolchain::{Toolchain, remove_folder};

/// A release of LLVM whose tests are run.
#[derive(Debug, PartialEq, Eq)]
pub struct Release {
    pub number: &'static str,
    /// Its full version.
    pub version: &'static str,
    /// Debian's source package.
    package: &'static str,
    /// Where the tests are in LLVM's sources.
    folder: &'static str,
    /// What every call of the tool gets.
    pub options: &'static str,
}

/// The release whose tools fatlink replaces.
pub static LLVM_22: Release =
    Release { number: "22", version: "22.1.8", package: "llvm-toolchain-22", folder: "clang/test/Driver", options: "" };

/// The next one; fatlink follows its rules with an option.
pub static LLVM_23: Release = Release {
    number: "23",
    version: "23.1.1",
    package: "llvm-toolchain-23",
    folder: "clang/test/OffloadTools/clang-linker-wrapper",
    options: "--offload-llvm-rules=23",
};

impl Release {
    /// By its number, for the command line.
    pub fn parse(number: &str) -> std::result::Result<&'static Self, String> {
        [&LLVM_22, &LLVM_23].into_iter().find(|one| one.number == number).ok_or_else(|| "expected 22 or 23".to_owned())
    }
}

/// A part of LLVM's source.
pub struct Part {
    /// In the name of its folder.
    name: &'static str,
    /// Where it is in LLVM's sources.
    folder: &'static str,
    /// The files in that folder, as patterns.
    files: &'static [&'static str],
    /// What it is for a human.
    title: &'static str,
    /// What a user can do without the download.
    advice: &'static str,
}

/// Programs that offload.
pub const PROGRAMS: Part = Part { name: "programs", folder: "offload/test", files: &["*"], title: "tests", advice: "" };

/// The runtime library of OpenMP on GPUs, with the headers that it includes.
pub const OPENMP_DEVICE: Part = Part {
    name: "openmp-device",
    folder: "",
    files: &[
        "openmp/device/*",
        "libc/shared/*",
        "libc/src/__support/*",
        "libc/hdr/*",
        "libc/include/*",
        "offload/include/*",
    ],
    title: "OpenMP runtime for GPUs",
    advice: "",
};

/// Debian's suites that may have the source.
const SUITES: [&str; 3] = ["bookworm-security", "testing", "sid"];

impl Part {
    /// Those of the tool.
    pub fn of_tool(release: &Release) -> Self {
        Part {
            name: "tests",
            folder: release.folder,
            files: &["linker-wrapper*.c"],
            title: "tests",
            advice: ", or name a folder with the tests by --tests=",
        }
    }

    /// Its files from the root of the archive, whose first folder has the version in its name.
    fn patterns(&self) -> impl Iterator<Item = PathBuf> {
        let folder = Path::new("*").join(self.folder);
        self.files.iter().map(move |files| folder.join(files))
    }
}

/// The folder with a part of a release, which is downloaded once.
pub fn install(toolchain: &Toolchain, release: &Release, part: &Part) -> Result<PathBuf> {
    let place = toolchain.folder().join(format!("llvm-{}-{}", part.name, release.version));
    let title = format!("LLVM {}'s {} from Debian's source package", release.version, part.title);
    toolchain.install(&title, &place, || place.is_dir(), |progress, folder| unpack(progress, folder, release, part))?;
    Ok(place.join(part.folder))
}

fn unpack(progress: &Progress, folder: &Path, release: &Release, part: &Part) -> Result<()> {
    let mirrors = [debian::mirrors(progress)?, debian::security_mirrors(progress).unwrap_or_default()].concat();
    let apt = Apt::new(&folder.join("apt"), &sources(&mirrors), "amd64")?;
    // Not every mirror has every suite: what counts is whether the archive comes.
    let updated = progress.run(apt.get().arg("update"));
    let listing = progress.run(apt.cache().args(["showsrc", "--only-source", release.package])).unwrap_or_default();
    let got = versions(&listing, release.version).any(|version| {
        let package = format!("{}={version}", release.package);
        // LLVM's own archive is the same in all of Debian's versions of it, and a mirror may lack one of them.
        let _ = progress.run(apt.get().args(["source", "--download-only", "--tar-only", &package]));
        archive(&apt, release).is_file()
    });
    if !got {
        let output = updated.err().map(|failure| failure.output).unwrap_or_default();
        let message = format!(
            "apt-get cannot download the source of {} {}: check the network and apt's sources{}",
            release.package, release.version, part.advice
        );
        return Err(Failure { message, output });
    }
    let mut tar = Command::new("tar");
    tar.current_dir(folder).arg("--extract").arg("--file").arg(archive(&apt, release));
    tar.args(["--strip-components=1", "--wildcards"]).args(part.patterns());
    progress.run(&mut tar)?;
    remove_folder(&apt.folder)
}

fn archive(apt: &Apt, release: &Release) -> PathBuf {
    apt.folder.join(format!("{}_{}.orig.tar.xz", release.package, release.version))
}

fn sources(mirrors: &[String]) -> String {
    let lines = |mirror: &String| {
        let line = |suite| format!("deb-src [signed-by={KEYRING}] {mirror} {suite} main\n");
        SUITES.map(line).concat()
    };
    mirrors.iter().map(lines).collect()
}

/// Debian's versions of this one, in `apt-cache showsrc`.
fn versions<'l>(listing: &'l str, upstream: &'l str) -> impl Iterator<Item = &'l str> {
    let of_upstream = move |version: &&str| {
        let own = version.split_once(':').map_or(*version, |(_, rest)| rest);
        own.rsplit_once('-').is_some_and(|(before, _)| before == upstream)
    };
    listing.lines().filter_map(|line| line.strip_prefix("Version: ")).filter(of_upstream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_has_several_versions_of_one_of_llvm() {
        let listing = "Package: x\nVersion: 1:22.1.8-3\nx\nVersion: 1:22.1.7-1\nVersion: 1:22.1.8-1~deb12u1\n";
        assert_eq!(versions(listing, "22.1.8").collect::<Vec<_>>(), ["1:22.1.8-3", "1:22.1.8-1~deb12u1"]);
    }
}
