//! The resources of a link that runs: its temporary files, jobs, caches and records.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use remote_cache::{Counts, Tier};

use crate::crash_report;
use crate::diag::error::Errors;
use crate::diag::messages::warn;
use crate::host::input_files::InputFiles;
use crate::host::{host_linker, kept_results};
use crate::link::modes::{LinkMode, Output};
use crate::link::requests;
use crate::link::selection::Selected;
use crate::lto::llvm_messages;
use crate::plan::link_context::{LinkContext, Request};
use crate::plan::report::{self as plan_report, PlanPrinter};
use crate::profile::recorder::Recorder;
use crate::sys::cache::{self, ObjectResults, UnitFactsCache};
use crate::sys::fork_server::ForkServer;
use crate::sys::jobserver::Limit;
use crate::sys::memory::Budget;
use crate::sys::temp_files::{self, TempFiles};

/// What a link knows of its process.
#[derive(Clone, Copy)]
pub struct Process<'a> {
    /// The command line, which repeats the link where LLVM fails in it.
    pub arguments: &'a [OsString],
    /// Records what the link reports at its end.
    pub recorder: &'a Recorder,
}

/// What the device links of a link share.
pub struct Resources<'a> {
    request: Request<'a>,
    temp_files: TempFiles,
    host_linker: Result<PathBuf, Errors>,
    limit: Limit,
    budget: Budget,
    fork_server: ForkServer,
    remote_cache: Option<Tier>,
    registered: HashSet<String>,
    plan: PlanPrinter<'a>,
    selected: &'a Selected<'a>,
    unit_facts: &'a UnitFactsCache,
    /// Results in the inputs, and those for the output.
    pub object_results: ObjectResults<'a>,
    /// Measurements of this link.
    pub recorder: &'a Recorder,
}

impl<'a> Resources<'a> {
    /// Acquires them. `links` is the number of device links. From here on there are temporary files to remove.
    ///
    /// # Errors
    /// The temporary folder, the cache of other machines or a file of remarks cannot be used. Damaged inputs.
    pub fn new(
        request: Request<'a>,
        mode: LinkMode,
        inputs: &'a InputFiles,
        selected: &'a Selected<'a>,
        unit_facts: &'a UnitFactsCache,
        links: usize,
        process: &Process<'a>,
    ) -> Result<Self, Errors> {
        let Request { program, options, .. } = request;
        let Process { arguments, recorder } = *process;
        let temp_files = prepare_for_failures(&request, mode, arguments)?;
        let registered = selected.registered(&request, inputs)?;
        recorder.kernels(selected.liveness.alive.len(), selected.liveness.dead.len());
        let host_linker = host_linker::find(options, program);
        let (limit, warning) = Limit::new(options.jobs, options.environment.device().make_flags.as_deref());
        warning.into_iter().for_each(|text| warn(program, text));
        let plan = plan_printer(&request, mode, selected, links)?;
        let may_use_results = request.may_use_results();
        let remote_cache = if may_use_results {
            cache::open_remote(&options.remote_cache, &options.environment.device().remote_cache)?
        } else {
            None
        };
        let found = kept_results::find(inputs, &selected.images, program)?;
        let collects = mode.output() == Output::Merged && !request.mode.dry;
        let object_results = ObjectResults::new(found, may_use_results, collects);
        let budget = Budget::new(options.memory);
        Ok(Resources {
            request,
            temp_files,
            host_linker,
            limit,
            budget,
            fork_server: ForkServer::default(),
            remote_cache,
            registered,
            plan,
            selected,
            unit_facts,
            object_results,
            recorder,
        })
    }

    /// The context that is handed to the kinds.
    pub fn context(&self) -> LinkContext<'_> {
        LinkContext {
            request: self.request,
            temp_files: &self.temp_files,
            host_linker: &self.host_linker,
            limit: &self.limit,
            budget: &self.budget,
            fork_server: &self.fork_server,
            remote_cache: self.remote_cache.as_ref(),
            unit_facts: self.unit_facts,
            object_results: &self.object_results,
            registered: &self.registered,
            host_code: &self.selected.host_code,
            dead_kernels: &self.selected.liveness.dead,
            recorder: self.recorder,
            plan: &self.plan,
        }
    }

    /// Sends the results that other machines may use: what a failed link has compiled is of use to the next one, too.
    pub fn share_results(&self, has_failed: bool) -> Option<Counts> {
        let (remote, program) = (self.remote_cache.as_ref()?, self.request.program);
        self.recorder.phase("sending results", || remote.finish()).iter().for_each(|text| warn(program, text));
        if has_failed {
            let folder = cache::of(self.request.options.cache.as_ref(), None).ok().flatten();
            cache::distrust(remote, folder.as_ref()).iter().for_each(|text| warn(program, text));
        }
        Some(remote.counts())
    }
}

/// Returns what earlier links have read of units.
pub fn unit_facts(request: &Request<'_>) -> UnitFactsCache {
    let Request { options, .. } = *request;
    // Who opens the cache of results reports that there is no such folder.
    let folder = || cache::of(options.cache.as_ref(), options.cache_size).ok().flatten();
    UnitFactsCache::of(request.may_use_results().then(folder).flatten())
}

/// Creates the temporary folder, and names it to those who clean up after a crash.
fn prepare_for_failures(request: &Request<'_>, mode: LinkMode, arguments: &[OsString]) -> Result<TempFiles, Errors> {
    let Request { program, options, output, .. } = *request;
    crash_report::on_fatal_error(if mode.is_diagnosis() { None } else { Some(arguments) });
    let kept = requests::saved_files(options, output).filter(|_| !request.mode.dry);
    if let (Some(folder), Some(_)) = (&options.temps_folder, &kept) {
        temp_files::create_folder_of_kept(folder)?;
    }
    let temp_files = TempFiles::new(kept.as_deref())?;
    llvm_passes::crash::prepare(program, &temp_files.folder().unwrap_or(Path::new("")).to_string_lossy());
    if !mode.is_diagnosis() {
        llvm_passes::crash::remember_line(arguments);
        llvm_messages::check_records(*request)?;
    }
    Ok(temp_files)
}

/// Returns what prints the plan when all device links have planned. The plan of a finished image, which has none, is printed at once.
fn plan_printer<'a>(
    request: &Request<'a>,
    mode: LinkMode,
    selected: &Selected<'_>,
    links: usize,
) -> Result<PlanPrinter<'a>, Errors> {
    let Request { program, options, .. } = *request;
    let plan = selected.plan(request);
    if let Some(requested) = options.plan.as_ref().filter(|_| mode.is_given_image()) {
        plan_report::print(program, requested, &plan)?;
    }
    Ok(PlanPrinter::new(program, options.plan.as_ref(), plan, links))
}
