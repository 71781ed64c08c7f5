//! Whether there is a cache, and where: `--offload-cache=`, else `FATLINK_CACHE`, else none.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::cli::options::Options;
use crate::diag::error::Errors;
use crate::sys::cache::Cache;

/// Where the cache is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheChoice {
    /// Nowhere.
    Off,
    /// In the user's own folder for caches.
    On,
    /// In this folder.
    Folder(PathBuf),
}

impl CacheChoice {
    /// `on`, `off`, or a folder. `None`: nothing is said.
    pub fn parse(value: &OsStr) -> Option<Self> {
        match value.to_str() {
            Some("") => None,
            Some("off") => Some(CacheChoice::Off),
            Some("on") => Some(CacheChoice::On),
            _ => Some(CacheChoice::Folder(value.into())),
        }
    }
}

/// The cache that the user asked for, if any: without a word there is none.
///
/// # Errors
/// `on`, where the user has no folder for caches.
pub fn of(options: &Options) -> Result<Option<Cache>, Errors> {
    let environment = || CacheChoice::parse(&std::env::var_os("FATLINK_CACHE")?);
    let folder = match options.cache.clone().or_else(environment) {
        None | Some(CacheChoice::Off) => return Ok(None),
        Some(CacheChoice::Folder(folder)) => folder,
        Some(CacheChoice::On) => user_folder(std::env::var_os("XDG_CACHE_HOME"), std::env::home_dir())
            .ok_or_else(|| {
                Errors::one(
                    "the cache is on, but neither XDG_CACHE_HOME nor HOME names an absolute folder for it; name one with \
                     --offload-cache=<dir> or FATLINK_CACHE",
                )
            })?,
    };
    Ok(Some(Cache::open(folder).with_capacity(options.cache_size)))
}

/// As the XDG base directory specification says: relative paths do not count.
fn user_folder(xdg: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let named = xdg.map(PathBuf::from).filter(|path| path.is_absolute());
    let own = || home.filter(|path| path.is_absolute()).map(|home| home.join(".cache"));
    Some(named.or_else(own)?.join("fatlink"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_folders() {
        for (value, choice) in [
            ("", None),
            ("off", Some(CacheChoice::Off)),
            ("on", Some(CacheChoice::On)),
            ("./on", Some(CacheChoice::Folder("./on".into()))),
            ("/var/cache/f", Some(CacheChoice::Folder("/var/cache/f".into()))),
        ] {
            assert_eq!(CacheChoice::parse(value.as_ref()), choice);
        }
        let options = Options { cache: Some(CacheChoice::Off), ..Options::default() };
        assert!(of(&options).unwrap().is_none());
        let options = Options { cache: Some(CacheChoice::Folder("/c".into())), ..Options::default() };
        assert!(of(&options).unwrap().is_some());
    }

    #[test]
    fn the_users_folder() {
        for (xdg, home, folder) in [
            (Some("/x"), Some("/h"), Some("/x/fatlink")),
            (None, Some("/h"), Some("/h/.cache/fatlink")),
            (Some("relative"), Some("/h"), Some("/h/.cache/fatlink")),
            (Some(""), None, None),
            (None, Some(""), None),
        ] {
            assert_eq!(user_folder(xdg.map(Into::into), home.map(Into::into)), folder.map(PathBuf::from));
        }
    }
}
