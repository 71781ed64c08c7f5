//! Opens the store at a location: which protocol serves which URL.

use std::time::Duration;

use crate::credentials::Credentials;
use crate::error::LocationError;
use crate::http::HttpStore;
use crate::location::{Location, Place};
use crate::s3::S3Store;
use crate::store::Store;

/// Opens a store without connecting to it yet. `limit` is the time that a request may take.
///
/// # Errors
/// The environment names an endpoint that is none.
pub fn open(location: &Location, credentials: Credentials, limit: Duration) -> Result<Box<dyn Store>, LocationError> {
    Ok(match &location.place {
        Place::Http(url) => Box::new(HttpStore::plain(url.clone(), credentials, limit)),
        Place::Dav(url) => Box::new(HttpStore::with_collections(url.clone(), credentials, limit)),
        Place::S3 { bucket, prefix } => Box::new(S3Store::from_environment(bucket, prefix, limit)?),
    })
}
