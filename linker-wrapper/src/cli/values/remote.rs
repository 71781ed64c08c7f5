//! The remote cache: where it is, what a link may do there, and how long it waits. Each value comes from an option, else from
//! a variable, which `source` names.

use std::path::PathBuf;
use std::time::Duration;

use remote_cache::{Location, Mode};

use crate::cli::error::Error;

/// The values of the options; what is absent comes from variables.
#[derive(Debug, Clone, Default)]
pub struct RemoteOptions {
    /// Where the store is.
    pub place: Option<RemoteChoice>,
    /// What a link may do there.
    pub mode: Option<Mode>,
    /// How long a request may take.
    pub limit: Option<Duration>,
    /// The file with the key of the entries.
    pub key_file: Option<PathBuf>,
}

/// `--offload-cache-remote=`: whether there is a remote cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteChoice {
    /// There is none.
    Off,
    /// It is here.
    At(Location),
}

impl RemoteChoice {
    /// Reads `off` or a URL.
    ///
    /// # Errors
    /// Anything else, and URLs with credentials.
    pub fn parse(source: &'static str, text: &str) -> Result<Self, Error> {
        match text {
            "off" => Ok(RemoteChoice::Off),
            _ => Location::parse(text)
                .map(RemoteChoice::At)
                .map_err(|reason| Error::RemoteCache { option: source, reason }),
        }
    }
}

/// Reads `read-write` or `read-only`.
///
/// # Errors
/// Another word.
pub fn remote_mode(source: &'static str, text: &str) -> Result<Mode, Error> {
    match text {
        "read-write" => Ok(Mode::ReadWrite),
        "read-only" => Ok(Mode::ReadOnly),
        _ => Err(Error::value(source, "'read-write' or 'read-only'", text)),
    }
}

/// Reads a number of seconds, with a fraction if need be.
///
/// # Errors
/// No number, none above zero, or more than a day.
pub fn remote_timeout(source: &'static str, text: &str) -> Result<Duration, Error> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds| (0.001..=86400.0).contains(seconds));
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| Error::value(source, "a number of seconds such as 10", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        let modes = ["read-write", "read-only", "", "write"].map(|text| remote_mode("o", text).ok());
        assert_eq!(modes, [Some(Mode::ReadWrite), Some(Mode::ReadOnly), None, None]);
    }

    #[test]
    fn timeouts() {
        for (text, millis) in [
            ("10", Some(10_000)),
            ("0.5", Some(500)),
            ("0", None),
            ("-1", None),
            ("nan", None),
            ("inf", None),
            ("1e9", None),
            ("", None),
            ("10s", None),
        ] {
            assert_eq!(remote_timeout("o", text).ok(), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn places() {
        assert_eq!(RemoteChoice::parse("o", "off"), Ok(RemoteChoice::Off));
        assert!(matches!(RemoteChoice::parse("o", "s3://bucket"), Ok(RemoteChoice::At(_))));
        assert!(RemoteChoice::parse("o", "").is_err());
    }
}
