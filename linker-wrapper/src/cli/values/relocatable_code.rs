//! The value of `--offload-relocatable=`.

use crate::cli::error::Error;

/// What a relocatable link (`-r`) makes of device code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RelocatableCode {
    /// Finished images, which the output registers.
    #[default]
    Linked,
    /// One unit of bitcode for each target, which a later link takes, with compiled partitions next to it.
    Merged,
}

impl RelocatableCode {
    /// Reads the option's value.
    ///
    /// # Errors
    /// Another word than `link` and `merge`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "link" => Ok(RelocatableCode::Linked),
            "merge" => Ok(RelocatableCode::Merged),
            _ => Err(Error::value("--offload-relocatable=", "link or merge", text)),
        }
    }
}
