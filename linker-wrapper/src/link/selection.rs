//! Selects the device code of a link: the archive members that belong to it, and the kernels that the program can launch.

use std::collections::{BTreeSet, HashSet};

use crate::cli::options::Options;
use crate::cli::values::KernelGc;
use crate::device::archive_selection::{self, Reason};
use crate::device::device_files::DeviceCode;
use crate::device::host_words::{self, HostWords};
use crate::device::launchable_kernels;
use crate::diag::error::Errors;
use crate::diag::messages;
use crate::host::dead_kernels::KernelLiveness;
use crate::host::embedded_images::{self, FoundImage};
use crate::host::host_machine::HostCode;
use crate::host::input_files::InputFiles;
use crate::plan::link_context::Request;
use crate::plan::report::{KernelsReport, LiveKernel, MemberReport, PlanReport};
use crate::sys::cache::UnitFactsCache;

/// The code that belongs to the link.
pub struct Selected<'a> {
    /// The device images, in link order.
    pub images: Vec<FoundImage<'a>>,
    /// Whether the host linker links the file, by index of the file.
    pub host: Vec<bool>,
    /// Kernels that the program can launch, and those that it cannot.
    pub liveness: KernelLiveness,
    /// Options that units of other compilers than clang require of the host linker.
    pub host_words: HostWords,
    /// What registration code has to fit.
    pub host_code: HostCode,
    /// The archive members with device code, for the plan.
    members: Vec<MemberReport>,
}

impl<'a> Selected<'a> {
    /// Selects among these images, and keeps what is read of their units for that. `added` are files that the host linker has linked for
    /// reasons that the selection does not see.
    ///
    /// # Errors
    /// Damaged symbol tables.
    pub fn of(
        request: &Request<'_>,
        inputs: &'a InputFiles,
        (images, host_code): (Vec<FoundImage<'a>>, HostCode),
        added: &BTreeSet<usize>,
        line_code: &DeviceCode<'_>,
        unit_facts: &UnitFactsCache,
    ) -> Result<Self, Errors> {
        let Request { options, device, mode, .. } = *request;
        let selection = archive_selection::select(inputs, &images, (&options.roots, added), line_code)?;
        images.iter().filter_map(|found| found.unit.as_ref()).for_each(|unit| unit_facts.keep(unit));
        let members = members(inputs, &images, &selection.device);
        let host_words = host_words::find(inputs, &images, &selection)?;
        let mut liveness = launchable_kernels::find(inputs, &images, options)?;
        liveness.dead.retain(|name| !device.roots.contains(name));
        if let Some(why) = liveness.keeps_all.as_ref().filter(|_| mode.show) {
            // As a shell comment, so that the output can be pasted into a shell.
            messages::show(format_args!(" # --offload-gc=host keeps all kernels: {why}"));
        }
        let images = images.into_iter().filter(|found| selection.device[found.input].is_some()).collect();
        Ok(Selected { images, host: selection.host, liveness, host_words, host_code, members })
    }

    /// The names that the host program registers with the runtime and can use.
    ///
    /// # Errors
    /// Damaged entry tables.
    pub fn registered(&self, request: &Request<'_>, inputs: &InputFiles) -> Result<HashSet<String>, Errors> {
        let mut registered = embedded_images::registered_names(inputs, &self.host)?;
        registered.retain(|name| !self.liveness.dead.contains(name));
        registered.extend(request.device.roots.iter().cloned());
        Ok(registered)
    }

    /// The plan, so far without targets.
    pub fn plan(&self, request: &Request<'_>) -> PlanReport {
        PlanReport {
            output: request.output.display().to_string(),
            members: self.members.clone(),
            kernels: kernels_report(request.options, &self.liveness),
            targets: Vec::new(),
        }
    }
}

/// Lists the selected archive members with device code for the plan.
fn members(inputs: &InputFiles, images: &[FoundImage<'_>], reasons: &[Option<Reason>]) -> Vec<MemberReport> {
    let carriers = images.chunk_by(|one, next| one.input == next.input).filter_map(|images| images.first());
    let member = |found: &FoundImage<'_>| {
        let (symbol, of) = match reasons[found.input].as_ref()? {
            Reason::OnLine => return None,
            Reason::HostSymbol(symbol) => (Some(symbol.clone()), "host"),
            Reason::DeviceSymbol(symbol) => (Some(symbol.clone()), "device"),
            Reason::UnreadableSymbols => (None, "device"),
            Reason::Linked => (None, "host"),
        };
        let file = inputs.files()[found.input].name.clone();
        Some(MemberReport { file, symbol, of })
    };
    carriers.filter_map(member).collect()
}

/// Describes for the plan which kernels the program can launch, if that decides what is compiled.
fn kernels_report(options: &Options, liveness: &KernelLiveness) -> Option<KernelsReport> {
    let KernelLiveness { keeps_all, dead, alive } = liveness;
    let alive = alive.iter().map(|(kernel, path)| LiveKernel { kernel: kernel.clone(), path: path.clone() });
    (options.kernel_gc == KernelGc::Host).then(|| KernelsReport {
        keeps_all: keeps_all.clone(),
        dead: dead.iter().cloned().collect(),
        alive: alive.collect(),
    })
}
