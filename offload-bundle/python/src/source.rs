//! What functions take as a file: its bytes, or its path.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use offload_bundle::FileError;
use offload_bundle::archive::reject_thin_members;
use offload_bundle::host_object::Search;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::error::Failure;

/// `bytes`, `bytearray`, or a path.
#[derive(FromPyObject)]
pub enum Source {
    /// The bytes; Python's own are not copied.
    Bytes(PyBackedBytes),
    /// A path, as `str` or `os.PathLike`.
    Path(PathBuf),
}

/// Reads a member of a thin archive, given the path that the archive records.
pub type ReadThin<'r> = dyn FnMut(&str) -> io::Result<Vec<u8>> + 'r;

impl Source {
    /// Passes the bytes to `find` without Python's global lock.
    pub fn parse<T: Send>(
        &self,
        py: Python<'_>,
        find: impl FnOnce(&[u8], &mut ReadThin<'_>) -> Result<T, FileError> + Send,
    ) -> Result<T, Failure> {
        py.detach(|| match self {
            Source::Bytes(bytes) => {
                find(bytes, &mut reject_thin_members).map_err(|error| Failure::Parse { place: None, error })
            }
            Source::Path(path) => {
                let data = std::fs::read(path).map_err(|error| Failure::Read { path: path.clone(), error })?;
                let folder = path.parent().unwrap_or(Path::new(""));
                find(&data, &mut |member| thin_member(&folder.join(member)))
                    .map_err(|error| Failure::Parse { place: Some(path.display().to_string()), error })
            }
        })
    }
}

/// Where `scan=True` makes a function look.
pub fn search(scan: bool) -> Search {
    if scan { Search::AllBytes } else { Search::Sections }
}

/// Reads the file of a thin archive's member. It may be a pipe or a device, so opening it must not block.
fn thin_member(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
