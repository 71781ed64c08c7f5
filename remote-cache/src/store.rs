//! A store: names and bytes. Everything else is above it.

use std::fmt::Debug;

use crate::error::StoreError;

/// Where entries are, by name. Requests may run at the same time.
pub trait Store: Debug + Send + Sync {
    /// Returns what has this name, if anything.
    ///
    /// # Errors
    /// The store is not there, denies access, or takes too long.
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Stores bytes under a name, in place of what is there.
    ///
    /// # Errors
    /// The store is not there, denies access, is full, or takes too long.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError>;
}
