//! Chooses the backend of each target by the tools that are there, and records the decisions.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use offload_bundle::arch::{CudaRelease, GpuArch};

use crate::cli::device_options::DeviceOptions;
use crate::cli::values::{Backend, BackendChoice, Part};
use crate::codegen::choose::{self, CodegenNeeds, DriverRelease, NoBackend, ToolFacts, Unsupported};
use crate::codegen::code_generator::Codegen;
use crate::codegen::cuda_driver::{self, CudaDriver};
use crate::codegen::nvjitlink::NvJitLink;
use crate::codegen::tools::Tools;
use crate::diag::error::Errors;
use crate::diag::messages::warn;
use crate::sys::process::Mode;
use crate::toolchain::{Ptxas, Toolchain};

/// The backend of one target and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendDecision {
    /// The target.
    pub target: GpuArch,
    /// The backend.
    pub backend: Backend,
    /// The program or library.
    pub path: PathBuf,
    /// Its CUDA release, if it is known.
    pub release: Option<CudaRelease>,
    /// Why this backend was chosen: a sentence without its full stop.
    pub reason: String,
}

impl fmt::Display for BackendDecision {
    /// "sm_90: ptxas 13.0 (/usr/local/cuda/bin/ptxas): it can do the whole link and needs no driver"
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tool = match (self.backend, self.path.file_name().is_some_and(|name| name == "nvlink")) {
            (Backend::Ptxas, true) => "nvlink".to_owned(),
            (backend, _) => backend.to_string(),
        };
        let release = self.release.map_or_else(String::new, |release| format!(" {release}"));
        write!(formatter, "{}: {tool}{release} ({}): {}", self.target, self.path.display(), self.reason)
    }
}

/// The tools of one link and the decisions made so far.
pub struct Backends<'a> {
    tools: Tools<'a>,
    choice: BackendChoice,
    options: &'a DeviceOptions,
    mode: Mode,
    program: &'a str,
    decisions: Mutex<Vec<BackendDecision>>,
}

impl<'a> Backends<'a> {
    /// Looks nothing up yet.
    pub fn new(
        toolchain: &'a Toolchain,
        choice: BackendChoice,
        options: &'a DeviceOptions,
        mode: Mode,
        program: &'a str,
    ) -> Self {
        Backends { tools: Tools::new(toolchain), choice, options, mode, program, decisions: Mutex::default() }
    }

    /// Runs `ptxas --version`, which takes 2 ms, so that its result is there when LLVM is done. Does nothing if the user selected
    /// another backend.
    pub fn probe_early(&self) {
        if self.choice.allows(Backend::Ptxas) {
            let _ = self.tools.ptxas();
        }
    }

    /// ptxas with its version.
    ///
    /// # Errors
    /// It was not found, or it does not report a CUDA release.
    pub fn ptxas(&self) -> Result<&Ptxas, Errors> {
        self.tools.ptxas()
    }

    /// The files of ptxas and nvlink, which alone determine what the toolkit generates. `None` if the user selected another
    /// backend or there is no ptxas.
    pub fn toolkit_files(&self) -> Option<(PathBuf, Option<PathBuf>)> {
        let ptxas = self.tools.toolchain().part(Part::Ptxas).ok().filter(|_| self.choice.allows(Backend::Ptxas))?;
        Some((ptxas.path, self.tools.nvlink().ok()))
    }

    /// Whether ptxas and nvlink will generate the code. Looks nothing else up.
    pub fn is_toolkit(&self, needs: &CodegenNeeds) -> bool {
        let facts = self.toolkit_facts(needs).unwrap_or_default();
        let only_ptxas = BackendChoice::Only(Backend::Ptxas);
        self.choice.allows(Backend::Ptxas)
            && choose::choose_backend(needs, &facts, self.options.lto, only_ptxas).is_ok()
    }

    fn toolkit_facts(&self, needs: &CodegenNeeds) -> Result<ToolFacts, Errors> {
        let ptxas = if needs.has_ptx() { self.usable_ptxas()? } else { None };
        let nvlink = needs.joins && self.tools.nvlink().is_ok();
        Ok(ToolFacts { ptxas, nvlink, ..ToolFacts::default() })
    }

    /// The release of ptxas. A ptxas that exists and does not work is an error: another tool in its place would come as a
    /// surprise.
    fn usable_ptxas(&self) -> Result<Option<CudaRelease>, Errors> {
        if !self.choice.allows(Backend::Ptxas) || self.tools.toolchain().part(Part::Ptxas).is_err() {
            return Ok(None);
        }
        self.tools.ptxas().map(|ptxas| Some(ptxas.release))
    }

    /// The decisions so far, one per target, the highest target first.
    pub fn decisions(&self) -> Vec<BackendDecision> {
        let mut decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        decisions.sort_by_key(|decision| std::cmp::Reverse(decision.target));
        decisions
    }

