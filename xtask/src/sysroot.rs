//! Debian 11's C library, which dist/ is linked against, so that its programs run on every system with glibc 2.31 or newer.
//!
//! The packages come from the Debian mirror among this machine's apt sources. apt works in a folder of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::apt::{Apt, KEYRING};
use crate::debian;
use crate::failure::{Failure, Result};
use crate::repository::{files_in, replace_link, write_file};
use crate::step::Progress;
use crate::toolchain::{LLVM, Toolchain, remove_folder};

/// The C library of a machine, with gcc's libraries of the same release: the unwinder of Debian 12 needs glibc 2.35.
pub struct Sysroot {
    /// In Debian's names.
    architecture: &'static str,
    /// In the toolchain folder.
    folder: &'static str,
    packages: &'static [&'static str],
    /// In the names of compilers.
    triple: &'static str,
}

/// This machine's.
pub const X86_64: Sysroot = Sysroot {
    architecture: "amd64",
    folder: "debian-11",
    packages: &["libc6", "libc6-dev", "libgcc-s1", "libgcc-10-dev"],
    triple: "x86_64-linux-gnu",
};

/// AArch64's, with what a compiler of this machine does not have for it.
pub const AARCH64: Sysroot = Sysroot {
    architecture: "arm64",
    folder: "debian-11-aarch64",
    packages: &["libc6", "libc6-dev", "libgcc-s1", "libgcc-10-dev", "libcrypt-dev", "linux-libc-dev", "zlib1g-dev"],
    triple: "aarch64-linux-gnu",
};

const SUITE: &str = "bullseye";

/// The file that records what is installed.
const STAMP: &str = "packages.txt";

impl Sysroot {
    /// Where it is.
    pub fn place(&self, toolchain: &Toolchain) -> PathBuf {
        toolchain.folder().join(self.folder)
    }

    /// Installs it, unless it is installed.
    pub fn install(&self, toolchain: &Toolchain) -> Result<()> {
        let place = self.place(toolchain);
        let is_installed = || std::fs::read_to_string(place.join(STAMP)).is_ok_and(|stamp| stamp == self.contents());
        let title = format!("Debian 11's C library for {}", self.architecture);
        toolchain.install(&title, &place, is_installed, |progress, root| {
            self.unpack(progress, root)?;
            complete(root)?;
            write_file(&root.join(STAMP), self.contents())
        })
    }

    /// The compiler driver that links against this C library, and the options for it. The linker is rustc's own, lld: it finds the
    /// definitions in LLVM's archives although these precede their users on the line.
    pub fn linker(&self, toolchain: &Toolchain) -> (PathBuf, [OsString; 3]) {
        let mut word = OsString::from("--sysroot=");
        word.push(self.place(toolchain));
        // gcc would take its own start files and the machine's libraries first.
        let target = format!("--target={}", self.triple);
        (Path::new(LLVM).join("bin/clang"), [target.into(), word, "-fuse-ld=lld".into()])
    }

    fn contents(&self) -> String {
        format!("{SUITE}: {}\n", self.packages.join(" "))
    }

    /// Downloads the packages and unpacks them into `root`.
    fn unpack(&self, progress: &Progress, root: &Path) -> Result<()> {
        let sources = sources(&debian::mirrors(progress)?, self.architecture);
        let apt = Apt::new(&root.join("apt"), &sources, self.architecture)?;
        // A mirror of several may lack the suite: what counts is whether the packages come.
        let updated = progress.run(apt.get().args(["update", "--error-on=any"]));
        apt.unpack(progress, self.packages, root).map_err(|failure| {
            let cause = updated.err().unwrap_or(failure);
            let message = format!(
                "cannot get Debian 11's C library: apt-get says: {}\nCheck the network, and that a Debian mirror in apt's \
                 sources has the suite {SUITE}; or let FATLINK_TOOLCHAIN name a folder that another clone has set up",
                cause.tool_error()
            );
            Failure { message, output: cause.output }
        })?;
        remove_folder(&apt.folder)
    }
}

/// Makes the tree independent of its place.
fn complete(root: &Path) -> Result<()> {
    remove_folder(&root.join("usr/share"))?;
    make_links_relative(root, "")
}

/// A link to `/lib/…` would lead out of the tree. `up` leads from `folder` to its root.
fn make_links_relative(folder: &Path, up: &str) -> Result<()> {
    for path in files_in(folder)? {
        match std::fs::read_link(&path) {
            Ok(target) => {
                if let Some(inside) = target.to_str().and_then(|target| target.strip_prefix('/')) {
                    replace_link(&format!("{up}{inside}"), &path)?;
                }
            }
            Err(_) if path.is_dir() => make_links_relative(&path, &format!("{up}../"))?,
            Err(_) => {}
        }
    }
    Ok(())
}

/// The text of a `sources.list` for Debian 11.
fn sources(mirrors: &[String], architecture: &str) -> String {
    let line = |mirror: &String| {
        format!("deb [arch={architecture} target=Packages signed-by={KEYRING}] {mirror} {SUITE} main\n")
    };
    mirrors.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::create_folder;

    #[test]
    fn every_mirror_is_a_source_of_the_suite() {
        let mirrors = ["http://a.example/debian/".to_owned(), "http://b.example/debian/".to_owned()];
        let text = sources(&mirrors, "arm64");
        assert_eq!(text.lines().count(), 2);
        assert!(
            text.lines().all(|line| line.starts_with("deb [arch=arm64 ") && line.ends_with("/debian/ bullseye main")),
            "{text}"
        );
    }

    #[test]
    fn links_stay_inside_the_tree() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        let folder = root.join("usr/lib");
        create_folder(&folder).unwrap();
        replace_link("/lib/libdl.so.2", &folder.join("libdl.so")).unwrap();
        replace_link("libm.so.6", &folder.join("libm.so")).unwrap();
        make_links_relative(root, "").unwrap();
        assert_eq!(std::fs::read_link(folder.join("libdl.so")).unwrap(), Path::new("../../lib/libdl.so.2"));
        assert_eq!(std::fs::read_link(folder.join("libm.so")).unwrap(), Path::new("libm.so.6"));
    }
}
