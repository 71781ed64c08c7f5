//! Errors of a location and of requests.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A location that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// It is no URL of a known kind.
    #[error("expected http(s)://, dav(s):// or s3://<bucket>/<prefix>, got '{0}'")]
    Form(String),
    /// User name or password are part of it.
    #[error(
        "the URL has a user name or password, which every user of this machine may read on the command line; leave them \
         out, and set FATLINK_CACHE_REMOTE_USER and FATLINK_CACHE_REMOTE_PASSWORD"
    )]
    Credentials,
    /// It has a query or a fragment.
    #[error("the URL has a part behind '?' or '#'; name only the host and the path")]
    Query,
    /// The crate was compiled without the feature `network`.
    #[cfg(not(feature = "network"))]
    #[error("this fatlink was built without remote caches; `cargo xtask dist` builds one that has them")]
    NoNetwork,
    /// The file with the key of the entries cannot be used.
    #[error("cannot use the key file {}: {why}", .path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Credentials in the environment cannot be used. The text does not hold them.
    #[error("the variable {variable} cannot be used: {why}; set it again without that")]
    Credential {
        /// Its name.
        variable: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// An endpoint of S3 in the environment is no URL.
    #[error("the variable {variable} is '{value}', which is no http:// or https:// URL")]
    Endpoint {
        /// Its name.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// Bucket or region cannot be part of a host name.
    #[error("cannot make a host name of the bucket '{bucket}' and the region '{region}'")]
    Bucket {
        /// The bucket.
        bucket: String,
        /// The region.
        region: String,
    },
}

/// A request that failed. The texts hold no credentials and no signed URLs.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It took too long.
    #[error("no answer within {}", seconds(.0))]
    Timeout(Duration),
    /// The connection failed.
    #[error("{}", reason(.0))]
    Io(io::Error),
    /// There is no such host.
    #[error("there is no host of that name")]
    NoHost,
    /// The secure connection failed.
    #[error("no secure connection: {0}")]
    Tls(String),
    /// The store denies access.
    #[error("access denied (HTTP {0}): {1}")]
    Denied(u16, &'static str),
    /// The store has no room for a new entry.
    #[error("it is full ({0})")]
    Full(String),
    /// The store has an error of its own, or is none.
    #[error("it answered {0}")]
    Answer(String),
    /// The answer is no answer of this protocol.
    #[error("its answer is not of the protocol: {0}")]
    Protocol(String),
    /// The answer is larger than any entry.
    #[error("it sent more than {} MiB for one entry", .0 >> 20)]
    TooLarge(u64),
}

fn seconds(time: &Duration) -> String {
    match time.as_millis() {
        1000 => "1 second".to_owned(),
        millis if millis % 1000 == 0 => format!("{} seconds", millis / 1000),
        millis => format!("{millis} ms"),
    }
}

/// "Connection refused" instead of "Connection refused (os error 111)".
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
