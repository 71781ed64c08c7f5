//! What the device links of all targets share.

use crate::cli::device_options::DeviceOptions;
use crate::codegen::Backends;
use crate::lto::cuda_libraries::CudaLibraries;
use crate::lto::result_cache::{KeyInputs, ResultCache};
use crate::plan::image_policy::ImageEntries;
use crate::plan::link_context::LinkContext;
use crate::plan::target_link::LinkRequest;
use crate::sys::memory::Budget;
use crate::sys::memory::estimates::Estimates;
use crate::sys::temp_files::TempFiles;

/// What the device links of all targets share.
#[derive(Clone, Copy)]
pub struct LtoContext<'a> {
    /// What the user requested, and the resources of the link.
    pub link: &'a LinkContext<'a>,
    /// What generates machine code: chosen for each target.
    pub backends: &'a Backends<'a>,
    /// CUDA's libraries of device code.
    pub libraries: &'a CudaLibraries,
    /// What the image gets, of all targets.
    pub entries: &'a ImageEntries,
    /// Results of earlier links.
    pub result_cache: &'a ResultCache,
    /// Memory for jobs.
    pub budget: &'a Budget,
    /// How much of it each needs.
    pub estimates: &'a Estimates,
}

impl<'a> LtoContext<'a> {
    /// Where intermediate files go.
    pub fn temp_files(&self) -> &'a TempFiles {
        self.link.temp_files
    }

    /// Options of the device link.
    pub fn options(&self) -> &'a DeviceOptions {
        self.link.request.device
    }

    /// Whether commands are only shown.
    pub fn is_dry_run(&self) -> bool {
        self.link.request.mode.dry
    }

    /// What keys of the cache depend on beside the code.
    pub fn key_inputs(&self) -> KeyInputs<'a> {
        let LtoContext { link, backends, libraries, entries, .. } = *self;
        KeyInputs { link, backends, libraries, entries }
    }

    /// What the plan of a target depends on beside its code.
    pub fn request(&self) -> LinkRequest<'a> {
        let is_printed = self.link.request.options.plan.is_some();
        LinkRequest { entries: self.entries, registered: self.link.registered, options: self.options(), is_printed }
    }
}
