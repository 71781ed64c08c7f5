//! Whether there is a cache, and where: `--offload-cache=`, else `FATLINK_CACHE`, else none.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::cli::values::CacheChoice;
use crate::diag::error::Errors;
use crate::sys::cache::store::Cache;
use crate::sys::error::Error;

/// The cache of a link, if it has one: `choice` and `size` are the values of the options.
///
/// # Errors
/// `on`, where the user has no folder for caches.
pub fn of(choice: Option<&CacheChoice>, size: Option<u64>) -> Result<Option<Cache>, Errors> {
    let environment = || CacheChoice::parse(&std::env::var_os("FATLINK_CACHE")?).ok();
    let folder = match choice.cloned().or_else(environment) {
        None | Some(CacheChoice::Off) => return Ok(None),
        Some(CacheChoice::Folder(folder)) => folder,
        Some(CacheChoice::On) => {
            user_folder(std::env::var_os("XDG_CACHE_HOME"), std::env::home_dir()).ok_or(Error::NoCacheFolder)?
        }
    };
    Ok(Some(Cache::open(folder).with_capacity(size)))
}

/// As the XDG base directory specification requires, relative paths are ignored.
fn user_folder(xdg: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let named = xdg.map(PathBuf::from).filter(|path| path.is_absolute());
    let own = || home.filter(|path| path.is_absolute()).map(|home| home.join(".cache"));
    Some(named.or_else(own)?.join("fatlink"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_decides() {
        assert!(of(Some(&CacheChoice::Off), None).unwrap().is_none());
        assert!(of(Some(&CacheChoice::Folder("/c".into())), None).unwrap().is_some());
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
