//! Errors in `--image`.

use offload_bundle::arch::UnknownArch;

/// Why a value of `--image` cannot be parsed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("'{0}' is no key=value")]
    NotAPair(String),
    #[error("'{0}' has no value")]
    NoValue(String),
    #[error("'{0}' is given twice; begin another --image for another image")]
    RepeatedKey(String),
    #[error("no file is named; add file=FILE")]
    NoFile,
}

/// Why the image that a value of `--image` describes does not fit the container.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error("a fatbin has no '{0}'; the keys are kind, arch and file")]
    FatbinKey(String),
    #[error("a fatbin has no images of kind '{0}'; the kinds are cubin, ptx, ltoir, tileir and reloc")]
    FatbinKind(String),
    #[error("'{0}' is no code; write sm_90, compute_90 or lto_90, one code for each file")]
    Code(String),
    #[error("'{text}' is no architecture; write one such as sm_90a")]
    Arch { text: String, source: UnknownArch },
    #[error("is neither a cubin nor PTX nor LTO-IR by its contents; say kind=cubin, kind=ptx or kind=ltoir")]
    UnknownContents,
    #[error("does not say which architecture it is for; say arch=sm_90 or the like")]
    MissingArch,
    #[error("'{0}' is no programming model; they are cuda, openmp, hip and sycl")]
    OffloadKind(String),
    #[error("a bundle has no '{0}'; the keys are kind, triple, arch and file")]
    BundleKey(String),
    #[error("'{0}' is no kind of a bundle; they are hip, hipv4 and openmp")]
    BundleKind(String),
    #[error("does not say what it is for; say arch=gfx90a or the like")]
    MissingBundleArch,
}
