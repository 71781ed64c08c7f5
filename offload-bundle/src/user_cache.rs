//! Where the results of one run are kept for the next: what `FATLINK_CACHE` and `--offload-cache=` say, and the user's folder.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Where the cache is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheChoice {
    /// Nowhere.
    Off,
    /// In the user's own folder for caches: see [`folder`].
    On,
    /// In this folder.
    Folder(PathBuf),
}

impl CacheChoice {
    /// Reads `on`, `off`, or a folder. `None` if it is empty.
    pub fn parse(value: &OsStr) -> Option<Self> {
        match value.to_str() {
            Some("") => None,
            Some("off") => Some(CacheChoice::Off),
            Some("on") => Some(CacheChoice::On),
            _ => Some(CacheChoice::Folder(value.into())),
        }
    }
}

/// The user's folder for the cache, given `XDG_CACHE_HOME` and the home folder. As the XDG base directory specification requires, relative
/// paths are ignored.
pub fn folder(xdg: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let named = xdg.map(PathBuf::from).filter(|path| path.is_absolute());
    let own = || home.filter(|path| path.is_absolute()).map(|home| home.join(".cache"));
    Some(named.or_else(own)?.join("fatlink"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices() {
        for (value, choice) in [
            ("", None),
            ("off", Some(CacheChoice::Off)),
            ("on", Some(CacheChoice::On)),
            ("./on", Some(CacheChoice::Folder("./on".into()))),
            ("/var/cache/f", Some(CacheChoice::Folder("/var/cache/f".into()))),
        ] {
            assert_eq!(CacheChoice::parse(value.as_ref()), choice);
        }
    }

    #[test]
    fn the_users_folder() {
        for (xdg, home, expected) in [
            (Some("/x"), Some("/h"), Some("/x/fatlink")),
            (None, Some("/h"), Some("/h/.cache/fatlink")),
            (Some("relative"), Some("/h"), Some("/h/.cache/fatlink")),
            (Some(""), None, None),
            (None, Some(""), None),
        ] {
            assert_eq!(folder(xdg.map(Into::into), home.map(Into::into)), expected.map(PathBuf::from));
        }
    }
}
