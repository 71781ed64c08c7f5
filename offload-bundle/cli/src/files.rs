//! Writes output files completely or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// An output that is complete, but not yet visible at its path.
enum Prepared {
    /// A temporary file in the folder of `path`, which is removed unless it is renamed to `path`.
    Beside { temporary: NamedTempFile, path: PathBuf },
    /// The bytes for a pipe or a device, which must not be replaced by a file.
    Direct { bytes: Vec<u8>, path: PathBuf },
}

/// Files that become visible together, once all of them are complete.
#[derive(Default)]
pub struct OutputFiles {
    prepared: Vec<Prepared>,
}

impl OutputFiles {
    /// Writes `bytes` to a temporary file beside `path`. It gets the permissions of `like`, or else of the file that it replaces.
    pub fn add(&mut self, path: &Path, bytes: &[u8], like: Option<&Path>) -> Result<()> {
        let failed = |source| Error::Write { path: path.to_owned(), source };
        if path.is_dir() {
            return Err(Error::OutputIsFolder { path: path.to_owned() });
        }
        if std::fs::metadata(path).is_ok_and(|data| !data.is_file()) {
            self.prepared.push(Prepared::Direct { bytes: bytes.to_vec(), path: path.to_owned() });
            return Ok(());
        }
        // Follow symbolic links, as tools that open the path for writing do.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".offload-bundle-");
        let permissions = std::fs::metadata(like.unwrap_or(&path)).map(|data| data.permissions());
        let mut temporary = match &permissions {
            Ok(_) => builder.tempfile_in(folder),
            Err(_) => builder.permissions(readable()).tempfile_in(folder),
        }
        .map_err(failed)?;
        temporary.write_all(bytes).map_err(failed)?;
        if let Ok(permissions) = permissions {
            temporary.as_file().set_permissions(permissions).map_err(failed)?;
        }
        self.prepared.push(Prepared::Beside { temporary, path });
        Ok(())
    }

    /// Renames all temporary files to their paths.
    pub fn keep(self) -> Result<()> {
        for prepared in self.prepared {
            let (path, written) = match prepared {
                Prepared::Beside { temporary, path } => {
                    let written = temporary.persist(&path).map(|_| ()).map_err(|e| e.error);
                    (path, written)
                }
                Prepared::Direct { bytes, path } => {
                    let written = std::fs::write(&path, bytes);
                    (path, written)
                }
            };
            written.map_err(|source| Error::Write { path, source })?;
        }
        Ok(())
    }
}

/// A file that is written piece by piece, and not visible at its path before it is kept.
pub struct Beside {
    temporary: NamedTempFile,
    path: PathBuf,
}

impl Beside {
    /// Creates a temporary file beside `path`, with the permissions of `like`.
    pub fn create(path: &Path, like: Option<&Path>) -> Result<Self> {
        let failed = |source| Error::Write { path: path.to_owned(), source };
        if path.is_dir() {
            return Err(Error::OutputIsFolder { path: path.to_owned() });
        }
        // Follow symbolic links, as tools that open the path for writing do.
        let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let temporary = tempfile::Builder::new().prefix(".offload-bundle-").tempfile_in(folder).map_err(failed)?;
        if let Some(permissions) = like.and_then(|like| std::fs::metadata(like).ok()).map(|data| data.permissions()) {
            temporary.as_file().set_permissions(permissions).map_err(failed)?;
        }
        Ok(Self { temporary, path: target })
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
    let mut outputs = OutputFiles::default();
    outputs.add(path, bytes, None)?;
    outputs.keep()
}

/// Writes one file with the permissions of `like`.
pub fn replace(path: &Path, bytes: &[u8], like: &Path) -> Result<()> {
    let mut outputs = OutputFiles::default();
    outputs.add(path, bytes, Some(like))?;
    outputs.keep()
}
