//! The value of `--offload-device-linker=`.

use crate::cli::error::Error;

/// What links the cubins of a target where ptxas makes the machine code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CubinLinker {
    /// fatlink, for targets and code of which it is proven that it links as nvlink does; nvlink for the rest.
    #[default]
    Auto,
    /// fatlink, in its own process. What it does not know is an error.
    Fatlink,
    /// The program nvlink.
    Nvlink,
}

impl CubinLinker {
    /// Reads the option's value.
    ///
    /// # Errors
    /// A word that names no linker.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "auto" => Ok(CubinLinker::Auto),
            "fatlink" => Ok(CubinLinker::Fatlink),
            "nvlink" => Ok(CubinLinker::Nvlink),
            _ => Err(Error::value("--offload-device-linker=", "auto, fatlink or nvlink", text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed() {
        for (text, choice) in [
            ("auto", Some(CubinLinker::Auto)),
            ("fatlink", Some(CubinLinker::Fatlink)),
            ("nvlink", Some(CubinLinker::Nvlink)),
            ("Fatlink", None),
            ("", None),
        ] {
            assert_eq!(CubinLinker::parse(text).ok(), choice, "{text}");
        }
    }
}
