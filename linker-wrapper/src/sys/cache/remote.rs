//! The second tier of the cache, after the folder: `--offload-cache-remote=`, else `FATLINK_CACHE_REMOTE`, else none.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use remote_cache::{Seal, Settings, Tier};

use crate::cli::environment::RemoteVariables;
use crate::cli::values::{self, RemoteChoice, RemoteOptions};
use crate::diag::error::Errors;
use crate::sys::cache::key::Key;
use crate::sys::cache::store::Cache;
use crate::sys::error::Error;

/// How long a request may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Prepares the remote cache, if there is one, without connecting to it.
///
/// # Errors
/// A variable has no such value, or the key file cannot be used.
pub fn open(options: &RemoteOptions, variables: &RemoteVariables) -> Result<Option<Tier>, Errors> {
    let settings = settings(options, variables)?;
    Ok(settings.map(Tier::open).transpose().map_err(Error::from)?)
}

/// Whether the link uses one if it runs.
pub fn is_requested(options: &RemoteOptions, variables: &RemoteVariables) -> bool {
    matches!(place(options, variables), Ok(Some(RemoteChoice::At(_))))
}

/// Takes back what came from a store where nothing proves who wrote it, after the link failed: a wrong result may be the cause, and its errors
/// then make no sense. Returns what the user has to know.
pub fn distrust(remote: &Tier, folder: Option<&Cache>) -> Option<String> {
    let unproven = remote.unproven();
    for key in &unproven {
        folder.iter().for_each(|folder| folder.remove(&Key::of_bytes(*key)));
    }
    let results = match unproven.len() {
        0 => return None,
        1 => "a result".to_owned(),
        count => format!("{count} results"),
    };
    Some(format!(
        "this link failed, and it used {results} of the remote cache at {}, where nothing proves who wrote them: if the errors make no \
         sense, link again with --offload-cache-remote=off, and let --offload-cache-key-file=<file> authenticate results",
        remote.location()
    ))
}

fn place(options: &RemoteOptions, variables: &RemoteVariables) -> Result<Option<RemoteChoice>, Errors> {
    Ok(of(options.place.as_ref(), variables.place.as_ref(), |text| RemoteChoice::parse("FATLINK_CACHE_REMOTE", text))?)
}

fn settings(options: &RemoteOptions, variables: &RemoteVariables) -> Result<Option<Settings>, Errors> {
    let Some(RemoteChoice::At(location)) = place(options, variables)? else { return Ok(None) };
    let mode = |text: &str| values::remote_mode("FATLINK_CACHE_REMOTE_MODE", text);
    let mode = of(options.mode.as_ref(), variables.mode.as_ref(), mode)?;
    let limit = |text: &str| values::remote_timeout("FATLINK_CACHE_REMOTE_TIMEOUT", text);
    let limit = of(options.limit.as_ref(), variables.limit.as_ref(), limit)?;
    let seal = match options.key_file.clone().or_else(|| variables.key_file.as_ref().map(PathBuf::from)) {
        Some(file) => Seal::of_file(&file).map_err(Error::from)?,
        None => Seal::Checksum,
    };
    Ok(Some(Settings { location, seal, mode: mode.unwrap_or_default(), limit: limit.unwrap_or(LIMIT) }))
}

/// The value of an option, else of a variable.
fn of<T: Clone, E>(
    option: Option<&T>,
    variable: Option<&OsString>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, E> {
    match option {
        Some(value) => Ok(Some(value.clone())),
        None => variable.map(|text| parse(&text.to_string_lossy())).transpose(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remote_cache::Mode;

    fn of_variables(options: &RemoteOptions, variables: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        let variable =
            |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| OsString::from(*value));
        let variables = RemoteVariables {
            place: variable("FATLINK_CACHE_REMOTE"),
            mode: variable("FATLINK_CACHE_REMOTE_MODE"),
            limit: variable("FATLINK_CACHE_REMOTE_TIMEOUT"),
            key_file: variable("FATLINK_CACHE_KEY_FILE"),
        };
        settings(options, &variables).map_err(|errors| errors.to_string())
    }

    #[test]
    fn options_prevail_over_variables() {
        let at = |text| RemoteChoice::parse("", text).ok();
        let variables = [
            ("FATLINK_CACHE_REMOTE", "dav://there"),
            ("FATLINK_CACHE_REMOTE_MODE", "read-only"),
            ("FATLINK_CACHE_REMOTE_TIMEOUT", "3"),
        ];
        let found = of_variables(&RemoteOptions::default(), &variables).unwrap().unwrap();
        let seconds = Duration::from_secs;
        assert_eq!(
            (found.location.to_string(), found.mode, found.limit),
            ("dav://there".to_owned(), Mode::ReadOnly, seconds(3))
        );
        let options = RemoteOptions {
            place: at("http://here"),
            mode: Some(Mode::ReadWrite),
            limit: Some(seconds(4)),
            key_file: None,
        };
        let found = of_variables(&options, &variables).unwrap().unwrap();
        assert_eq!(
            (found.location.to_string(), found.mode, found.limit),
            ("http://here".to_owned(), Mode::ReadWrite, seconds(4))
        );
        let off = RemoteOptions { place: at("off"), ..RemoteOptions::default() };
        assert!(of_variables(&off, &variables).unwrap().is_none());
        assert!(of_variables(&RemoteOptions::default(), &[]).unwrap().is_none());
    }

    #[test]
    fn wrong_values_of_variables_are_errors() {
        let none = RemoteOptions::default();
        let error = of_variables(&none, &[("FATLINK_CACHE_REMOTE", "there")]).unwrap_err();
        assert!(error.contains("FATLINK_CACHE_REMOTE: expected http(s)://"), "{error}");
        let at = ("FATLINK_CACHE_REMOTE", "http://there");
        let error = of_variables(&none, &[at, ("FATLINK_CACHE_REMOTE_MODE", "ro")]).unwrap_err();
        assert!(error.contains("FATLINK_CACHE_REMOTE_MODE: expected 'read-write' or 'read-only', got 'ro'"), "{error}");
        let error = of_variables(&none, &[at, ("FATLINK_CACHE_KEY_FILE", "/nowhere")]).unwrap_err();
        assert!(error.contains("cannot use the key file /nowhere: No such file or directory"), "{error}");
    }
}
