//! The request and the resources that the device links of all kinds share.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use remote_cache::Tier;

use crate::cli::device_options::{DeviceInput, DeviceOptions};
use crate::cli::options::Options;
use crate::diag::error::Errors;
use crate::host::host_machine::HostCode;
use crate::plan::report::PlanPrinter;
use crate::profile::recorder::Recorder;
use crate::sys::cache::{ObjectResults, UnitFactsCache};
use crate::sys::fork_server::ForkServer;
use crate::sys::jobserver::Limit;
use crate::sys::memory::Budget;
use crate::sys::process::Mode;
use crate::sys::temp_files::TempFiles;

/// The user's request.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The program's name in messages.
    pub program: &'a str,
    /// The wrapper's options, with the host linker's line.
    pub options: &'a Options,
    /// The options of the device link.
    pub device: &'a DeviceOptions,
    /// The file that the link writes.
    pub output: &'a Path,
    /// Whether commands are printed and run.
    pub mode: Mode,
}

impl Request<'_> {
    /// Whether results of other links may be used, and this link's kept. `--save-temps` and a search for a function need the
    /// intermediate files, and a dry run has no results.
    pub fn may_use_results(&self) -> bool {
        !self.options.save_temps && !self.options.diagnosing && !self.mode.dry
    }

    /// Whether a device link (`--dlink`) links the device files that the line names although no input has an image.
    pub fn links_line_code_alone(&self) -> bool {
        let has_file = self.device.inputs.iter().any(|input| matches!(input, DeviceInput::File { .. }));
        self.options.dlink && self.options.override_image.is_none() && has_file
    }

    /// Whether the container of an earlier link can take the place of the device link. A link that describes what is in the container makes
    /// it again.
    pub fn may_use_cached_image(&self) -> bool {
        !self.mode.show && self.options.report.is_none() && self.options.plan.is_none()
    }
}

/// The resources of a link that runs.
pub struct LinkContext<'a> {
    /// The user's request.
    pub request: Request<'a>,
    /// The folder of intermediate files.
    pub temp_files: &'a TempFiles,
    /// The host linker, or the error if none was found.
    pub host_linker: &'a Result<PathBuf, Errors>,
    /// The number of jobs that may run at a time.
    pub limit: &'a Limit,
    /// The memory that the jobs of all kinds may use.
    pub budget: &'a Budget,
    /// Forks the processes of jobs.
    pub fork_server: &'a ForkServer,
    /// The second tier of the cache, if there is one.
    pub remote_cache: Option<&'a Tier>,
    /// What earlier links have read of units.
    pub unit_facts: &'a UnitFactsCache,
    /// Results in the inputs, and those that the output will hold.
    pub object_results: &'a ObjectResults<'a>,
    /// Names that the host program registers with the runtime.
    pub registered: &'a HashSet<String>,
    /// What registration code has to fit.
    pub host_code: &'a HostCode,
    /// Registered kernels that the host program cannot launch.
    pub dead_kernels: &'a BTreeSet<String>,
    /// Records measurements for `--offload-stats`.
    pub recorder: &'a Recorder,
    /// Prints the plan before it runs.
    pub plan: &'a PlanPrinter<'a>,
}

impl LinkContext<'_> {
    /// Returns the host linker.
    ///
    /// # Errors
    /// None was found.
    pub fn host_linker(&self) -> Result<&Path, Errors> {
        self.host_linker.as_deref().map_err(Clone::clone)
    }
}
