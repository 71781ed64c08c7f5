//! The context that the device links of all targets share.

use std::collections::{BTreeMap, BTreeSet};

use crate::cli::device_options::DeviceOptions;
use crate::cli::values::KernelFolding;
use crate::codegen::Backends;
use crate::lto::cuda_libraries::CudaLibraries;
use crate::lto::distribution::Distribution;
use crate::lto::job_run::Resources;
use crate::lto::result_cache::{KeyInputs, ResultCache};
use crate::plan::image_policy::ImageEntries;
use crate::plan::link_context::LinkContext;
use crate::plan::target_link::LinkRequest;
use crate::sys::memory::estimates::Estimates;
use crate::sys::temp_files::TempFiles;

/// The context that the device links of all targets share.
#[derive(Clone, Copy)]
pub struct LtoContext<'a> {
    /// The request and the resources of the link.
    pub link: &'a LinkContext<'a>,
    /// The backends, of which one is chosen for each target.
    pub backends: &'a Backends<'a>,
    /// CUDA's libraries of device code.
    pub libraries: &'a CudaLibraries,
    /// The entries of the image, for all targets.
    pub entries: &'a ImageEntries,
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

impl<'a> LtoContext<'a> {
    /// Returns the temporary files of the link.
    pub fn temp_files(&self) -> &'a TempFiles {
        self.link.temp_files
    }

    /// Returns the options of the device link.
    pub fn options(&self) -> &'a DeviceOptions {
        self.link.request.device
    }

    /// Whether commands are shown instead of run.
    pub fn is_dry_run(&self) -> bool {
        self.link.request.mode.dry
    }

    /// Returns what the jobs share.
    pub fn resources(&self) -> Resources<'a> {
        let LtoContext { link, result_cache, estimates, distribution, .. } = *self;
        Resources { link, result_cache, estimates, distribution }
    }

    /// Returns what cache keys depend on besides the code.
    pub fn key_inputs(&self) -> KeyInputs<'a> {
        let LtoContext { link, backends, libraries, entries, .. } = *self;
        KeyInputs { link, backends, libraries, entries }
    }

    /// Returns what the plan of a target depends on besides its code.
    pub fn request(&self) -> LinkRequest<'a> {
        let is_printed = self.link.request.options.plan.is_some();
        let is_partial = self.link.request.options.merges_device_code();
        LinkRequest {
            entries: self.entries,
            registered: self.link.registered,
            dead: self.link.dead_kernels,
            folding: if is_partial { KernelFolding::Off } else { self.link.request.options.kernel_folding },
            unregistered: self
                .link
                .request
                .options
                .emit_fatbin_only
                .then_some("there is no program that registers kernels (--emit-fatbin-only)"),
            only_folded: self.only_folded,
            finished: self.finished,
            options: self.options(),
            is_partial,
            is_printed,
        }
    }
}
