//! A system of its own in a folder, made by debootstrap.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian;
use crate::failure::{Failure, Result};
use crate::repository::write_file;
use crate::step::Progress;
use crate::toolchain::fresh_folder;

/// Inside, when it is complete.
const STAMP: &str = "root/complete";

/// A folder with a system.
pub struct Chroot {
    root: PathBuf,
}

impl Chroot {
    /// Makes the system of this suite with these packages, unless an earlier run did.
    pub fn install(progress: &Progress, root: PathBuf, suite: &str, packages: &str) -> Result<Self> {
        let chroot = Self { root };
        let stamp = chroot.path(STAMP);
        if std::fs::read_to_string(&stamp).is_ok_and(|text| text == packages) {
            return Ok(chroot);
        }
        chroot.make(progress, suite, packages)?;
        write_file(&stamp, packages)?;
        Ok(chroot)
    }

    /// Makes the system of this suite with these packages, without a note of what it is.
    pub fn new(progress: &Progress, root: PathBuf, suite: &str, packages: &str) -> Result<Self> {
        let chroot = Self { root };
        chroot.make(progress, suite, packages)?;
        Ok(chroot)
    }

    fn make(&self, progress: &Progress, suite: &str, packages: &str) -> Result<()> {
        debian::install_for(progress, "debootstrap", "debootstrap")?;
        fresh_folder(&self.root)?;
        let mirrors = debian::mirrors(progress)?;
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.arg("--variant=minbase").arg(format!("--include={packages}")).arg(suite).arg(&self.root);
        debootstrap.args(mirrors.first()).env("LC_ALL", "C.UTF-8");
        progress.run(&mut debootstrap).map_err(|failure| {
            let message = format!("debootstrap failed (it needs root and Debian's mirror): {}", failure.tool_error());
            Failure { message, output: failure.output }
        })?;
        Ok(())
    }

    /// Has the next run make the system again, because this one's is not as it should be.
    pub fn discard(&self) {
        // If this fails, the next run finds the files of this one's package, and says so.
        let _ = std::fs::remove_file(self.path(STAMP));
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where a file inside is seen from outside.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.root.join(inside.trim_start_matches('/'))
    }

    /// A command inside, with a `/proc` of its own and nothing of this process's environment.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child"]);
        let mut proc = std::ffi::OsString::from("--mount-proc=");
        proc.push(self.path("proc"));
        command.arg(proc).arg("chroot").arg(&self.root).arg(program);
        command.env_clear().envs([
            ("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            ("LC_ALL", "C.UTF-8"),
            ("HOME", "/root"),
            ("DEBIAN_FRONTEND", "noninteractive"),
            // Python's own modules would get files beside them.
            ("PYTHONDONTWRITEBYTECODE", "1"),
        ]);
        command
    }
}
