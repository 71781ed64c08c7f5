//! The context that the device links of all targets of a machine share.

use std::collections::{BTreeMap, BTreeSet};

use crate::cli::options::NO_PROGRAM;
use crate::cli::values::KernelFolding;
use crate::lto::distribution::Distribution;
use crate::lto::job_run::Resources;
use crate::lto::result_cache::ResultCache;
use crate::machines::interface::Machine;
use crate::plan::link_context::LinkContext;
use crate::plan::target_plan::PlanRequest;
use crate::sys::memory::estimates::Estimates;
use crate::sys::temp_files::TempFiles;

/// The context that the device links of all targets of a machine share.
pub struct LtoContext<'a, M: Machine> {
    /// The kind of the code, in plans.
    pub kind: &'static str,
    /// Whether the kind can register a kernel in place of an equal one.
    pub folds_kernels: bool,
    /// What the code runs on.
    pub machine: &'a M,
    /// The request and the resources of the link.
    pub link: &'a LinkContext<'a>,
    /// Results of earlier links.
    pub result_cache: &'a ResultCache<'a>,
    /// Estimates of the memory that a job needs.
    pub estimates: &'a Estimates,
    /// Results of jobs that ran elsewhere.
    pub distribution: &'a Distribution,
    /// The only kernels that may be left out as equal to others, if that is limited.
    pub only_folded: Option<&'a BTreeMap<String, String>>,
    /// The kernels in results of the inputs, if any may be folded.
    pub finished: &'a BTreeSet<String>,
}

impl<M: Machine> Clone for LtoContext<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for LtoContext<'_, M> {}

impl<'a, M: Machine> LtoContext<'a, M> {
    /// Returns the temporary files of the link.
    pub fn temp_files(&self) -> &'a TempFiles {
        self.link.temp_files
    }

    /// Whether commands are shown instead of run.
    pub fn is_dry_run(&self) -> bool {
        self.link.request.mode.dry
    }

    /// Whether jobs leave code: a dry run and a search for code that LLVM cannot compile have none.
    pub fn makes_code(&self) -> bool {
        !self.is_dry_run() && !self.link.request.options.diagnosing
    }

    /// Whether the code is that of a relocatable object: the link of the program may define what is undefined.
    pub fn is_partial(&self) -> bool {
        self.link.request.options.merges_device_code()
    }

    /// What is done with equal kernels.
    pub fn folding(&self) -> KernelFolding {
        if self.is_partial() || !self.folds_kernels {
            KernelFolding::Off
        } else {
            self.link.request.options.kernel_folding
        }
    }

    /// Returns what the jobs share.
    pub fn resources(&self) -> Resources<'a> {
        let LtoContext { link, result_cache, estimates, distribution, .. } = *self;
        Resources { link, result_cache, estimates, distribution }
    }

    /// Returns what the plan of a target depends on besides its code.
    pub fn request(&self) -> PlanRequest<'a> {
        let options = self.link.request.options;
        PlanRequest {
            registered: self.link.registered,
            dead: self.link.dead_kernels,
            folding: self.folding(),
            unregistered: options.emit_image_only.then_some(NO_PROGRAM),
            only_folded: self.only_folded,
            finished: self.finished,
            is_printed: options.plan.is_some(),
        }
    }
}
