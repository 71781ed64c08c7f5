//! Chooses the backend that turns the linked code of one target into machine code. Pure, and tested with a table.
//!
//! The choice depends on capabilities: whether a tool reads all inputs, knows their versions and generates code for the target.
//! Which of two libraries is newer does not matter. `auto` takes the first backend of [`BACKENDS`] that supports the link; a backend that
//! the user selected is used or rejected, never replaced.

use std::fmt;
use std::path::PathBuf;

use offload_bundle::arch::table::KNOWN;
use offload_bundle::arch::{CudaRelease, GpuArch, LtoIrVersion, PtxVersion, TargetTable};

use crate::cli::values::{BACKENDS, Backend, BackendChoice, CubinLinker, Part};
use crate::diag::error::Errors;
use crate::machines::nvptx::cubin_linker::{self, Linker, NvlinkOnly, Reason};
use crate::machines::nvptx::error::Error;
use crate::machines::nvptx::unsupported::{Rejected, Unsupported};
use crate::toolchain::tool_facts::ToolFacts;

/// The program of a link that needs no other.
const FATLINK: &str = "fatlink";

/// What a backend has to support to link the code of one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodegenNeeds {
    /// The target.
    pub arch: GpuArch,
    /// Whether there is LLVM bitcode, which is compiled to PTX of a version that the backend knows.
    pub bitcode: bool,
    /// The highest version of the PTX among the inputs, if there is any.
    pub ptx: Option<PtxVersion>,
    /// The highest version of the LTO-IR among the inputs, if there is any.
    pub lto_ir: Option<LtoIrVersion>,
    /// The lowest version of the LTO-IR among the inputs.
    pub oldest_lto_ir: Option<LtoIrVersion>,
    /// Whether code that the optimizer does not see refers to the LTO-IR.
    pub partial_lto: bool,
    /// Whether there is more than one object, so that a linker has to run.
    pub joins: bool,
    /// Whether link-time optimization is enabled.
    pub lto: bool,
    /// Whether the result is relocatable code.
    pub relocatable: bool,
    /// What links cubins, if the user selected one.
    pub linker: CubinLinker,
    /// What fatlink's linker does not do for the link.
    pub nvlink_only: Option<NvlinkOnly>,
}

impl CodegenNeeds {
    /// Requires nothing but code for `arch`.
    pub fn none(arch: GpuArch) -> Self {
        CodegenNeeds {
            arch,
            bitcode: false,
            ptx: None,
            lto_ir: None,
            oldest_lto_ir: None,
            partial_lto: false,
            joins: false,
            lto: true,
            relocatable: false,
            linker: CubinLinker::Auto,
            nvlink_only: None,
        }
    }

    /// Whether the user selected fatlink to link cubins, so that there need not be an nvlink.
    pub fn selects_fatlink(&self) -> bool {
        self.linker == CubinLinker::Fatlink
    }

    /// Whether there is PTX to assemble, read from an input or emitted by LLVM.
    pub fn has_ptx(&self) -> bool {
        self.bitcode || self.ptx.is_some()
    }
}

/// The backend of one target and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendDecision {
    /// The target.
    pub target: GpuArch,
    /// The backend.
    pub backend: Backend,
    /// The program or library.
    pub path: PathBuf,
    /// Its CUDA release, if known.
    pub release: Option<CudaRelease>,
    /// What links the cubins of ptxas and of the inputs, if there is something to link.
    pub linker: Option<Linker>,
    /// Why this backend was chosen: a sentence without a full stop.
    reason: String,
}

impl BackendDecision {
    /// Why this backend was chosen, and what links its cubins.
    pub fn reason(&self) -> String {
        let linker =
            self.linker.as_ref().filter(|linker| **linker != Linker::Nvlink(Reason::Needed(NvlinkOnly::LtoIr)));
        linker.map_or_else(|| self.reason.clone(), |linker| format!("{}; {linker}", self.reason))
    }
}

impl fmt::Display for BackendDecision {
    /// "sm_90: ptxas 13.0 (/usr/local/cuda/bin/ptxas): it can do the whole link and needs no driver"
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.as_os_str() == FATLINK {
            return write!(formatter, "{}: {FATLINK}: {}", self.target, self.reason());
        }
        let tool = match (self.backend, self.path.file_name().is_some_and(|name| name == "nvlink")) {
            (Backend::Ptxas, true) => "nvlink".to_owned(),
            (backend, _) => backend.to_string(),
        };
        let release = self.release.map_or_else(String::new, |release| format!(" {release}"));
        write!(formatter, "{}: {tool}{release} ({}): {}", self.target, self.path.display(), self.reason())
    }
}

