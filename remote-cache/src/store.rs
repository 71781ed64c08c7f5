//! A store: names and bytes. Everything else is above it.

use std::fmt::Debug;
use std::time::Duration;

use crate::credentials::Credentials;
use crate::error::{LocationError, StoreError};
use crate::http::{HttpStore, Layout};
use crate::location::{Location, Place};
use crate::s3::S3Store;

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

/// Opens a store without connecting to it yet. `limit` is the time that a request may take.
///
/// # Errors
/// The environment names an endpoint that is none.
pub fn open(location: &Location, credentials: &Credentials, limit: Duration) -> Result<Box<dyn Store>, LocationError> {
    Ok(match &location.place {
        Place::Http(url) => Box::new(HttpStore::new(url.clone(), Layout::Flat, credentials, limit)),
        Place::Dav(url) => Box::new(HttpStore::new(url.clone(), Layout::Collections, credentials, limit)),
        Place::S3 { bucket, prefix } => Box::new(S3Store::from_environment(bucket, prefix, limit)?),
    })
}
