//! Hashes of programs. To hash them takes longer than everything else in a link that compiles nothing, so the cache keeps each hash by the
//! state of its file: device, inode, size, and the times of modification and change. Where these times tell nothing
//! ([`crate::sys::file_times`]), the state is a hash.

use std::fs::File;
use std::path::Path;

use crate::sys::cache::key::{Key, identity_of};
use crate::sys::cache::store::Cache;
use crate::sys::stamp::Stamp;

/// The program of this process.
const ITSELF: &str = "/proc/self/exe";

/// The hash of this program.
pub fn program(folder: Option<&Cache>) -> Option<[u8; 32]> {
    let metadata = File::open(ITSELF).and_then(|file| file.metadata()).ok()?;
    // A program that was built just now is hashed.
    let stamp = Stamp::new(Path::new(ITSELF), &metadata, || Ok([0; 32])).ok()?;
    let key = Key::of_state("program", &stamp);
    if let Some(known) = known_hash(folder, key.as_ref()) {
        return Some(known);
    }
    let hash = identity_of(Path::new(ITSELF)).ok()?;
    store_hash(folder, key.as_ref(), &hash);
    Some(hash)
}

/// Looks up a hash.
pub fn known_hash(folder: Option<&Cache>, key: Option<&Key>) -> Option<[u8; 32]> {
    folder?.get_uncounted(key?)?.try_into().ok()
}

/// Keeps a hash.
pub fn store_hash(folder: Option<&Cache>, key: Option<&Key>, hash: &[u8; 32]) {
    if let (Some(folder), Some(key)) = (folder, key) {
        folder.put(key, hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_one_hash() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().join("cache"));
        let hash = program(None).unwrap();
        assert_eq!((program(Some(&cache)), program(Some(&cache))), (Some(hash), Some(hash)));
    }
}