    /// Chooses the backend of one target and records the decision.
    ///
    /// # Errors
    /// No backend that may be used supports the link.
    pub fn choose(&self, needs: &CodegenNeeds) -> Result<Codegen<'_>, Errors> {
        let mut facts = self.toolkit_facts(needs)?;
        let (lto, choice) = (self.options.lto, self.choice);
        // The libraries are looked up only if the toolkit does not suffice.
        let mut chosen = choose::choose_backend(needs, &facts, lto, choice);
        if chosen.is_err() {
            self.check_named(Part::Ptxas, Backend::Ptxas, needs, &facts)?;
        }
        if chosen.is_err() && choice.allows(Backend::NvJitLink) {
            facts.nvjitlink = self.tools.nvjitlink().ok().map(NvJitLink::release);
            chosen = choose::choose_backend(needs, &facts, lto, choice);
        }
        if chosen.is_err() {
            self.check_named(Part::NvJitLink, Backend::NvJitLink, needs, &facts)?;
        }
        if chosen.is_err() && choice.allows(Backend::Driver) {
            let release = |driver: &CudaDriver| driver.release().map_or(DriverRelease::Unknown, DriverRelease::Known);
            facts.driver = self.tools.driver().map_or(DriverRelease::Absent, release);
            chosen = choose::choose_backend(needs, &facts, lto, choice);
        }
        let backend = chosen.map_err(|reasons| self.errors(needs.arch, &reasons))?;
        let codegen = Codegen::new(backend, &self.tools, self.options, self.mode)?;
        let reason = choose::reason(needs, &facts, lto, choice, backend);
        let (path, release) = (codegen.path(needs.has_ptx()), codegen.release(needs.has_ptx()));
        if self.record(BackendDecision { target: needs.arch, backend, path, release, reason }) {
            self.warn_about_arguments(backend);
        }
        Ok(codegen)
    }

    /// Rejects a tool that was named by its own option and does not support the link: it is used or rejected, never passed over.
    fn check_named(&self, part: Part, backend: Backend, needs: &CodegenNeeds, facts: &ToolFacts) -> Result<(), Errors> {
        let named = self.tools.toolchain().named(part).filter(|_| self.choice == BackendChoice::Auto);
        let Some(path) = named else { return Ok(()) };
        choose::check_named(backend, needs, facts, self.options.lto).map_err(|reason| {
            let shown = format!("{}{}", part.option(), path.display());
            let absent = if backend == Backend::NvJitLink { self.tools.nvjitlink().err() } else { None };
            let reason = absent.map_or_else(|| reason.to_string(), |errors| errors.to_string());
            Errors::one(format_args!(
                "{shown} cannot link the code for {}: {reason}, leave the option out, or choose another tool with \
                 --offload-backend=",
                needs.arch
            ))
        })
    }

    /// Records the first decision for each target; returns whether this is one.
    fn record(&self, decision: BackendDecision) -> bool {
        let mut decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = decisions.iter().all(|known| known.target != decision.target);
        if is_first {
            decisions.push(decision);
        }
        is_first
    }

    /// Warns about arguments for ptxas and nvlink that have no effect on the chosen backend.
    fn warn_about_arguments(&self, backend: Backend) {
        if backend == Backend::Driver {
            cuda_driver::warn_about(self.program, &self.options.ptxas_arguments);
        }
        if backend != Backend::Ptxas {
            for word in &self.options.nvlink_arguments {
                warn(self.program, format_args!("{word} is for nvlink and has no effect on {backend}"));
            }
        }
    }

    /// The error for a link that no backend supports. Of tools that were not found, it mentions only those that would help.
    fn errors(&self, arch: GpuArch, reasons: &NoBackend) -> Errors {
        let helpful = reasons.0.iter().filter(|(backend, reason)| self.is_helpful(*backend, *reason, reasons));
        let texts: Vec<String> = helpful.map(|(backend, reason)| self.text(*backend, *reason)).collect();
        match (self.choice, &texts[..]) {
            (BackendChoice::Auto, [only]) => Errors::one(only),
            (BackendChoice::Auto, _) => {
                Errors::one(format_args!("nothing here can link the code for {arch}: {}", texts.join("; ")))
            }
            (BackendChoice::Only(backend), _) => Errors::one(format_args!(
                "--offload-backend={} cannot link the code for {arch}: {}",
                backend.option(),
                texts.join("; ")
            )),
        }
    }

    fn text(&self, backend: Backend, reason: Unsupported) -> String {
        let absent = match backend {
            Backend::Ptxas => self.tools.ptxas().err(),
            Backend::NvJitLink => self.tools.nvjitlink().err(),
            Backend::Driver => self.tools.driver().err(),
        };
        match absent.filter(|_| reason == Unsupported::Absent) {
            Some(errors) => errors.to_string(),
            None => format!("{}: {}", reason.text(backend), reason.advice(backend)),
        }
    }

    fn is_helpful(&self, backend: Backend, reason: Unsupported, reasons: &NoBackend) -> bool {
        let of_ptxas = reasons.0.iter().find(|(backend, _)| *backend == Backend::Ptxas).map(|(_, reason)| *reason);
        match (self.choice, backend, reason) {
            (BackendChoice::Auto, Backend::Driver, _) => {
                reasons.0.iter().all(|(_, reason)| *reason != Unsupported::Absent)
            }
            // The library would help if ptxas exists and does not support the link.
            (BackendChoice::Auto, Backend::NvJitLink, Unsupported::Absent) => {
                matches!(of_ptxas, Some(Unsupported::NoLtoIr | Unsupported::NoNvlink))
            }
            _ => true,
        }
    }
}
