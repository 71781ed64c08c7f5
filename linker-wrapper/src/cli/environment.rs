//! The variables of the environment that decide about a link.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::OnceLock;

use offload_bundle::user_cache::{self, CacheChoice};

/// Names the host linker.
pub const LINKER: &str = "FATLINK_LINKER";

/// Passes the programs that have led to this link on to the host linker.
pub const STARTED_LINKERS: &str = "FATLINK_STARTED_LINKERS";

/// The values of these variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// The host linker, if [`LINKER`] names one.
    pub linker: Option<OsString>,
    /// The programs that have led to this link, as [`STARTED_LINKERS`] lists them.
    pub started_linkers: String,
    /// The folders that linkers search for libraries of libraries (`LD_RUN_PATH`, `LD_LIBRARY_PATH`).
    pub library_paths: Vec<PathBuf>,
    /// The cache, which counts where there is no option (`FATLINK_CACHE`).
    cache: Option<CacheChoice>,
    /// What links of device code read besides.
    device: OnceLock<DeviceEnvironment>,
}

/// The variables that decide about links of device code alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceEnvironment {
    /// The folders that the dynamic linker searches first (`LD_LIBRARY_PATH`).
    pub loader_paths: Vec<PathBuf>,
    /// The folders in which linkers for Windows search libraries (`LIB`).
    pub windows_library_paths: Option<OsString>,
    /// The toolkit, and the variable that names it (`CUDA_PATH`, `CUDA_HOME`).
    pub toolkit: Option<(&'static str, PathBuf)>,
    /// The environments of Python that are active (`VIRTUAL_ENV`, `CONDA_PREFIX`).
    pub python_prefixes: Vec<PathBuf>,
    /// The user's own folder (`HOME`).
    pub home: Option<PathBuf>,
    /// Options of the make that runs this link (`MAKEFLAGS`).
    pub make_flags: Option<String>,
    /// What names the remote cache and its settings.
    pub remote_cache: RemoteVariables,
}

/// The variables of the remote cache, which count where there is no option (`FATLINK_CACHE_REMOTE` and others).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteVariables {
    /// Where the store is.
    pub place: Option<OsString>,
    /// What a link may do there.
    pub mode: Option<OsString>,
    /// How long a request may take.
    pub limit: Option<OsString>,
    /// The file with the key of the entries.
    pub key_file: Option<OsString>,
}

/// Returns the value of a variable.
type Value<'v> = &'v dyn Fn(&str) -> Option<OsString>;

impl Environment {
    /// Reads the environment of this process. What only links of device code need is read by [`Environment::device`]: most links of a build
    /// have none, and each variable costs a search.
    pub fn read() -> Self {
        Self::of(&|name| std::env::var_os(name))
    }

    /// The cache of a link with this option. Who opens it reports that the user has no folder for it.
    pub fn cache(&self, option: Option<CacheChoice>) -> Option<CacheChoice> {
        match option.or_else(|| self.cache.clone()) {
            Some(CacheChoice::On) => {
                let folder = user_cache::folder(std::env::var_os("XDG_CACHE_HOME"), std::env::home_dir());
                Some(folder.map_or(CacheChoice::On, CacheChoice::Folder))
            }
            other => other,
        }
    }

    /// The variables that decide about links of device code alone.
    pub fn device(&self) -> &DeviceEnvironment {
        self.device.get_or_init(|| DeviceEnvironment::of(&|name| std::env::var_os(name)))
    }

    fn of(value: Value<'_>) -> Self {
        let paths = ["LD_RUN_PATH", "LD_LIBRARY_PATH"].into_iter().filter_map(value);
        Environment {
            linker: named(value, LINKER),
            started_linkers: text(value, STARTED_LINKERS).unwrap_or_default(),
            library_paths: paths.flat_map(|value| folders(&value)).collect(),
            cache: value("FATLINK_CACHE").and_then(|value| CacheChoice::parse(&value)),
            device: OnceLock::new(),
        }
    }
}

impl DeviceEnvironment {
    fn of(value: Value<'_>) -> Self {
        let folder = |name: &str| named(value, name).map(PathBuf::from);
        let remote = |end: &str| named(value, &format!("FATLINK_CACHE_{end}"));
        DeviceEnvironment {
            loader_paths: named(value, "LD_LIBRARY_PATH").map(|value| folders(&value)).unwrap_or_default(),
            windows_library_paths: value("LIB"),
            toolkit: ["CUDA_PATH", "CUDA_HOME"].into_iter().find_map(|name| Some((name, folder(name)?))),
            python_prefixes: ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(folder).collect(),
            home: folder("HOME"),
            make_flags: text(value, "MAKEFLAGS"),
            remote_cache: RemoteVariables {
                place: remote("REMOTE"),
                mode: remote("REMOTE_MODE"),
                limit: remote("REMOTE_TIMEOUT"),
                key_file: remote("KEY_FILE"),
            },
        }
    }
}

/// The value of a variable that is not empty.
fn named(value: Value<'_>, name: &str) -> Option<OsString> {
    value(name).filter(|value| !value.is_empty())
}

fn text(value: Value<'_>, name: &str) -> Option<String> {
    value(name).and_then(|value| value.into_string().ok())
}

fn folders(value: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_by_name() {
        let value = |name: &str| match name {
            "FATLINK_LINKER" | "FATLINK_STARTED_LINKERS" | "CUDA_PATH" | "FATLINK_CACHE_REMOTE" => {
                Some(OsString::new())
            }
            "LD_RUN_PATH" => Some("/a:/b".into()),
            "LD_LIBRARY_PATH" => Some("/c".into()),
            "CUDA_HOME" => Some("/cuda".into()),
            "CONDA_PREFIX" => Some("/conda".into()),
            "FATLINK_CACHE_KEY_FILE" => Some("key".into()),
            _ => None,
        };
        let expected =
            Environment { library_paths: ["/a", "/b", "/c"].map(PathBuf::from).to_vec(), ..Environment::default() };
        assert_eq!(Environment::of(&value), expected);
        let expected = DeviceEnvironment {
            loader_paths: vec!["/c".into()],
            toolkit: Some(("CUDA_HOME", "/cuda".into())),
            python_prefixes: vec!["/conda".into()],
            remote_cache: RemoteVariables { key_file: Some("key".into()), ..RemoteVariables::default() },
            ..DeviceEnvironment::default()
        };
        assert_eq!(DeviceEnvironment::of(&value), expected);
    }

    #[test]
    fn the_option_decides_about_the_cache() {
        let folder = |name: &str| CacheChoice::Folder(name.into());
        let environment = Environment { cache: Some(folder("/variable")), ..Environment::default() };
        assert_eq!(environment.cache(None), Some(folder("/variable")));
        assert_eq!(environment.cache(Some(folder("/option"))), Some(folder("/option")));
        assert_eq!(environment.cache(Some(CacheChoice::Off)), Some(CacheChoice::Off));
        assert_eq!(Environment::default().cache(None), None);
    }
}
