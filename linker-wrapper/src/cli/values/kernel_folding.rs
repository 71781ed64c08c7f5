//! The value of `--offload-icf=`.

use crate::cli::error::Error;

/// What is done with kernels that differ in nothing but their names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KernelFolding {
    /// Each is compiled.
    #[default]
    Off,
    /// One is compiled, and its machine code is copied under the names of the others.
    Safe,
    /// One is compiled, and the host program launches it in place of the others.
    All,
}

impl KernelFolding {
    /// Reads the option's value.
    ///
    /// # Errors
    /// Another word than `off`, `safe` and `all`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "off" => Ok(KernelFolding::Off),
            "safe" => Ok(KernelFolding::Safe),
            "all" => Ok(KernelFolding::All),
            _ => Err(Error::value("--offload-icf=", "off, safe or all", text)),
        }
    }
}
