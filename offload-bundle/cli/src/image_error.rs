//! Errors in `--image`.

use offload_bundle::arch::UnknownArch;

/// Why a value of `--image` cannot be parsed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("'{0}' is not of the form key=value")]
    NotAPair(String),
    #[error("'{0}' has no value")]
    NoValue(String),
    #[error("'{0}' is given twice; use another --image for another image")]
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
    #[error("'{0}' is not a code; write sm_90, compute_90 or lto_90, one code for each file")]
    Code(String),
    #[error("'{text}' is not an architecture; write one such as sm_90a")]
    Arch { text: String, source: UnknownArch },
    #[error("is neither a cubin nor PTX nor LTO-IR by its contents; add kind=cubin, kind=ptx or kind=ltoir")]
    UnknownContents,
    #[error("does not record its architecture; add one such as arch=sm_90")]
    MissingArch,
    #[error("'{0}' is not a programming model; use cuda, openmp, hip or sycl")]
    OffloadKind(String),
    #[error("a bundle has no '{0}'; the keys are kind, triple, arch and file")]
    BundleKey(String),
    #[error("'{0}' is not an offload kind of a bundle; use hip, hipv4 or openmp")]
    BundleKind(String),
    #[error("has no target; add one such as arch=gfx90a")]
    MissingBundleArch,
}
