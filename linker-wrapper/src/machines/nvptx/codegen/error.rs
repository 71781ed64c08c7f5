//! What goes wrong when a backend runs.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use offload_bundle::FormatError;
use offload_bundle::arch::{CudaRelease, GpuArch};

use crate::sys::process;

/// A tool that cannot be run or that fails, or an input that it cannot link.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {file}: {source}")]
    Read { file: PathBuf, source: io::Error },
    #[error("cannot run {program}: {source}")]
    Start { program: PathBuf, source: io::Error },
    #[error("{}; --save-temps keeps the PTX", process::failure(.program, &.arch.to_string(), *.status, .output))]
    Ptxas { program: PathBuf, arch: GpuArch, status: ExitStatus, output: String },
    #[error("{}", process::failure(.program, &.arch.to_string(), *.status, .output))]
    Nvlink { program: PathBuf, arch: GpuArch, status: ExitStatus, output: String },
    #[error(
        "{program} did not finish for {arch} with {} s of processor time, where milliseconds are usual, and was ended; link again, and if that \
         ends in the same way, rebuild the objects",
        .limit.as_secs()
    )]
    NvlinkLate { program: PathBuf, arch: GpuArch, limit: Duration },
    #[error(
        "--offload-ptx: only nvlink links LTO-IR to PTX for {}; choose --offload-backend=ptxas, or compile the files to PTX, too",
        .arch.virtual_name()
    )]
    PtxOfLtoIr { arch: GpuArch },
    #[error("{program} left no cubin for {arch}: {source}")]
    NoCubin { program: PathBuf, arch: GpuArch, source: io::Error },
    #[error("nvJitLink {release} ({path}) failed for {arch} ({code}): {log}; --save-temps keeps its inputs")]
    NvJitLink { path: PathBuf, release: CudaRelease, arch: GpuArch, code: String, log: String },
    #[error(
        "the CUDA driver ({path}) cannot be used: {code}; --offload-backend=driver needs a GPU on this machine, ptxas and \
         nvjitlink need none"
    )]
    NoContext { path: PathBuf, code: String },
    #[error(
        "the driver's linker failed for {arch} ({code}){}{log}; --save-temps keeps its inputs",
        if .log.is_empty() { "" } else { ": " }
    )]
    Driver { arch: GpuArch, code: String, log: String },
    #[error("{name}: the cubin is finished, and {linker} cannot link it with others; compile the file with -fgpu-rdc")]
    FinishedCubin { name: String, linker: &'static str },
    #[error("{name}: damaged cubin: {source}; rebuild the file")]
    DamagedCubin { name: String, source: FormatError },
    #[error(
        "--offload-device-linker=fatlink cannot link the code for {arch}: fatlink's linker does not know all of {what}; select nvlink, or \
         leave the option out"
    )]
    UnknownCode { arch: GpuArch, what: String },
    #[error("{text} (the code for {arch})")]
    Cubins { arch: GpuArch, text: String },
    #[error("{linker} gave no usable machine code for {arch}: {source}; choose another --offload-backend")]
    UnusableResult { linker: &'static str, arch: GpuArch, source: FormatError },
    #[error("{text:?} has a NUL character inside; rename it")]
    Nul { text: String },
}
