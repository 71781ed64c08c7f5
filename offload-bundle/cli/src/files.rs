//! Writes output files completely or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// An output that is complete, but not yet visible at its path.
enum Prepared {
    Beside(Beside),
    /// The bytes for a pipe or a device, which must not be replaced by a file.
    Direct {
        bytes: Vec<u8>,
        path: PathBuf,
    },
}

/// Files that become visible together, once all of them are complete.
#[derive(Default)]
pub struct OutputFiles {
    prepared: Vec<Prepared>,
}

impl OutputFiles {
    /// Writes `bytes` to a temporary file beside `path`. It gets the permissions of `like`, or else of the file that it replaces.
    pub fn add(&mut self, path: &Path, bytes: &[u8], like: Option<&Path>) -> Result<()> {
        if std::fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir()) {
            self.prepared.push(Prepared::Direct { bytes: bytes.to_vec(), path: path.to_owned() });
            return Ok(());
        }
        let mut beside = Beside::create(path, like)?;
        let failed = |source| Error::Write { path: path.to_owned(), source };
        beside.file().write_all(bytes).map_err(failed)?;
        self.prepared.push(Prepared::Beside(beside));
        Ok(())
    }

    /// Renames all temporary files to their paths.
    pub fn keep(self) -> Result<()> {
        self.prepared.into_iter().try_for_each(|prepared| match prepared {
            Prepared::Beside(beside) => beside.keep(),
            Prepared::Direct { bytes, path } => {
                std::fs::write(&path, bytes).map_err(|source| Error::Write { path, source })
            }
        })
    }
}

/// A temporary file in the folder of `path`, which is removed unless it is kept: then it is renamed to `path`.
pub struct Beside {
    temporary: NamedTempFile,
    path: PathBuf,
}

impl Beside {
    /// Creates a temporary file beside `path`. It gets the permissions of `like`, or else of the file that it replaces.
    pub fn create(path: &Path, like: Option<&Path>) -> Result<Self> {
        let failed = |source| Error::Write { path: path.to_owned(), source };
        if path.is_dir() {
            return Err(Error::OutputIsFolder { path: path.to_owned() });
        }
        // Follow symbolic links, as tools that open the path for writing do.
        let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".offload-bundle-");
        let temporary = match std::fs::metadata(like.unwrap_or(&target)) {
            Ok(like) => builder.tempfile_in(folder).and_then(|temporary| {
                temporary.as_file().set_permissions(like.permissions())?;
                Ok(temporary)
            }),
            Err(_) => builder.permissions(readable()).tempfile_in(folder),
        };
        Ok(Self { temporary: temporary.map_err(failed)?, path: target })
    }

    /// The file to write to.
    pub fn file(&mut self) -> &mut std::fs::File {
        self.temporary.as_file_mut()
    }

    /// Its size in bytes.
    pub fn size(&self) -> Result<u64> {
        let failed = |source| Error::Write { path: self.path.clone(), source };
        Ok(self.temporary.as_file().metadata().map_err(failed)?.len())
    }

    /// Makes it visible.
    pub fn keep(self) -> Result<()> {
        let Self { temporary, path } = self;
        temporary.persist(&path).map(|_| ()).map_err(|error| Error::Write { path, source: error.error })
    }
}

/// The permissions of a new file before the umask is applied.
#[cfg(unix)]
fn readable() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    std::fs::Permissions::from_mode(0o666)
}

/// Writes one file.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_like(path, bytes, None)
}

/// Writes one file with the permissions of `like`.
pub fn replace(path: &Path, bytes: &[u8], like: &Path) -> Result<()> {
    write_like(path, bytes, Some(like))
}

fn write_like(path: &Path, bytes: &[u8], like: Option<&Path>) -> Result<()> {
    let mut outputs = OutputFiles::default();
    outputs.add(path, bytes, like)?;
    outputs.keep()
}
