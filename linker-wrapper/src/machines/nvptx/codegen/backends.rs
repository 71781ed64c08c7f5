//! The backends of one link: chooses one for each target, and records the decisions.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use crate::cli::values::{Backend, BackendChoice, CubinLinker};
use crate::diag::error::Errors;
use crate::diag::messages::warn;
use crate::machines::nvptx::backend::{self, BackendDecision, CodegenNeeds};
use crate::machines::nvptx::codegen::code_generator::Codegen;
use crate::machines::nvptx::codegen::cuda_driver;
use crate::machines::nvptx::codegen::decisions::Decisions;
use crate::plan::link_context::{LinkContext, Request};
use crate::sys::temp_files::TempFiles;
use crate::toolchain::ptxas::Ptxas;
use crate::toolchain::tool_facts::ToolFacts;
use crate::toolchain::tools::Tools;

/// The tools of one link and the decisions made so far.
pub struct Backends<'a> {
    tools: Arc<Tools>,
    facts: ToolFacts,
    choice: BackendChoice,
    request: Request<'a>,
    temp_files: &'a TempFiles,
    decisions: Decisions,
}

impl<'a> Backends<'a> {
    /// The backends of these tools. Looks nothing up yet.
    pub fn new(tools: Tools, link: &LinkContext<'a>) -> Self {
        let LinkContext { request, temp_files, .. } = *link;
        let tools = Arc::new(tools);
        let facts = ToolFacts::of(&tools);
        Backends { tools, facts, choice: request.options.backend, request, temp_files, decisions: Decisions::default() }
    }

    /// Runs `ptxas --version`, which takes 2 ms, so that its result is there when LLVM is done. Does nothing if the user selected
    /// another backend.
    pub fn probe_early(&self) {
        if self.choice.allows(Backend::Ptxas) {
            LazyLock::force(&self.facts.ptxas);
        }
    }

    /// ptxas with its version.
    ///
    /// # Errors
    /// It was not found, or it does not report a CUDA release.
    pub fn ptxas(&self) -> Result<&Ptxas, Errors> {
        self.facts.ptxas.as_ref().map_err(Clone::clone)
    }

    /// The files of ptxas and nvlink, which alone determine what the toolkit generates. `None` if the user selected another
    /// backend or there is no ptxas.
    pub fn toolkit_files(&self) -> Option<(PathBuf, Option<PathBuf>)> {
        let ptxas = self.facts.ptxas_path.as_ref().ok().filter(|_| self.choice.allows(Backend::Ptxas))?;
        Some((ptxas.clone(), self.facts.nvlink.as_ref().ok().cloned()))
    }

    /// Whether ptxas and nvlink will generate the code. Looks nothing else up.
    pub fn is_toolkit(&self, needs: &CodegenNeeds) -> bool {
        backend::is_toolkit(needs, &self.facts, self.choice)
    }

    /// The decisions so far, one per target, the highest target first.
    pub fn decisions(&self) -> Vec<BackendDecision> {
        let mut decisions = self.decisions.all().clone();
        decisions.sort_by_key(|decision| std::cmp::Reverse(decision.target));
        decisions
    }

    /// Chooses the backend of one target and records the decision.
    ///
    /// # Errors
    /// No backend that may be used supports the link.
    pub fn choose(&self, needs: &CodegenNeeds) -> Result<Codegen<'_>, Errors> {
        let decision = backend::choose(needs, &self.facts, self.choice)?;
        let codegen = Codegen::new(&decision, &self.tools, self.request, self.temp_files, &self.decisions)?;
        let backend = decision.backend;
        if self.decisions.record(decision) {
            self.warn_about_arguments(backend);
        }
        Ok(codegen)
    }

    /// Warns about arguments for ptxas and nvlink that have no effect on the chosen backend.
    fn warn_about_arguments(&self, backend: Backend) {
        let Request { program, device: options, .. } = self.request;
        if backend == Backend::Driver {
            cuda_driver::warn_about(program, &options.ptxas_arguments);
        }
        if backend != Backend::Ptxas {
            for word in &options.nvlink_arguments {
                warn(program, format_args!("{word} is for nvlink and has no effect on {backend}"));
            }
            if self.request.options.cubin_linker == CubinLinker::Fatlink {
                warn(program, format_args!("--offload-device-linker=fatlink has no effect on {backend}"));
            }
        }
    }
}
