//! Errors in the CUDA toolkit of a link.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use llvm_passes::pipeline::NEWEST_PTX;
use offload_bundle::arch::{CudaRelease, GpuArch, PtxVersion};

use crate::cli::values::Part;
use crate::sys::process;

/// A part of CUDA that is missing, unusable or too old.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}{path}: no such {}; name {} itself, not its folder", .part.option(), kind(*.part), .part.name())]
    NamedPart { part: Part, path: PathBuf },
    #[error(
        "nvlink not found{}: it joins relocatable cubins; install the whole CUDA toolkit, name nvlink with \
         --nvlink-path=<file>, or let --offload-backend=nvjitlink join them",
        place(" beside", .ptxas.as_deref())
    )]
    NoNvlink { ptxas: Option<PathBuf> },
    #[error(
        "{library} not found in the folder nvvm beside {nvlink}: nvlink links LTO-IR with it; install the whole CUDA toolkit, or \
         choose --offload-backend=nvjitlink"
    )]
    NoNvvm { nvlink: PathBuf, library: &'static str },
    #[error(
        "{} not found{}: {}; install it or name it with {}<file>",
        .part.name(), place(" in", .root.as_deref()), .part.purpose(), .part.option()
    )]
    NoPart { part: Part, root: Option<PathBuf> },
    #[error("no bin/ptxas in {root}, which {how} names as the CUDA toolkit; name the folder of a toolkit that has one")]
    NoPtxasInNamedToolkit { root: PathBuf, how: &'static str },
    #[error("no ptxas in {root} ({how})")]
    NoPtxasInToolkit { root: PathBuf, how: &'static str },
    #[error(
        "ptxas not found: looked at --cuda-path, CUDA_PATH, CUDA_HOME, PATH, /usr/local/cuda and Python's packages; \
         install the CUDA toolkit or name it with --cuda-path=<dir>"
    )]
    NoToolkit,
    #[error("libcuda.so.1 not found: {}; it comes with NVIDIA's driver", Part::Driver.purpose())]
    NoDriver,
    #[error(
        "ld.lld not found: {}; install LLVM's lld, or name it with {}<file>", Part::Lld.purpose(), Part::Lld.option()
    )]
    NoLld,
    #[error(
        "llvm-spirv not found: it translates images for amdgcnspirv to SPIR-V; put it on PATH, or let LLVM's own backend do it with \
         --device-compiler=-use-spirv-backend"
    )]
    NoLlvmSpirv,
    #[error("clang not found: with -use-spirv-backend it compiles images for amdgcnspirv; put it on PATH")]
    NoClang,
    #[error("{path} cannot be used as nvJitLink: {reason}; name another with --nvjitlink-path=<file>")]
    NvJitLink { path: PathBuf, reason: String },
    #[error("{path} cannot be used as the CUDA driver: {reason}")]
    Driver { path: PathBuf, reason: String },
    #[error("cannot run {program}: {source}")]
    Start { program: PathBuf, source: io::Error },
    #[error("{program} --version does not name a CUDA release ({}): is it NVIDIA's ptxas?", process::ending(*.status))]
    NoRelease { program: PathBuf, status: ExitStatus },
    #[error(
        "{arch} needs PTX {needed}{}, but {tool} of CUDA {release} and this LLVM (PTX {NEWEST_PTX}) \
         reach only PTX {spoken}; {}",
        cuda_of(*.needed), way_out(*.needed)
    )]
    TargetTooNew { arch: GpuArch, needed: PtxVersion, spoken: PtxVersion, tool: PathBuf, release: CudaRelease },
}

/// What to do about a target that needs this PTX version.
fn way_out(needed: PtxVersion) -> &'static str {
    if needed > NEWEST_PTX {
        "compile with clang for an earlier GPU whose code it runs, or with nvcc"
    } else {
        "name a newer toolkit with --cuda-path=<dir>"
    }
}

fn kind(part: Part) -> &'static str {
    if part.is_program() { "program" } else { "file" }
}

fn place(word: &str, path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| format!("{word} {}", path.display()))
}

/// The release of CUDA that introduced a version of PTX, in parentheses.
fn cuda_of(version: PtxVersion) -> String {
    version.cuda_release().map_or_else(String::new, |release| format!(" (CUDA {release})"))
}
