//! LLVM's tests of the linker wrapper, out of Debian's source package.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Release;
use crate::apt::{Apt, KEYRING};
use crate::debian;
use crate::failure::{Failure, Result};
use crate::step::Progress;
use crate::toolchain::{Toolchain, remove_folder};

/// A part of LLVM's tests.
pub struct Part {
    /// In the name of its folder.
    name: &'static str,
    /// Where it is in LLVM's sources.
    folder: &'static str,
    /// The files in that folder.
    files: &'static str,
}

/// Programs that offload.
pub const PROGRAMS: Part = Part { name: "programs", folder: "offload/test", files: "*" };

/// Debian's suites that may have the source.
const SUITES: [&str; 3] = ["bookworm-security", "testing", "sid"];

impl Part {
    /// Those of the tool.
    pub fn of_tool(release: &Release) -> Self {
        Part { name: "tests", folder: release.folder, files: "linker-wrapper*.c" }
    }
}

/// The folder with the tests of a release, which is downloaded once.
pub fn install(toolchain: &Toolchain, release: &Release, part: &Part) -> Result<PathBuf> {
    let place = toolchain.folder().join(format!("llvm-{}-{}", part.name, release.version));
    let title = format!("LLVM {}'s tests from Debian's source package", release.version);
    toolchain.install(&title, &place, || place.is_dir(), |progress, folder| unpack(progress, folder, release, part))?;
    Ok(place.join(part.folder))
}

fn unpack(progress: &Progress, folder: &Path, release: &Release, part: &Part) -> Result<()> {
    let apt = Apt::new(&folder.join("apt"), &sources(&debian::source_mirrors(progress)?))?;
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
            "apt-get cannot download the source of {} {}: check the network and apt's sources, or name a folder with the \
             tests by --tests=",
            release.package, release.version
        );
        return Err(Failure { message, output });
    }
    let mut tar = Command::new("tar");
    tar.current_dir(folder).arg("--extract").arg("--file").arg(archive(&apt, release));
    tar.args(["--strip-components=1", "--wildcards"]).arg(format!("*/{}/{}", part.folder, part.files));
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
