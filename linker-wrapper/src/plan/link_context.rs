//! What every platform's device links share.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::cli::device_options::DeviceOptions;
use crate::cli::options::Options;
use crate::diag::error::Errors;
use crate::plan::report::PlanPrinter;
use crate::profile::recorder::Recorder;
use crate::sys::jobserver::Limit;
use crate::sys::process::Mode;
use crate::sys::temp_files::TempFiles;

/// What the user requested.
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
    /// Whether commands are shown and run.
    pub mode: Mode,
}

/// The resources of a link that runs.
pub struct LinkContext<'a> {
    /// What the user requested.
    pub request: Request<'a>,
    /// Where intermediate files go.
    pub temp_files: &'a TempFiles,
    /// The host linker, or why there is none.
    pub host_linker: &'a Result<PathBuf, Errors>,
    /// How many jobs run at a time.
    pub limit: &'a Limit,
    /// Names that the host program registers with the runtime.
    pub registered: &'a HashSet<String>,
    /// Notes for `--offload-stats`.
    pub recorder: &'a Recorder,
    /// Where the plan goes before it runs.
    pub plan: &'a PlanPrinter<'a>,
}

impl LinkContext<'_> {
    /// The host linker.
    ///
    /// # Errors
    /// There is none.
    pub fn host_linker(&self) -> Result<&Path, Errors> {
        self.host_linker.as_deref().map_err(Clone::clone)
    }
}
