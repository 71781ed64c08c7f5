//! Errors in the fatbin of a link.

use std::path::PathBuf;

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
    #[error("cannot read {file} for its report: {reason}")]
    Unreadable { file: PathBuf, reason: String },
    #[error(
        "{file} was linked, but its report cannot be written: {reason}; leave out --offload-report=html, or link to an object or program"
    )]
    NoContents { file: PathBuf, reason: String },
    #[error("{file}: the report has a figure that JSON cannot represent: {reason}")]
    Page { file: PathBuf, reason: String },
    #[error("--offload-require: {code}: {message}{}; {advice}", on(gpus))]
    NotServed { code: FindingCode, message: String, gpus: String, advice: &'static str },
    #[error("the finished fatbin: {code}: {message}; {advice}")]
    Finding { code: FindingCode, message: String, advice: &'static str },
}

/// ` (on sm_75)`.
fn on(gpus: &str) -> String {
    if gpus.is_empty() { String::new() } else { format!(" (on {gpus})") }
}
