//! The value of `--offload-llvm-rules=`.

use crate::cli::error::Error;

/// The LLVM whose linker wrapper decides which target ids are linked together, and how images are named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LlvmRules {
    /// Every target id of an object is a target, and other compatible objects that come later are linked for it, too.
    #[default]
    Llvm22,
    /// Code without a feature's setting joins the targets with one, and is a target of its own only if no other exists.
    Llvm23,
}

impl LlvmRules {
    /// Reads the option's value.
    ///
    /// # Errors
    /// Another word than 22 and 23.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "22" => Ok(LlvmRules::Llvm22),
            "23" => Ok(LlvmRules::Llvm23),
            _ => Err(Error::value("--offload-llvm-rules=", "22 or 23", text)),
        }
    }
}
