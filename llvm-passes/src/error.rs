use thiserror::Error;

/// What can go wrong with IR. Units are named as the caller named them (file and archive member).
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum IrError {
    /// The bytes are not bitcode that this LLVM can read.
    #[error("{unit}: unreadable LLVM bitcode: {message}")]
    Bitcode {
        /// The translation unit.
        unit: String,
        /// LLVM's words.
        message: String,
    },
    /// The bitcode was written by a later LLVM than the one linked in. LLVM promises no forward
    /// compatibility, and such IR may be misread without an error, so it is refused.
    #[error(
        "{unit}: the bitcode was written by LLVM {theirs}, and this fatlink reads LLVM {ours} and older; \
         compile the file with LLVM {ours}, or use a fatlink built with LLVM {theirs}"
    )]
    NewerBitcode {
        /// The translation unit.
        unit: String,
        /// Version of the producer, as in its identification block.
        theirs: String,
        /// Version of the LLVM linked in.
        ours: String,
    },
    /// The modules could not be merged.
    #[error("{unit}: cannot be merged with the other translation units: {message}")]
    Merge {
        /// The unit that was being added.
        unit: String,
        /// LLVM's words.
        message: String,
    },
    /// A pass pipeline or code generation failed.
    #[error("{stage} for {target}: {message}")]
    Backend {
        /// What was being done: "optimization", "code generation", ….
        stage: &'static str,
        /// The device target.
        target: String,
        /// LLVM's words.
        message: String,
    },
}
