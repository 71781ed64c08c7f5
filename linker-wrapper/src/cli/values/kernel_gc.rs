//! The value of `--offload-gc=`.

use crate::cli::error::Error;

/// Which kernels are left out of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KernelGc {
    /// None.
    #[default]
    Off,
    /// Those that the program's host code cannot reach.
    Host,
}

impl KernelGc {
    /// Reads the option's value.
    ///
    /// # Errors
    /// Another word than `off` and `host`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "off" => Ok(KernelGc::Off),
            "host" => Ok(KernelGc::Host),
            _ => Err(Error::value("--offload-gc=", "off or host", text)),
        }
    }
}
