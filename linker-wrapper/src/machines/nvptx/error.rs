//! Links that cannot be planned.

use std::fmt;
use std::path::PathBuf;

use offload_bundle::FormatError;
use offload_bundle::arch::GpuArch;

use crate::cli::values::{Backend, Part};
use crate::device::recorded_ptx_flags;
use crate::device::targets::Code;
use crate::machines::nvptx::cubin_linker::Reason;
use crate::machines::nvptx::unsupported::Rejected;

/// An image policy that cannot be followed, a target that no backend supports, or code that does not fit.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "the files contradict each other about PTX of {}: {conflict}; compile them alike, or decide with --offload-ptx=",
        .arch.virtual_name()
    )]
    ConflictingFlags { arch: GpuArch, conflict: String },
    #[error("--offload-ptx: PTX for {} cannot be generated: {reason}", .arch.virtual_name())]
    Ptx { arch: GpuArch, reason: NoSource },
    #[error("--offload-sass: machine code for {arch} cannot be generated: {reason}")]
    Sass { arch: GpuArch, reason: NoSource },
    #[error(
        "{option}: no GPU has the target {}; there are {known}",
        if *.option == "--offload-ptx=" { .arch.virtual_name() } else { .arch.to_string() }
    )]
    NoSuchTarget { option: &'static str, arch: GpuArch, known: String },
    #[error(
        "kernels that launch kernels need NVIDIA's device runtime, which is machine code: the code for {arch} cannot become \
         PTX or machine code of another target; leave out --offload-ptx and --offload-sass"
    )]
    DeviceRuntime { arch: GpuArch },
    /// `--offload-backend=auto`, and the user can do something about only one of the rejections.
    #[error("{0}")]
    Only(Rejected),
    /// `--offload-backend=auto`.
    #[error("no available backend can link the code for {arch}: {}", joined(.rejected))]
    NoBackend { arch: GpuArch, rejected: Vec<Rejected> },
    /// `--offload-backend` with a name.
    #[error("--offload-backend={} cannot link the code for {arch}: {}", .backend.option(), joined(.rejected))]
    Selected { backend: Backend, arch: GpuArch, rejected: Vec<Rejected> },
    /// `--offload-device-linker=fatlink`.
    #[error(
        "--offload-device-linker=fatlink cannot link the code for {arch}: {reason}; select nvlink, or leave the option out"
    )]
    CubinLinker { arch: GpuArch, reason: Reason },
    /// The tool was named by an option of its own.
    #[error(
        "{}{path} cannot link the code for {arch}: {rejected}, leave the option out, or choose another tool with \
         --offload-backend=",
        .part.option()
    )]
    Named { part: Part, path: PathBuf, arch: GpuArch, rejected: Rejected },
    #[error(
        "{name}: the cubin for {arch} is finished and cannot be linked with others; compile the file with -fgpu-rdc"
    )]
    FinishedCubin { name: String, arch: GpuArch },
    #[error("cannot add equal kernels to the {form} for {arch}: {source}; link with --offload-icf=off")]
    Copies { form: &'static str, arch: GpuArch, source: FormatError },
    #[error("{name}: {what}; compile it with -foffload-lto")]
    DeclaredKernel { name: String, what: String },
    #[error("{name}: ptxas made nothing of it; report this as a defect of fatlink")]
    NothingAssembled { name: String },
}

fn joined(rejected: &[Rejected]) -> String {
    rejected.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Why no target's code can be compiled for an architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoSource {
    /// No target of the link is compatible with the architecture.
    Incompatible { arch: GpuArch, linked: Vec<GpuArch> },
    /// Some of the target's code is not IR but of the form `code`, from these files.
    NotIr { target: GpuArch, code: Code, files: Vec<String> },
    /// These files of nvcc have no PTX that can be compiled for the architecture.
    UnitsWithoutPtx { arch: GpuArch, files: Vec<String> },
}

impl fmt::Display for NoSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoSource::Incompatible { arch, linked } => {
                let linked = linked.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                write!(
                    formatter,
                    "the code is for {linked}, and none of these can be turned into it; compile with --offload-arch={arch} too"
                )
            }
            NoSource::NotIr { target, code, files } => write!(
                formatter,
                "the code for {target} comes as {} from {}; compile with -foffload-lto",
                code.name(),
                recorded_ptx_flags::shown(files)
            ),
            NoSource::UnitsWithoutPtx { arch, files } => write!(
                formatter,
                "there is no PTX for it in {}; compile with -gencode arch={name},code={name} too",
                recorded_ptx_flags::shown(files),
                name = arch.virtual_name()
            ),
        }
    }
}
