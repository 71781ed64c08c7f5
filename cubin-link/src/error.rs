//! Why a link ends without a cubin.

use offload_bundle::{FormatError, FormatErrorKind};

/// Why cubins were not linked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// An input is no cubin, or a damaged one.
    #[error("{file}: {error}")]
    Format {
        /// The input.
        file: String,
        /// What is wrong and where.
        error: FormatError,
    },
    /// The inputs may be sound, but this linker does not know how nvlink links them.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// Code that is needed refers to functions or variables that no input defines.
    #[error("undefined device symbols: {}", list(.0))]
    Undefined(Vec<Reference>),
    /// Two inputs define one symbol, neither of them weakly.
    #[error("device symbol {name} is defined in {first} and in {second}: rename one, or declare it weak or static")]
    MultipleDefinition {
        /// The symbol.
        name: String,
        /// The input with the first definition.
        first: String,
        /// The input with another.
        second: String,
    },
}

/// A reference to a symbol that no input defines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The symbol.
    pub name: String,
    /// The first input that refers to it.
    pub file: String,
}

/// Something in an input that is outside of what this linker is proven to link as nvlink does.
///
/// Displayed as `<file>: <what> at offset 0x<offset>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{file}: {what} at offset {offset:#x}")]
pub struct Unsupported {
    /// What is not known.
    pub what: String,
    /// The input.
    pub file: String,
    /// Where in the input, in bytes; 0 if it is not about one place.
    pub offset: u64,
}

impl LinkError {
    /// An input that contradicts itself.
    pub(crate) fn damaged(file: &str, offset: u64, what: impl Into<String>) -> Self {
        let kind = FormatErrorKind::Damaged(what.into().into());
        LinkError::Format { file: file.to_owned(), error: FormatError { offset, kind } }
    }

    /// Something unknown.
    pub(crate) fn unsupported(file: &str, offset: u64, what: impl Into<String>) -> Self {
        Unsupported { what: what.into(), file: file.to_owned(), offset }.into()
    }
}

fn list(references: &[Reference]) -> String {
    let texts: Vec<String> =
        references.iter().map(|reference| format!("{} (referenced in {})", reference.name, reference.file)).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_file_and_place() {
        let error = LinkError::unsupported("a.o", 64, "relocation of type 200");
        assert_eq!(error.to_string(), "a.o: relocation of type 200 at offset 0x40");
        let error = LinkError::damaged("a.o", 8, "section of no size");
        assert_eq!(error.to_string(), "a.o: section of no size at offset 0x8");
        let reference = |name: &str| Reference { name: name.to_owned(), file: "a.o".to_owned() };
        let error = LinkError::Undefined(vec![reference("f"), reference("g")]);
        assert_eq!(error.to_string(), "undefined device symbols: f (referenced in a.o), g (referenced in a.o)");
    }
}
