//! The tools that are not part of this project.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder};

/// Debian's LLVM 22.
pub const LLVM: &str = "/usr/lib/llvm-22";

/// Suffix of the folder of an unfinished install.
const PARTIAL: &str = "partial-";

/// The folder that CUDA and Debian 11's C library are installed in; several clones may share one.
pub struct Toolchain {
    folder: PathBuf,
}

impl Toolchain {
    /// `FATLINK_TOOLCHAIN`, or `.toolchain` in the working tree.
    pub fn locate(repository: &Repository) -> Result<Self> {
        let folder = match std::env::var_os("FATLINK_TOOLCHAIN") {
            Some(folder) if !folder.is_empty() => PathBuf::from(folder),
            _ => repository.root.join(".toolchain"),
        };
        let folder = std::path::absolute(&folder).map_err(|error| Failure::file("find", &folder, &error))?;
        if folder.as_os_str().as_encoded_bytes().contains(&b':') {
            return Err(Failure::new(format!(
                "{} cannot stand in PATH because of its colon: set FATLINK_TOOLCHAIN to another folder",
                folder.display()
            )));
        }
        Ok(Self { folder })
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The CUDA tree, as clang's `--cuda-path` takes it.
    pub fn cuda(&self) -> PathBuf {
        self.folder.join("cuda")
    }

    /// What pip installs; the CUDA tree lies inside.
    pub fn python(&self) -> PathBuf {
        self.folder.join("python")
    }

    /// The newer nvFatbin that tests compare libnvfatbin with.
    pub fn nvfatbin(&self) -> PathBuf {
        self.folder.join("nvfatbin-13")
    }

    /// maturin, which builds the Python wheel.
    pub fn maturin(&self) -> PathBuf {
        self.folder.join("maturin")
    }

    /// mdbook, which builds the book of docs/.
    pub fn mdbook(&self) -> PathBuf {
        self.folder.join("mdbook")
    }

    /// Debian 11's C library, as `--sysroot` takes it.
    pub fn sysroot(&self) -> PathBuf {
        self.folder.join("debian-11")
    }

    /// Creates a folder beside `place` to install into, and removes those of interrupted installs.
    pub fn begin(&self, place: &Path) -> Result<PathBuf> {
        self.remove_partial_folders(place)?;
        // An installer whose xtask was killed may still be at work: it must not write into this one.
        let partial = place.with_extension(format!("{PARTIAL}{}", std::process::id()));
        create_folder(&partial)?;
        Ok(partial)
    }

    /// Moves a complete install into its place.
    pub fn finish(&self, new: &Path, place: &Path) -> Result<()> {
        let old = place.with_extension("old");
        remove_folder(&old)?;
        if place.exists() {
            std::fs::rename(place, &old).map_err(|error| Failure::file("replace", place, &error))?;
        }
        std::fs::rename(new, place).map_err(|error| Failure::file("create", place, &error))?;
        remove_folder(&old)
    }

    fn remove_partial_folders(&self, place: &Path) -> Result<()> {
        let entries = std::fs::read_dir(&self.folder).map_err(|error| Failure::file("read", &self.folder, &error))?;
        let start = place.with_extension(PARTIAL);
        let start = start.file_name().unwrap_or_default().as_encoded_bytes();
        let partial = |name: &OsStr| name.as_encoded_bytes().starts_with(start);
        entries.flatten().filter(|entry| partial(&entry.file_name())).try_for_each(|entry| remove_folder(&entry.path()))
    }

    /// Keeps other clones out while this one installs.
    pub fn lock(&self) -> Result<File> {
        create_folder(&self.folder)?;
        let path = self.folder.join(".lock");
        let lock = File::create(&path).map_err(|error| Failure::file("create", &path, &error))?;
        if lock.try_lock().is_err() {
            println!("  waiting for another setup in {}", self.folder.display());
            lock.lock().map_err(|error| Failure::file("lock", &path, &error))?;
        }
        Ok(lock)
    }
}

/// Removes a folder with all that is in it, if it is there.
pub fn remove_folder(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::file("remove", path, &error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_install_is_removed_and_an_old_one_replaced() {
        let folder = std::env::temp_dir().join(format!("fatlink-toolchain-{}", std::process::id()));
        let toolchain = Toolchain { folder: folder.clone() };
        let place = toolchain.sysroot();
        create_folder(&place.join("old")).unwrap();
        create_folder(&folder.join("debian-11.partial-1/lib")).unwrap();
        create_folder(&folder.join("python.partial-1")).unwrap();
        let new = toolchain.begin(&place).unwrap();
        assert!(new.is_dir() && !folder.join("debian-11.partial-1").exists());
        create_folder(&new.join("new")).unwrap();
        toolchain.finish(&new, &place).unwrap();
        assert!(place.join("new").is_dir() && !place.join("old").exists() && !new.exists());
        // Of another place: somebody may be at work there.
        assert!(folder.join("python.partial-1").is_dir());
        remove_folder(&folder).unwrap();
    }
}
