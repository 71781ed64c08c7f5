//! An apt in a folder of its own: it needs no root, and leaves the machine's package lists and packages alone.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian::apt_get;
use crate::failure::Result;
use crate::repository::{create_folder, files_in, write_file};
use crate::step::Progress;

/// In every Debian; other distributions have it as a package of this name.
pub const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// An apt with sources of its own.
pub struct Apt {
    /// Where it keeps its lists, and downloads to.
    pub folder: PathBuf,
}

impl Apt {
    /// `sources` is the text of its `sources.list`; its packages are of this architecture.
    pub fn new(folder: &Path, sources: &str, architecture: &str) -> Result<Self> {
        create_folder(&folder.join("state/lists/partial"))?;
        create_folder(&folder.join("cache/archives/partial"))?;
        let write = |name: &str, text: &str| write_file(&folder.join(name), text);
        write("status", "")?;
        write("sources.list", sources)?;
        // What the machine does after an update of its own lists.
        let of_machine =
            format!("APT::Architecture \"{architecture}\";\nAPT::Architectures {{ \"{architecture}\"; }};\n");
        let no_updates =
            "#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n#clear APT::Architectures;\n";
        write("apt.conf", &format!("{no_updates}{of_machine}"))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// `apt-get` with these sources.
    pub fn get(&self) -> Command {
        self.with_sources(apt_get())
    }

    /// `apt-cache` with these sources.
    pub fn cache(&self) -> Command {
        self.with_sources(Command::new("apt-cache"))
    }

    /// Downloads packages and unpacks them into `root`.
    pub fn unpack(&self, progress: &Progress, packages: &[impl AsRef<OsStr>], root: &Path) -> Result<()> {
        let command = || {
            let mut command = self.get();
            command.arg("download").args(packages);
            command
        };
        progress.run_patiently(command)?;
        let is_package = |path: &PathBuf| path.extension().is_some_and(|end| end == "deb");
        for package in files_in(&self.folder)?.into_iter().filter(is_package) {
            progress.run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(root))?;
        }
        Ok(())
    }

    fn with_sources(&self, mut command: Command) -> Command {
        command.current_dir(&self.folder).arg("--config-file").arg(self.folder.join("apt.conf"));
        let options = [
            ("Dir::State", "state"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", "cache"),
            ("Dir::Etc::SourceList", "sources.list"),
            ("Dir::Etc::SourceParts", "/dev/null"),
            ("Dir::Etc::Preferences", "/dev/null"),
            ("Dir::Etc::PreferencesParts", "/dev/null"),
        ];
        for (name, file) in options {
            let mut option = OsString::from(format!("{name}="));
            option.push(self.folder.join(file));
            command.arg("--option").arg(option);
        }
        command
    }
}
