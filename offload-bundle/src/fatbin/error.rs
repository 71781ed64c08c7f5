//! The errors of building a fatbin, in nvFatbin's terms.

use std::ffi::CStr;

use crate::FormatError;
use crate::arch::GpuArch;
use crate::compression::CompressionError;

/// Why an image is rejected or a fatbin cannot be built: at least one variant for each code of nvFatbin.
///
/// Displayed with the details of the case; [`FatbinError::code`] and [`FatbinError::text_of`] give nvFatbin's number and its
/// general text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FatbinError {
    /// Code 1: anything for which there is no other code, such as a damaged host object or Tile IR.
    #[error("{0}")]
    Internal(FormatError),
    /// Code 1, too.
    #[error("a fatbin larger than memory")]
    LargerThanMemory,
    /// Code 1, too: a function of the C library was called before the one that it needs.
    #[error("{call} without {before} before it")]
    CallOrder {
        /// The function that was called.
        call: &'static str,
        /// The one that was not.
        before: &'static str,
    },
    /// Code 1, too: the writer that takes the fatbin fails.
    #[error("{0}")]
    Write(String),
    /// Code 2: a cubin for another GPU than the one named.
    #[error("cubin for {image} where one for {wanted} is wanted")]
    ElfArchMismatch {
        /// What the cubin was made for.
        image: GpuArch,
        /// The GPU named by the caller.
        wanted: GpuArch,
    },
    /// Code 3: no cubin, a damaged one, or code with pointers of another size than the fatbin's.
    #[error("{0}")]
    ElfSizeMismatch(FormatError),
    /// Code 4.
    #[error("PTX without a `.version` such as 9.0")]
    MissingPtxVersion,
    /// Code 5: only the C library can be given one.
    #[error("the argument `{0}` is a null pointer")]
    NullPointer(&'static str),
    /// Code 6.
    #[error("{0}")]
    CompressionFailed(CompressionError),
    /// Code 7: the size of a compressed payload has 32 bits.
    #[error("an image of {0} bytes after compression: a fatbin holds compressed images of less than 4 GiB only")]
    CompressedSizeExceeded(u64),
    /// Code 8.
    #[error("`{0}` is not an option of nvFatbin, or contradicts one before it")]
    UnrecognizedOption(String),
    /// Code 9.
    #[error("`{0}` is not an architecture such as 90a")]
    InvalidArch(String),
    /// Code 10.
    #[error("{0}")]
    InvalidNvvm(FormatError),
    /// Code 11.
    #[error("an image of no bytes")]
    EmptyInput,
    /// Code 12.
    #[error("PTX without a `.target` that names a GPU")]
    MissingPtxArch,
    /// Code 13: the driver would choose the PTX for GPUs that it cannot be compiled for.
    #[error("PTX for {target} cannot be compiled for every GPU that {wanted} stands for")]
    PtxArchMismatch {
        /// The `.target` of the PTX.
        target: GpuArch,
        /// The GPU named by the caller.
        wanted: GpuArch,
    },
    /// Code 14.
    #[error("the host object carries no relocatable PTX")]
    MissingFatbin,
    /// Code 15: the format of index entries is known to NVIDIA alone.
    #[error("index entries cannot be added: their format is not known")]
    InvalidIndex,
    /// Code 16.
    #[error("relocatable PTX for {arch} of the module `{identifier}` was added already")]
    IdentifierReuse {
        /// The module, as its object names it.
        identifier: String,
        /// The architecture.
        arch: GpuArch,
    },
    /// Code 17.
    #[error("`{0}` is an option that NVIDIA's compilers keep for themselves")]
    InternalPtxOption(&'static str),
}

/// Codes and texts of nvFatbin 12.4 to 13.5; programs show and compare them, so they are NVIDIA's to the letter.
const TEXTS: [&CStr; 17] = [
    c"internal error",
    c"fatbinary elf mismatch: elf arch does not match user-specified arch",
    c"fatbinary elf mismatch: elf size doesn't match user-specified size",
    c"could not find ptx version",
    c"input contained null pointer",
    c"compression failed",
    c"compressed size is bigger than max size of compressed size field",
    c"unknown option",
    c"invalid architecture",
    c"invalid NVVM input",
    c"empty input",
    c"missing ptx architecture",
    c"ptx architecture incompatible with specified architecture",
    c"host object doesn't contain a fatbin",
    c"invalid index input",
    c"each relocatable entry must have a unique identifier name per architecture",
    c"used ptx options include internal options",
];

impl FatbinError {
    /// nvFatbin's number for it, from 1 to 17.
    pub fn code(&self) -> u32 {
        match self {
            FatbinError::Internal(_)
            | FatbinError::LargerThanMemory
            | FatbinError::CallOrder { .. }
            | FatbinError::Write(_) => 1,
            FatbinError::ElfArchMismatch { .. } => 2,
            FatbinError::ElfSizeMismatch(_) => 3,
            FatbinError::MissingPtxVersion => 4,
            FatbinError::NullPointer(_) => 5,
            FatbinError::CompressionFailed(_) => 6,
            FatbinError::CompressedSizeExceeded(_) => 7,
            FatbinError::UnrecognizedOption(_) => 8,
            FatbinError::InvalidArch(_) => 9,
            FatbinError::InvalidNvvm(_) => 10,
            FatbinError::EmptyInput => 11,
            FatbinError::MissingPtxArch => 12,
            FatbinError::PtxArchMismatch { .. } => 13,
            FatbinError::MissingFatbin => 14,
            FatbinError::InvalidIndex => 15,
            FatbinError::IdentifierReuse { .. } => 16,
            FatbinError::InternalPtxOption(_) => 17,
        }
    }

    /// nvFatbin's text for a code: `None` for 0, which is success, and `unknown error` for other numbers.
    pub fn text_of(code: i32) -> Option<&'static CStr> {
        let known = usize::try_from(code).ok().and_then(|code| TEXTS.get(code.checked_sub(1)?).copied());
        (code != 0).then(|| known.unwrap_or(c"unknown error"))
    }
}
