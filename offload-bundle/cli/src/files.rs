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
