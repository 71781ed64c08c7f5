//! Parts of LLVM's source, out of Debian's source package: the tests of the linker wrapper, and OpenMP's device runtime.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Release;
use crate::apt::{Apt, KEYRING};
use crate::debian;
use crate::failure::{Failure, Result};
use crate::step::{Progress, step};
use crate::toolchain::{Toolchain, remove_folder};

/// A part of LLVM's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Those of the tool.
    Tool,
    /// Programs that offload.
    Programs,
    /// The runtime library of OpenMP on GPUs, with the headers that it includes.
    OpenmpDevice,
}

impl Part {
    /// In the name of its folder.
    fn name(self) -> &'static str {
        match self {
            Part::Tool => "tests",
            Part::Programs => "programs",
            Part::OpenmpDevice => "openmp-device",
        }
    }

    /// What it is for a human.
    fn title(self) -> &'static str {
        match self {
            Part::Tool | Part::Programs => "tests",
            Part::OpenmpDevice => "OpenMP runtime for GPUs",
        }
    }

    /// What a user can do without the download.
    fn advice(self) -> &'static str {
        match self {
            Part::Tool => ", or name a folder with the tests by --tests=",
            Part::Programs | Part::OpenmpDevice => "",
        }
    }

    /// Where it is in LLVM's sources.
    fn folder(self, release: Release) -> &'static str {
        match self {
            Part::Tool => release.folder(),
            Part::Programs => "offload/test",
            Part::OpenmpDevice => "",
        }
    }

    /// The files in that folder, as patterns.
    fn files(self) -> &'static [&'static str] {
        match self {
            Part::Tool => &["linker-wrapper*.c"],
            Part::Programs => &["*"],
            Part::OpenmpDevice => &[
                "openmp/device/*",
                "libc/shared/*",
                "libc/src/__support/*",
                "libc/hdr/*",
                "libc/include/*",
                "offload/include/*",
            ],
        }
    }

    /// The same from the root of the archive, whose first folder has the version in its name.
    fn patterns(self, release: Release) -> impl Iterator<Item = PathBuf> {
        let folder = Path::new("*").join(self.folder(release));
        self.files().iter().map(move |files| folder.join(files))
    }
}

/// The folder with a part of a release, which is downloaded once.
pub fn install(toolchain: &Toolchain, release: Release, part: Part) -> Result<PathBuf> {
    let place = toolchain.folder().join(format!("llvm-{}-{}", part.name(), release.version()));
    if !place.is_dir() {
        let _lock = toolchain.lock()?;
        let title = format!("get LLVM {}'s {} from Debian's source package", release.version(), part.title());
        step(&title, |progress| {
            let folder = toolchain.begin(&place)?;
            unpack(progress, &folder, release, part)?;
            toolchain.finish(&folder, &place).map(|()| "")
        })?;
    }
    Ok(place.join(part.folder(release)))
}

fn unpack(progress: &Progress, folder: &Path, release: Release, part: Part) -> Result<()> {
    let apt = Apt::new(&folder.join("apt"), &sources(&debian::source_mirrors(progress)?, release))?;
    // Not every mirror has every suite: what counts is whether the archive comes.
    let updated = progress.run(apt.get().arg("update"));
    let listing = progress.run(apt.cache().args(["showsrc", "--only-source", release.package()])).unwrap_or_default();
    let got = versions(&listing, release.version()).any(|version| {
        let package = format!("{}={version}", release.package());
        // LLVM's own archive is the same in all of Debian's versions of it, and a mirror may lack one of them.
        let _ = progress.run(apt.get().args(["source", "--download-only", "--tar-only", &package]));
        archive(&apt, release).is_file()
    });
    if !got {
        let output = updated.err().map(|failure| failure.output).unwrap_or_default();
        let message = format!(
            "apt-get cannot download the source of {} {}: check the network and apt's sources{}",
            release.package(),
            release.version(),
            part.advice()
        );
        return Err(Failure { message, output });
    }
    let mut tar = Command::new("tar");
    tar.current_dir(folder).arg("--extract").arg("--file").arg(archive(&apt, release));
    tar.args(["--strip-components=1", "--wildcards"]).args(part.patterns(release));
    progress.run(&mut tar)?;
    remove_folder(&apt.folder)
}

fn archive(apt: &Apt, release: Release) -> PathBuf {
    apt.folder.join(format!("{}_{}.orig.tar.xz", release.package(), release.version()))
}

fn sources(mirrors: &[String], release: Release) -> String {
    let lines = |mirror: &String| {
        let line = |suite| format!("deb-src [signed-by={KEYRING}] {mirror} {suite} main\n");
        release.suites().map(line).concat()
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
    fn patterns_begin_at_the_root_of_the_archive() {
        let patterns = |part: Part| part.patterns(Release::Llvm22).collect::<Vec<_>>();
        assert_eq!(patterns(Part::Tool), [Path::new("*/clang/test/Driver/linker-wrapper*.c")]);
        assert!(patterns(Part::OpenmpDevice).contains(&"*/openmp/device/*".into()));
    }

    #[test]
    fn debian_has_several_versions_of_one_of_llvm() {
        let listing = "Package: x\nVersion: 1:22.1.8-3\nx\nVersion: 1:22.1.7-1\nVersion: 1:22.1.8-1~deb12u1\n";
        assert_eq!(versions(listing, "22.1.8").collect::<Vec<_>>(), ["1:22.1.8-3", "1:22.1.8-1~deb12u1"]);
    }
}
