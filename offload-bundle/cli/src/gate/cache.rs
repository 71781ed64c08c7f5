//! The results of ptxas in fatlink's cache: files named by a hash of all that decides about them (`FOLDER/ab/cdef…`), which links trim
//! with their own.

use std::io::Write;
use std::path::{Path, PathBuf};

use offload_bundle::user_cache::{self, CacheChoice};

/// The cache's folder, if it is on.
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// The folder of `FATLINK_CACHE`, or else the user's own. `off` turns it off.
    pub fn of_user() -> Self {
        let folder = match std::env::var_os("FATLINK_CACHE").and_then(|value| CacheChoice::parse(&value)) {
            Some(CacheChoice::Off) => None,
            Some(CacheChoice::Folder(folder)) => Some(folder),
            Some(CacheChoice::On) | None => {
                user_cache::folder(std::env::var_os("XDG_CACHE_HOME"), std::env::home_dir())
            }
        };
        Self { folder }
    }

    /// The name of an entry, by all that decides about it.
    pub fn key(parts: &[&[u8]]) -> String {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            // With their lengths, so that no two lists are alike.
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        hasher.finalize().to_hex().to_string()
    }

    /// An entry, if there is one.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        std::fs::read(path_of(self.folder.as_deref()?, key)?).ok()
    }

    /// Adds an entry. That the folder cannot be written to is no error: the next run assembles again.
    pub fn put(&self, key: &str, value: &[u8]) {
        let Some(path) = self.folder.as_deref().and_then(|folder| path_of(folder, key)) else { return };
        let Some(shard) = path.parent() else { return };
        let written = std::fs::create_dir_all(shard).and_then(|()| {
            let mut file = tempfile::Builder::new().prefix(".fatlink-").tempfile_in(shard)?;
            file.write_all(value)?;
            file.persist(&path)?;
            Ok(())
        });
        drop(written);
    }
}

fn path_of(folder: &Path, key: &str) -> Option<PathBuf> {
    let (shard, rest) = key.split_at_checked(2)?;
    Some(folder.join(shard).join(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache { folder: Some(folder.path().to_owned()) };
        let key = Cache::key(&[b"a", b"bc"]);
        assert_ne!(key, Cache::key(&[b"ab", b"c"]));
        assert_eq!(cache.get(&key), None);
        cache.put(&key, b"value");
        assert_eq!(cache.get(&key).as_deref(), Some(&b"value"[..]));
        let off = Cache { folder: None };
        off.put(&key, b"value");
        assert_eq!(off.get(&key), None);
    }
}
