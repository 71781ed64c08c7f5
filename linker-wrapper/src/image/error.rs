//! Errors in the fatbin of a link.

use offload_bundle::FormatError;
use offload_bundle::arch::GpuArch;
use offload_bundle::coverage::FindingCode;

/// Machine code or PTX that cannot go into a fatbin, or a fault of the finished fatbin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the cubin linked for {arch} is damaged: {source}")]
    DamagedCubin { arch: GpuArch, source: FormatError },
    #[error("the PTX generated for {} is damaged: {source}", .arch.virtual_name())]
    DamagedPtx { arch: GpuArch, source: FormatError },
    #[error("the finished fatbin is damaged: {source}")]
    DamagedFatbin { source: FormatError },
    #[error("the finished fatbin: {code}: {message}; {advice}")]
    Finding { code: FindingCode, message: String, advice: &'static str },
}
