//! The value of `--offload-backend=`.

use std::fmt;

use crate::cli::error::Error;

/// A tool that makes machine code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The program ptxas, with nvlink where several cubins have to be linked.
    Ptxas,
    /// NVIDIA's library libnvJitLink, loaded into this process.
    NvJitLink,
    /// The linker inside the CUDA driver of this machine.
    Driver,
}

/// All backends in order of preference. ptxas comes first: it needs no driver, every toolkit has it, and if it crashes the link
/// still ends with an error message. The driver comes last: its code depends on the machine that happens to link.
pub const BACKENDS: [Backend; 3] = [Backend::Ptxas, Backend::NvJitLink, Backend::Driver];

impl Backend {
    /// The value of `--offload-backend=` that selects this backend.
    pub fn option(self) -> &'static str {
        match self {
            Backend::Ptxas => "ptxas",
            Backend::NvJitLink => "nvjitlink",
            Backend::Driver => "driver",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Backend::Ptxas => "ptxas",
            Backend::NvJitLink => "nvJitLink",
            Backend::Driver => "the driver's linker",
        })
    }
}

/// Which backends a link may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// The first of [`BACKENDS`] that supports the link.
    #[default]
    Auto,
    /// This backend and no other.
    Only(Backend),
}

impl BackendChoice {
    /// Reads the option's value.
    ///
    /// # Errors
    /// A word that names no backend.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let named = BACKENDS.into_iter().find(|backend| backend.option() == text);
        match (text, named) {
            ("auto", _) => Ok(BackendChoice::Auto),
            (_, Some(backend)) => Ok(BackendChoice::Only(backend)),
            (_, None) => Err(Error::value("--offload-backend=", "auto, ptxas, nvjitlink or driver", text)),
        }
    }

    /// Whether `backend` may be used.
    pub fn allows(self, backend: Backend) -> bool {
        self == BackendChoice::Auto || self == BackendChoice::Only(backend)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed() {
        for (text, choice) in [
            ("auto", Some(BackendChoice::Auto)),
            ("ptxas", Some(BackendChoice::Only(Backend::Ptxas))),
            ("nvjitlink", Some(BackendChoice::Only(Backend::NvJitLink))),
            ("driver", Some(BackendChoice::Only(Backend::Driver))),
            ("nvJitLink", None),
            ("", None),
        ] {
            assert_eq!(BackendChoice::parse(text).ok(), choice, "{text}");
        }
    }
}
