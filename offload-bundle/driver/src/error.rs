//! Why the driver does not do what is wanted.

use std::fmt;

/// Why no module can be loaded at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no driver.
    #[error("the CUDA driver's library cannot be loaded: {0}")]
    Library(String),
    /// There is no GPU, or the driver does not start.
    #[error("the CUDA driver does not start on a GPU: {0}")]
    Start(Failure),
}

/// A code of the driver by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub(crate) String);

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
