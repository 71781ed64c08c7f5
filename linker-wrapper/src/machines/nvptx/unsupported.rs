//! Why a backend does not support a link.

use std::fmt;

use offload_bundle::arch::{CudaRelease, GpuArch, LtoIrVersion, PtxVersion};

use crate::cli::values::Backend;

/// Why a backend does not support a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsupported {
    /// The tool was not found or cannot be loaded: the error, which includes advice.
    Absent(String),
    /// Several objects have to be linked, and there is no nvlink.
    NoNvlink,
    /// The tool does not read LTO-IR.
    NoLtoIr,
    /// nvlink lacks NVIDIA's optimizer, without which it does not link LTO-IR.
    NoOptimizer,
    /// There is LTO-IR, and link-time optimization is disabled.
    LtoOff,
    /// LTO-IR newer than the tool.
    LtoIrNewer { version: LtoIrVersion, known: LtoIrVersion, release: CudaRelease },
    /// LTO-IR of an earlier major version of CUDA than the tool.
    LtoIrOfOlderMajor { version: LtoIrVersion, major: u32, release: CudaRelease },
    /// There is other code than LTO-IR. nvJitLink 13.0 and 13.5 lose functions that only the other code calls.
    PartialLto,
    /// The result is relocatable code, which only nvlink makes.
    Relocatable,
    /// PTX newer than the tool.
    PtxNewer { version: PtxVersion, known: PtxVersion, release: CudaRelease },
    /// The target needs newer PTX than the tool knows.
    TargetNewer { arch: GpuArch, needed: PtxVersion, known: PtxVersion, release: CudaRelease },
    /// The tool no longer generates code for the target.
    TargetOlder { arch: GpuArch, oldest: GpuArch, release: CudaRelease },
}

/// A backend with the reason why it does not support a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The backend.
    pub backend: Backend,
    /// The reason.
    pub reason: Unsupported,
}

impl fmt::Display for Rejected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = self.reason.advice(self.backend);
        match &self.reason {
            Unsupported::Absent(_) => formatter.write_str(advice),
            reason => write!(formatter, "{}: {advice}", reason.text(self.backend)),
        }
    }
}

impl Unsupported {
    /// Describes the reason without advice, for the report.
    pub fn text(&self, backend: Backend) -> String {
        let tool = |release: &CudaRelease| match backend {
            Backend::Driver => format!("this driver (CUDA {release})"),
            _ => format!("{backend} {release}"),
        };
        match self {
            Unsupported::Absent(_) => format!("{backend} was not found"),
            Unsupported::NoNvlink => "several objects must be linked, and there is no nvlink".to_owned(),
            Unsupported::NoLtoIr => format!("there is LTO-IR to link, which {backend} does not read"),
            Unsupported::NoOptimizer => {
                "there is LTO-IR to link, and NVIDIA's optimizer is not beside nvlink (nvvm/lib64/libnvvm.so)"
                    .to_owned()
            }
            Unsupported::LtoOff => "there is LTO-IR to link, and link-time optimization is off (-fno-lto)".to_owned(),
            Unsupported::LtoIrNewer { version, known, release } => {
                format!("LTO-IR {version} is newer than {}, which knows {known}", tool(release))
            }
            Unsupported::LtoIrOfOlderMajor { version, major, release } => {
                format!(
                    "LTO-IR {version} is of CUDA {major}, and {} links only that of its own major version",
                    tool(release)
                )
            }
            Unsupported::PartialLto => {
                format!("there is other code beside the LTO-IR, for which {backend} loses functions that it calls")
            }
            Unsupported::Relocatable => format!("--dlink -r leaves relocatable code, which {backend} does not make"),
            Unsupported::PtxNewer { version, known, release } => {
                format!("PTX {version} is newer than {}, which knows {known}", tool(release))
            }
            Unsupported::TargetNewer { arch, needed, known, release } => {
                let first = needed.cuda_release().map_or_else(String::new, |first| format!(" (CUDA {first})"));
                format!("{arch} needs PTX {needed}{first}, and {} knows {known}", tool(release))
            }
            Unsupported::TargetOlder { arch, oldest, release } => {
                format!("{} generates no code for {arch}, only for {oldest} and later", tool(release))
            }
        }
    }

    /// Advises the user.
    fn advice(&self, backend: Backend) -> &str {
        match (self, backend) {
            (Unsupported::Absent(reason), _) => reason,
            (Unsupported::NoNvlink, _) => {
                "install the whole CUDA toolkit, name nvlink with --nvlink-path=<file>, or choose --offload-backend=nvjitlink"
            }
            (Unsupported::NoLtoIr, _) => {
                "choose --offload-backend=nvjitlink, or compile with clang -foffload-lto, or to PTX or machine code"
            }
            (Unsupported::NoOptimizer, _) => {
                "name a whole toolkit with --cuda-path=<dir>, or compile the files to PTX or machine code"
            }
            (Unsupported::LtoOff, _) => "leave out -fno-lto, or compile the files to PTX or machine code",
            (Unsupported::LtoIrNewer { .. } | Unsupported::PtxNewer { .. }, Backend::Driver) => {
                "update the driver, compile with an older CUDA, or choose another --offload-backend"
            }
            (Unsupported::LtoIrNewer { .. } | Unsupported::PtxNewer { .. }, _) => {
                "name a newer one, or compile with an older CUDA"
            }
            (Unsupported::LtoIrOfOlderMajor { .. }, _) => {
                "compile the files with the toolkit of this link, or name a tool of theirs"
            }
            (Unsupported::PartialLto, _) => {
                "name a toolkit whose nvlink has NVIDIA's optimizer with --cuda-path=<dir>, or compile all files to LTO-IR or none"
            }
            (Unsupported::Relocatable, _) => {
                "install the whole CUDA toolkit, or name its nvlink with --nvlink-path=<file>, and leave out --offload-backend"
            }
            (Unsupported::TargetNewer { .. }, Backend::Driver) => {
                "update the driver, or choose another --offload-backend"
            }
            (Unsupported::TargetNewer { .. }, Backend::Ptxas) => "name a newer toolkit with --cuda-path=<dir>",
            (Unsupported::TargetNewer { .. }, Backend::NvJitLink) => {
                "name a newer library with --nvjitlink-path=<file>"
            }
            (Unsupported::TargetOlder { .. }, _) => "name one of an older CUDA",
        }
    }
}
