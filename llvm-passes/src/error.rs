use std::fmt;
use std::sync::Arc;

use inkwell::builder::BuilderError;
use thiserror::Error;

/// What can go wrong with IR. Units are named as the caller named them (file and archive member).
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum IrError {
    /// The bytes are not bitcode that this LLVM can read, or not for the target of the link.
    #[error("{unit}: unreadable LLVM bitcode: {cause}; {}", .cause.advice())]
    Bitcode {
        /// The translation unit.
        unit: String,
        /// What is wrong with it.
        #[source]
        cause: BitcodeError,
    },
    /// The bitcode was written by a later LLVM than the one linked in. LLVM promises no forward
    /// compatibility, and such IR may be misread without an error, so it is rejected.
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
    #[error("{unit}: cannot be merged with the other translation units: {cause}")]
    Merge {
        /// The unit that was being added.
        unit: String,
        /// What LLVM reported.
        #[source]
        cause: LlvmError,
    },
    /// A pass pipeline or code generation failed.
    #[error("{stage} for {target}: {cause}")]
    Codegen {
        /// What was being done.
        stage: Stage,
        /// The device target, or the host's triple.
        target: String,
        /// Why it failed.
        #[source]
        cause: CodegenError,
    },
}

/// Why bitcode is rejected.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum BitcodeError {
    /// The bytes are something else.
    #[error("it does not start with the bitcode magic")]
    Magic,
    /// An attribute belongs to a parameter that no real function has; LLVM's reader would allocate gigabytes.
    #[error("it has attributes for parameter {index} of a function")]
    Parameter {
        /// The parameter's index.
        index: u64,
    },
    /// The code is for another kind of processor.
    #[error("it holds code for {triple}, not for {wanted}")]
    Triple {
        /// The module's target triple.
        triple: String,
        /// The processor of the link's target.
        wanted: &'static str,
    },
    /// LLVM's reader failed.
    #[error(transparent)]
    Llvm(LlvmError),
}

impl BitcodeError {
    /// What to do about it.
    fn advice(&self) -> &'static str {
        match self {
            BitcodeError::Magic | BitcodeError::Parameter { .. } | BitcodeError::Llvm(_) => {
                "the file is damaged or was cut off: compile it again"
            }
            BitcodeError::Triple { .. } => "compile the file for the target of the link",
        }
    }
}

/// Why optimization or code generation failed.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum CodegenError {
    /// This program contains no code generator for the triple.
    #[error("no code generator for this {0}")]
    NoCodeGenerator(&'static str),
    /// LLVM's NVPTX backend does not know the target.
    #[error("LLVM has no such NVPTX target")]
    NoSuchTarget,
    /// Registration code could not be built. It never should.
    #[error(transparent)]
    Builder(Arc<BuilderError>),
    /// LLVM failed.
    #[error(transparent)]
    Llvm(#[from] LlvmError),
}

/// LLVM's own text.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct LlvmError(pub String);

/// The steps from IR to code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Looking up the target.
    Target,
    /// Verifying the merged module.
    MergedIr,
    /// Running the pass pipeline.
    Optimization,
    /// Emitting PTX or an object.
    CodeGeneration,
    /// Building and compiling the registration object.
    RegistrationCode,
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Stage::Target => "target",
            Stage::MergedIr => "merged IR",
            Stage::Optimization => "optimization",
            Stage::CodeGeneration => "code generation",
            Stage::RegistrationCode => "registration code",
        })
    }
}

impl IrError {
    /// Bitcode of `unit` that LLVM's reader rejects.
    pub(crate) fn unreadable(unit: &str, message: String) -> Self {
        IrError::Bitcode { unit: unit.to_owned(), cause: BitcodeError::Llvm(LlvmError(message)) }
    }

    /// A merge of `unit` that failed.
    pub(crate) fn merge(unit: &str, message: String) -> Self {
        IrError::Merge { unit: unit.to_owned(), cause: LlvmError(message) }
    }

    /// A failed step of code generation.
    pub(crate) fn codegen(stage: Stage, target: impl fmt::Display, cause: impl Into<CodegenError>) -> Self {
        IrError::Codegen { stage, target: target.to_string(), cause: cause.into() }
    }
}

impl From<BuilderError> for CodegenError {
    fn from(error: BuilderError) -> Self {
        CodegenError::Builder(Arc::new(error))
    }
}

impl From<inkwell::support::LLVMString> for LlvmError {
    fn from(text: inkwell::support::LLVMString) -> Self {
        LlvmError(text.to_string_lossy().into_owned())
    }
}

impl From<inkwell::support::LLVMString> for CodegenError {
    fn from(text: inkwell::support::LLVMString) -> Self {
        CodegenError::Llvm(text.into())
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn errors_name_what_failed_and_keep_their_cause() {
        let error = IrError::codegen(Stage::MergedIr, "sm_90", LlvmError("a bad use".to_owned()));
        assert_eq!(error.to_string(), "merged IR for sm_90: a bad use");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("a bad use"));
        let error = IrError::codegen(Stage::RegistrationCode, "x86_64", BuilderError::UnsetPosition);
        assert_eq!(error.to_string(), "registration code for x86_64: Builder position is not set");
        let error = IrError::Bitcode { unit: "a.o".to_owned(), cause: BitcodeError::Magic };
        assert_eq!(
            error.to_string(),
            "a.o: unreadable LLVM bitcode: it does not start with the bitcode magic; the file is damaged or was cut off: compile it again"
        );
    }
}
