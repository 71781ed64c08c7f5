//! Reads the file that a command inspects.

use std::io::{self, Read};
use std::path::Path;

use offload_bundle::FileError;
use offload_bundle::host_object::Search;

use crate::error::{Error, NotARegularFile, Result};
use crate::expansion;
use crate::packages::{Content, Parts};

/// Reads a file and passes its bytes to `find`, with a function that reads the members of a thin archive, whose paths are relative to
/// the archive's folder.
pub fn read<T>(
    file: &Path,
    search: Search,
    find: impl FnOnce(&[u8], &mut dyn FnMut(&str) -> io::Result<Vec<u8>>) -> std::result::Result<T, FileError>,
) -> Result<T> {
    let data = bytes(file)?;
    expansion::check(file, &data, search, expansion::limits(data.len() as u64))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut read_thin = |path: &str| thin_member(&folder.join(path));
    find(&data, &mut read_thin).map_err(|source| Error::Parse { file: file.to_owned(), source })
}

/// Passes the bytes of a file to `find`, as [`read`] does.
pub fn parse<T>(
    content: &Content<'_>,
    search: Search,
    find: impl FnOnce(&[u8], &mut dyn FnMut(&str) -> io::Result<Vec<u8>>) -> std::result::Result<T, FileError>,
) -> Result<T> {
    expansion::check(content.name.as_ref(), content.data, search, content.limits)?;
    let mut read_thin = |path: &str| thin_member(&content.folder.join(path));
    find(content.data, &mut read_thin).map_err(|source| Error::Parse { file: content.name.clone().into(), source })
}

/// Where the option --scan makes a command look.
pub fn search(is_scan: bool) -> Search {
    if is_scan { Search::AllBytes } else { Search::Sections }
}

/// What has to be read of a file for that.
pub fn parts(is_scan: bool) -> Parts {
    if is_scan { Parts::All } else { Parts::OfDevice }
}

/// Reads all bytes of a file.
pub fn bytes(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|source| Error::Io { path: file.to_owned(), source })
}

/// Reads the file of a thin archive's member. It may be a pipe or a device, so opening it must not block.
fn thin_member(path: &Path) -> io::Result<Vec<u8>> {
    let mut options = std::fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let mut file = options.read(true).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(NotARegularFile));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let limits = expansion::limits(bytes.len() as u64);
    expansion::check(path, &bytes, Search::Sections, limits).map_err(io::Error::other)?;
    Ok(bytes)
}
