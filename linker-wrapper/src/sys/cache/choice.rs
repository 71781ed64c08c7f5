//! Whether there is a cache, and where.

use offload_bundle::user_cache::CacheChoice;

use crate::diag::error::Errors;
use crate::sys::cache::store::Cache;
use crate::sys::error::Error;

/// The cache of a link, if it has one: `choice` and `size` are the values of the options.
///
/// # Errors
/// `on`, where the user has no folder for caches.
pub fn of(choice: Option<&CacheChoice>, size: Option<u64>) -> Result<Option<Cache>, Errors> {
    match choice {
        None | Some(CacheChoice::Off) => Ok(None),
        Some(CacheChoice::Folder(folder)) => Ok(Some(Cache::open(folder.clone()).with_capacity(size))),
        Some(CacheChoice::On) => Err(Error::NoCacheFolder.into()),
    }
}
