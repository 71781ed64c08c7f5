//! The names of the files in the cache's folder.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::sys::cache::key::Key;

/// Prefix of unfinished entries.
pub const UNFINISHED: &str = ".fatlink-";

/// The file of an entry, `FOLDER/ab/cdef…`: some file systems are slow with a hundred thousand files in one folder.
pub fn path_of(folder: &Path, key: &Key) -> PathBuf {
    let name = key.hex();
    let (shard, rest) = name.split_at(2);
    folder.join(shard).join(rest)
}

/// Whether a path under the cache's folder is named as entries are.
pub fn is_entry(path: &Path) -> bool {
    let hex = |name: Option<&OsStr>, length: usize| {
        let name = name.unwrap_or_default().as_encoded_bytes();
        name.len() == length && name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    hex(path.file_name(), 62) && hex(path.parent().and_then(Path::file_name), 2)
}