/// Chooses a backend. Looks up only the facts that the decision depends on: under [`BackendChoice::Auto`], a toolkit that
/// supports the link is chosen without searching for the libraries.
///
/// # Errors
/// No backend that may be used supports the link, or ptxas exists and does not work.
pub fn choose(needs: &CodegenNeeds, facts: &ToolFacts, choice: BackendChoice) -> Result<BackendDecision, Errors> {
    Abilities { needs, facts, targets: KNOWN }.choose(choice)
}

/// Whether [`choose`] selects ptxas and nvlink. Looks up no facts about other tools.
pub fn is_toolkit(needs: &CodegenNeeds, facts: &ToolFacts, choice: BackendChoice) -> bool {
    let abilities = Abilities { needs, facts, targets: KNOWN };
    choice.allows(Backend::Ptxas) && matches!(abilities.unsupported(Backend::Ptxas), Ok(None))
}

/// The capabilities of the tools, compared with the needs of a link.
struct Abilities<'a> {
    needs: &'a CodegenNeeds,
    facts: &'a ToolFacts,
    targets: TargetTable<'a>,
}

impl Abilities<'_> {
    fn choose(&self, choice: BackendChoice) -> Result<BackendDecision, Errors> {
        let mut rejected = Vec::new();
        for backend in BACKENDS.into_iter().filter(|backend| choice.allows(*backend)) {
            let Some(reason) = self.unsupported(backend)? else { return self.decision(backend, choice, &rejected) };
            let reason = Rejected { backend, reason };
            if choice == BackendChoice::Auto {
                self.check_named(&reason)?;
            }
            rejected.push(reason);
        }
        Err(self.error(choice, rejected).into())
    }

    /// Rejects a tool that the user named by an option of its own, instead of silently replacing it. Where no other version of
    /// the tool would help, as with LTO-IR or a missing nvlink, the next backend is tried.
    fn check_named(&self, rejected: &Rejected) -> Result<(), Error> {
        let part = match (rejected.backend, &rejected.reason) {
            (
                _,
                Unsupported::NoNvlink
                | Unsupported::NoLtoIr
                | Unsupported::NoOptimizer
                | Unsupported::LtoOff
                | Unsupported::PartialLto,
            ) => {
                return Ok(());
            }
            (Backend::Ptxas, _) => Part::Ptxas,
            (Backend::NvJitLink, _) => Part::NvJitLink,
            // The driver is the last backend, so nothing replaces it.
            (Backend::Driver, _) => return Ok(()),
        };
        let Some(path) = self.facts.named.get(part).map(PathBuf::from) else { return Ok(()) };
        Err(Error::Named { part, path, arch: self.needs.arch, rejected: rejected.clone() })
    }

    fn decision(
        &self,
        backend: Backend,
        choice: BackendChoice,
        rejected: &[Rejected],
    ) -> Result<BackendDecision, Errors> {
        let is_toolkit = backend == Backend::Ptxas;
        let linker = is_toolkit.then(|| self.linker()).transpose()?.flatten();
        let (path, release) = match backend {
            Backend::Ptxas if self.needs.has_ptx() => {
                let ptxas = self.facts.ptxas.clone()?;
                (ptxas.path, Some(ptxas.release))
            }
            // No other program runs.
            Backend::Ptxas if linker == Some(Linker::Fatlink) => (PathBuf::from(FATLINK), None),
            Backend::Ptxas => (self.facts.nvlink.clone().unwrap_or_default(), None),
            Backend::NvJitLink => self.facts.nvjitlink.clone().map(|library| (library.path, library.release))?,
            Backend::Driver => self.facts.driver.clone().map(|library| (library.path, library.release))?,
        };
        let reason = self.reason(backend, choice, rejected);
        Ok(BackendDecision { target: self.needs.arch, backend, path, release, linker, reason })
    }

    /// What links cubins. A program in one piece is finished by its linker if it has functions besides kernels, which is known once it is
    /// compiled: no decision for nvlink has to be explained.
    fn linker(&self) -> Result<Option<Linker>, Error> {
        let CodegenNeeds { arch, bitcode, joins, linker, nvlink_only, .. } = *self.needs;
        if !joins && !bitcode {
            return Ok(None);
        }
        let linker =
            cubin_linker::choose(arch, linker, nvlink_only).map_err(|reason| Error::CubinLinker { arch, reason })?;
        Ok(Some(linker).filter(|linker| joins || !matches!(linker, Linker::Nvlink(_))))
    }

    fn reason(&self, backend: Backend, choice: BackendChoice, rejected: &[Rejected]) -> String {
        if choice != BackendChoice::Auto {
            return format!("--offload-backend={} selects it", backend.option());
        }
        let reasons: Vec<String> = rejected.iter().map(|rejected| rejected.reason.text(rejected.backend)).collect();
        match (reasons.is_empty(), self.needs.has_ptx()) {
            (false, _) => reasons.join("; "),
            (true, _) if self.needs.lto_ir.is_some() => "it links LTO-IR with NVIDIA's optimizer".to_owned(),
            (true, true) => "it can do the whole link and needs no driver".to_owned(),
            (true, false) => "only machine code has to be linked".to_owned(),
        }
    }

    /// Creates the error for a link that no backend supports.
    fn error(&self, choice: BackendChoice, rejected: Vec<Rejected>) -> Error {
        let arch = self.needs.arch;
        let backend = match choice {
            BackendChoice::Only(backend) => return Error::Selected { backend, arch, rejected },
            BackendChoice::Auto => {
                rejected.iter().filter(|one| is_helpful(one, &rejected)).cloned().collect::<Vec<_>>()
            }
        };
        match <[Rejected; 1]>::try_from(backend) {
            Ok([only]) => Error::Only(only),
            Err(rejected) => Error::NoBackend { arch, rejected },
        }
    }

    /// Determines why a backend does not support the link; `None` if it does.
    fn unsupported(&self, backend: Backend) -> Result<Option<Unsupported>, Errors> {
        match backend {
            Backend::Ptxas => self.unsupported_by_toolkit(),
            Backend::NvJitLink => Ok(self.unsupported_by_nvjitlink()),
            Backend::Driver => Ok(self.unsupported_by_driver()),
        }
    }

    /// As [`Abilities::unsupported`]. A ptxas that exists and does not work is an error; it is never silently replaced.
    fn unsupported_by_toolkit(&self) -> Result<Option<Unsupported>, Errors> {
        if let Some(reason) = self.unsupported_lto_by_toolkit()? {
            return Ok(Some(reason));
        }
        let assembler = match self.facts_of_ptxas()? {
            Assembler::NotNeeded => None,
            Assembler::Absent(reason) => Some(Unsupported::Absent(reason)),
            Assembler::Release(release) => self.unsupported_version(release, true),
        };
        let needs_nvlink = || self.needs.joins && !self.needs.selects_fatlink();
        let no_nvlink = || (needs_nvlink() && self.facts.nvlink.is_err()).then_some(Unsupported::NoNvlink);
        Ok(assembler.or_else(no_nvlink))
    }

    /// nvlink reads LTO-IR if it finds NVIDIA's optimizer, of the release that its ptxas has.
    fn unsupported_lto_by_toolkit(&self) -> Result<Option<Unsupported>, Errors> {
        let Some(version) = self.needs.lto_ir else { return Ok(None) };
        if !self.needs.lto {
            return Ok(Some(Unsupported::LtoOff));
        }
        if self.facts.nvlink.is_err() || self.facts.ptxas_path.is_err() {
            return Ok(Some(Unsupported::NoLtoIr));
        }
        if self.facts.nvvm.is_err() {
            return Ok(Some(Unsupported::NoOptimizer));
        }
        let release = self.facts.ptxas.as_ref().map_err(Clone::clone)?.release;
        Ok(self.unsupported_lto_ir(version, release))
    }

    /// Tools read LTO-IR of their own release and of earlier ones of the same major version. Later ones read it, too, and NVIDIA does
    /// not promise what they make of it.
    fn unsupported_lto_ir(&self, version: LtoIrVersion, release: CudaRelease) -> Option<Unsupported> {
        if let Some(known) = self.targets.lto_ir(release).filter(|known| version > *known) {
            return Some(Unsupported::LtoIrNewer { version, known, release });
        }
        let oldest = self.needs.oldest_lto_ir.unwrap_or(version);
        let major = self.targets.major_of_lto_ir(oldest).filter(|major| *major < release.major)?;
        Some(Unsupported::LtoIrOfOlderMajor { version: oldest, major, release })
    }

    fn facts_of_ptxas(&self) -> Result<Assembler, Errors> {
        if !self.needs.has_ptx() {
            return Ok(Assembler::NotNeeded);
        }
        if let Err(errors) = &*self.facts.ptxas_path {
            return Ok(Assembler::Absent(errors.to_string()));
        }
        self.facts.ptxas.as_ref().map(|ptxas| Assembler::Release(ptxas.release)).map_err(Clone::clone)
    }

    fn unsupported_by_nvjitlink(&self) -> Option<Unsupported> {
        let library = match &*self.facts.nvjitlink {
            Ok(library) => library,
            Err(errors) => return Some(Unsupported::Absent(errors.to_string())),
        };
        if self.needs.relocatable {
            return Some(Unsupported::Relocatable);
        }
        if self.needs.lto_ir.is_some() && !self.needs.lto {
            return Some(Unsupported::LtoOff);
        }
        if self.needs.partial_lto {
            return Some(Unsupported::PartialLto);
        }
        let release = library.release?;
        let lto_ir = self.needs.lto_ir.and_then(|version| self.unsupported_lto_ir(version, release));
        lto_ir.or_else(|| self.unsupported_version(release, true))
    }

    fn unsupported_by_driver(&self) -> Option<Unsupported> {
        let driver = match &*self.facts.driver {
            Ok(driver) => driver,
            Err(errors) => return Some(Unsupported::Absent(errors.to_string())),
        };
        if self.needs.relocatable {
            return Some(Unsupported::Relocatable);
        }
        // CU_JIT_INPUT_NVVM took the IR of CUDA 11.4 to 11.8 and has been withdrawn.
        if self.needs.lto_ir.is_some() {
            return Some(Unsupported::NoLtoIr);
        }
        // A driver that reports no release is assumed to support the link, and reports its own errors.
        self.unsupported_version(driver.release?, false)
    }

    /// Compares PTX and target with a release. The driver still compiles for GPUs that the toolkit of its release has dropped.
    fn unsupported_version(&self, release: CudaRelease, drops_targets: bool) -> Option<Unsupported> {
        let (arch, known) = (self.needs.arch, self.newest_ptx(release));
        if let Some(version) = self.needs.ptx.filter(|version| *version > known) {
            return Some(Unsupported::PtxNewer { version, known, release });
        }
        let needed = self.targets.min_ptx(arch);
        if needed > known {
            return Some(Unsupported::TargetNewer { arch, needed, known, release });
        }
        let oldest = self.targets.oldest_gpu(release).filter(|oldest| drops_targets && arch.number < oldest.number);
        oldest.map(|oldest| Unsupported::TargetOlder { arch, oldest, release })
    }

    /// The newest PTX version that a release knows. A release without a row in the table supports no PTX if it is older than the
    /// table, and any PTX if it is newer.
    fn newest_ptx(&self, release: CudaRelease) -> PtxVersion {
        let unknown = if release.major < 12 { 0 } else { u8::MAX };
        self.targets.release(release).map_or(PtxVersion { major: unknown, minor: 0 }, |row| row.ptx)
    }
}

/// The assembler for the PTX of a link.
enum Assembler {
    /// There is no PTX to assemble.
    NotNeeded,
    /// ptxas was not found.
    Absent(String),
    /// ptxas of this release.
    Release(CudaRelease),
}

/// Whether the user can do something about a rejection. A tool that was not found counts only if it would help.
fn is_helpful(one: &Rejected, all: &[Rejected]) -> bool {
    let is_absent = |rejected: &Rejected| matches!(rejected.reason, Unsupported::Absent(_));
    match one.backend {
        Backend::Ptxas => true,
        // The library would help if ptxas exists and does not support the link.
        Backend::NvJitLink => {
            let replaceable = |other: &Rejected| {
                matches!(other.reason, Unsupported::NoLtoIr | Unsupported::NoOptimizer | Unsupported::NoNvlink)
            };
            !is_absent(one) || all.iter().any(|other| other.backend == Backend::Ptxas && replaceable(other))
        }
        Backend::Driver => !all.iter().any(is_absent),
    }
}

#[cfg(test)]
#[path = "backend_tests.rs"]
mod tests;
