//! Where the tools are that this project does not bring itself.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder};

/// Debian's LLVM 22.
pub const LLVM: &str = "/usr/lib/llvm-22";

/// The folder that CUDA is installed in; several clones may share one.
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
