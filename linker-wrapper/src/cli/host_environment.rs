//! The variables of the environment that decide about the host link.

use std::ffi::OsString;
use std::path::PathBuf;

/// Names the host linker.
pub const LINKER: &str = "FATLINK_LINKER";

/// Passes the programs that have led to this link on to the host linker.
pub const STARTED_LINKERS: &str = "FATLINK_STARTED_LINKERS";

/// The values of these variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostEnvironment {
    /// The host linker, if [`LINKER`] names one.
    pub linker: Option<OsString>,
    /// The programs that have led to this link, as [`STARTED_LINKERS`] lists them.
    pub started_linkers: String,
    /// The folders that linkers search for libraries of libraries (`LD_RUN_PATH`, `LD_LIBRARY_PATH`).
    pub library_paths: Vec<PathBuf>,
    /// The folders in which linkers for Windows search libraries (`LIB`).
    pub windows_library_paths: Option<OsString>,
}

impl HostEnvironment {
    /// Reads the environment of this process.
    pub fn read() -> Self {
        Self::of(&|name| std::env::var_os(name))
    }

    /// Reads the variables by `value`.
    fn of(value: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let paths = ["LD_RUN_PATH", "LD_LIBRARY_PATH"].into_iter().filter_map(value);
        HostEnvironment {
            linker: value(LINKER).filter(|value| !value.is_empty()),
            started_linkers: value(STARTED_LINKERS).and_then(|value| value.into_string().ok()).unwrap_or_default(),
            library_paths: paths.flat_map(|value| std::env::split_paths(&value).collect::<Vec<_>>()).collect(),
            windows_library_paths: value("LIB"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_by_name() {
        let value = |name: &str| match name {
            "FATLINK_LINKER" | "FATLINK_STARTED_LINKERS" => Some(OsString::new()),
            "LD_RUN_PATH" => Some("/a:/b".into()),
            "LD_LIBRARY_PATH" => Some("/c".into()),
            _ => None,
        };
        let library_paths = ["/a", "/b", "/c"].map(PathBuf::from).to_vec();
        assert_eq!(HostEnvironment::of(&value), HostEnvironment { library_paths, ..HostEnvironment::default() });
    }
}
