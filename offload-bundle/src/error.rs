//! The one error of every reader: what is wrong, and where in the bytes.

/// What is wrong with a container and where.
///
/// Displayed as `<what> at offset 0x<offset>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{what} at offset {offset:#x}")]
pub struct FormatError {
    /// Offset in bytes from the start of the data that was given to the reader.
    pub offset: u64,
    /// What is wrong there, without the offset.
    pub what: String,
}

impl FormatError {
    /// An error at `offset`, in bytes from the start of the data given.
    pub fn new(offset: u64, what: impl Into<String>) -> Self {
        Self { offset, what: what.into() }
    }

    /// The same error seen from a file in which the data starts at `base`.
    #[must_use]
    pub fn shifted(mut self, base: u64) -> Self {
        self.offset = self.offset.saturating_add(base);
        self
    }

    /// The same error with the place named in front: `<place>: <what>`.
    #[must_use]
    pub fn within(mut self, place: &str) -> Self {
        self.what = format!("{place}: {}", self.what);
        self
    }
}
