//! Where a store is: the value of `--offload-cache-remote=`. Its scheme says which protocol the store speaks.

use std::fmt;
use std::time::Duration;

use url::Url;

use crate::credentials::Credentials;
use crate::error::LocationError;
#[cfg(feature = "network")]
use crate::network::{
    http::{HttpStore, Layout},
    s3::S3Store,
};
use crate::store::Store;

/// The location of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// As the user wrote it.
    text: String,
    /// Which protocol, and where.
    place: Place,
}

/// A protocol with its address.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// `GET` and `PUT` below this URL, which ends with a slash.
    Http(Url),
    /// The same, in collections that are created when they are needed.
    Dav(Url),
    /// A bucket, and what the names of its objects begin with.
    S3 { bucket: String, prefix: String },
}

impl Location {
    /// Reads a URL.
    ///
    /// # Errors
    /// It is no URL of a known kind, or has credentials, which do not belong on a command line.
    pub fn parse(text: &str) -> Result<Self, LocationError> {
        let form = || LocationError::Form(text.to_owned());
        // The parser accepts another scheme in place of a web scheme only with a host.
        let url = Url::parse(text).map_err(|_| match has_userinfo(text) {
            true => LocationError::Credentials,
            false => form(),
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(LocationError::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(LocationError::Query);
        }
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(form)?;
        let place = match url.scheme() {
            "http" | "https" => Place::Http(folder(&url, url.scheme()).ok_or_else(form)?),
            "dav" => Place::Dav(folder(&url, "http").ok_or_else(form)?),
            "davs" => Place::Dav(folder(&url, "https").ok_or_else(form)?),
            "s3" if url.port().is_none() => {
                let prefix = url.path().trim_matches('/');
                let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
                Place::S3 { bucket: host.to_owned(), prefix }
            }
            _ => return Err(form()),
        };
        Ok(Location { text: text.to_owned(), place })
    }

    /// Opens the store without connecting to it yet. `limit` is the time that a request may take.
    ///
    /// # Errors
    /// The environment names an endpoint that is none.
    #[cfg(feature = "network")]
    pub fn open(&self, credentials: &Credentials, limit: Duration) -> Result<Box<dyn Store>, LocationError> {
        Ok(match &self.place {
            Place::Http(url) => Box::new(HttpStore::new(url.clone(), Layout::Flat, credentials, limit)),
            Place::Dav(url) => Box::new(HttpStore::new(url.clone(), Layout::Collections, credentials, limit)),
            Place::S3 { bucket, prefix } => Box::new(S3Store::from_environment(bucket, prefix, limit)?),
        })
    }

    /// The same where no protocol is compiled in.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "network"))]
    pub fn open(&self, _: &Credentials, _: Duration) -> Result<Box<dyn Store>, LocationError> {
        Err(LocationError::NoNetwork)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// The URL with this scheme, and a slash at its end, so that names can be joined to it.
fn folder(url: &Url, scheme: &str) -> Option<Url> {
    let rest = url.as_str().split_once(':')?.1.trim_end_matches('/');
    Url::parse(&format!("{scheme}:{rest}/")).ok().filter(Url::has_host)
}

/// Whether something like `user:password@` stands before the host, even if the rest is no URL.
fn has_userinfo(text: &str) -> bool {
    let authority = text.split_once("://").map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    authority.is_some_and(|authority| authority.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Place {
        Location::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).place
    }

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn all_kinds() {
        assert_eq!(place("http://cache:8080"), Place::Http(url("http://cache:8080/")));
        assert_eq!(place("https://cache/a/b/"), Place::Http(url("https://cache/a/b/")));
        assert_eq!(place("https://bücher.example"), Place::Http(url("https://xn--bcher-kva.example/")));
        assert_eq!(place("dav://cache/x"), Place::Dav(url("http://cache/x/")));
        assert_eq!(place("davs://cache:444/x//"), Place::Dav(url("https://cache:444/x/")));
        assert_eq!(place("s3://bucket"), Place::S3 { bucket: "bucket".into(), prefix: String::new() });
        assert_eq!(place("s3://bucket/a/b/"), Place::S3 { bucket: "bucket".into(), prefix: "a/b/".into() });
    }

    #[test]
    fn what_is_no_location() {
        let form = |text: &str| LocationError::Form(text.to_owned());
        for (text, error) in [
            ("", form("")),
            ("cache", form("cache")),
            ("/var/cache", form("/var/cache")),
            ("ftp://cache", form("ftp://cache")),
            ("http://", form("http://")),
            ("s3://", form("s3://")),
            ("s3://bucket:80/", form("s3://bucket:80/")),
            ("redis://cache", form("redis://cache")),
            ("http://u:p@cache", LocationError::Credentials),
            ("dav://:p@cache", LocationError::Credentials),
            ("https://u@cache", LocationError::Credentials),
            ("http://u:p@cache:port", LocationError::Credentials),
            ("https://cache?sig=x", LocationError::Query),
            ("https://cache/#x", LocationError::Query),
        ] {
            assert_eq!(Location::parse(text), Err(error), "{text}");
        }
    }
}
