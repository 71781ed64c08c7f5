//! The tools that are not part of this project.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder, files_in, name_of};
use crate::step::{Progress, step};

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

    /// Has `work` fill a folder beside `place`, and moves it there when it is complete, unless it is installed already.
    pub fn install(
        &self,
        title: &str,
        place: &Path,
        is_installed: impl Fn() -> bool,
        work: impl FnOnce(&Progress, &Path) -> Result<()>,
    ) -> Result<()> {
        if is_installed() {
            return Ok(());
        }
        let _lock = self.lock()?;
        // Another clone may have installed it while this one waited.
        if is_installed() {
            return Ok(());
        }
        step(&format!("install {title} into {}", self.folder.display()), |progress| {
            let partial = self.begin(place)?;
            work(progress, &partial)?;
            self.finish(&partial, place)
        })
    }

    /// Creates a folder beside `place` to install into, and removes those of interrupted installs.
    fn begin(&self, place: &Path) -> Result<PathBuf> {
        let start = name_of(&place.with_extension(PARTIAL));
        let old = files_in(&self.folder)?.into_iter().filter(|path| name_of(path).starts_with(&start));
        old.into_iter().try_for_each(|path| remove_folder(&path))?;
        // An installer whose xtask was killed may still be at work: it must not write into this one.
        let partial = place.with_extension(format!("{PARTIAL}{}", std::process::id()));
        create_folder(&partial)?;
        Ok(partial)
    }

    /// Moves a complete install into its place.
    fn finish(&self, new: &Path, place: &Path) -> Result<()> {
        let old = place.with_extension("old");
        remove_folder(&old)?;
        if place.exists() {
            std::fs::rename(place, &old).map_err(|error| Failure::file("replace", place, &error))?;
        }
        std::fs::rename(new, place).map_err(|error| Failure::file("create", place, &error))?;
        remove_folder(&old)
    }

    /// Keeps other clones out while this one installs.
    fn lock(&self) -> Result<File> {
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

/// Makes a folder that is empty.
pub fn fresh_folder(path: &Path) -> Result<()> {
    remove_folder(path)?;
    create_folder(path)
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
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let toolchain = Toolchain { folder: folder.to_owned() };
        let place = folder.join("debian-11");
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
    }
}
