//! Links the code of AMD GPU targets: plans each, compiles the parts of all targets as jobs of one queue, the longest first, and joins
//! each target as soon as its last part is compiled.

use std::sync::{Mutex, PoisonError};

use llvm_passes::session::Message;
use offload_bundle::FormatError;
use offload_bundle::amdgpu::{Metadata, PartObject, Registers, metadata_object};
use rayon::prelude::*;

use crate::diag::error::{Errors, collect};
use crate::lto::amd_partition::{self, Compiled};
use crate::lto::amd_target::{self, PlannedTarget, note};
use crate::lto::code_object::{AmdImage, AmdImages, CodeObject};
use crate::lto::job_list::{self, LinkJob};
use crate::lto::job_run::Resources;
use crate::lto::llvm_messages;
use crate::lto::result_cache::job_times::Unordered;
use crate::lto::target_images::{self, Image, Images};
use crate::plan::report::TargetReport;
use crate::sys::job_queue;
use crate::toolchain::llvm_tools;

/// Describes planned targets for `--offload-plan`.
pub type Reports<'r> = &'r dyn Fn(&[PlannedTarget<'_>]) -> Result<Vec<TargetReport>, Errors>;

/// Links all targets; the results are in their order.
///
/// # Errors
/// All errors in the images, and those that LLVM and ld.lld report.
pub fn link(
    targets: &[&AmdImages<'_>],
    resources: Resources<'_>,
    reports: Reports<'_>,
) -> Result<Vec<CodeObject>, Errors> {
    let context = resources.link;
    if !targets.is_empty() {
        // Fails before the long work.
        llvm_tools::lld(&context.request.options.parts)?;
    }
    with_plans(targets, resources, reports, |planned| {
        context.recorder.phase("device code", || run_all(&planned, resources))
    })
}

/// Compiles the partitions of all targets for later links, and links nothing. A program that cannot be cut is left to the later link.
///
/// # Errors
/// All errors in the images, and those that LLVM reports.
pub fn compile_partitions(
    targets: &[&AmdImages<'_>],
    resources: Resources<'_>,
    reports: Reports<'_>,
) -> Result<(), Errors> {
    with_plans(targets, resources, reports, |mut planned| {
        planned.retain(|target| !target.partitions.is_empty());
        resources.link.recorder.phase("device code", || compile_all(&planned, resources))
    })
}

/// Plans the links of all targets, does `work` with the plans, and keeps the facts about the units.
fn with_plans<T>(
    targets: &[&AmdImages<'_>],
    resources: Resources<'_>,
    reports: Reports<'_>,
    work: impl FnOnce(Vec<PlannedTarget<'_>>) -> Result<T, Errors>,
) -> Result<T, Errors> {
    let context = resources.link;
    let copies = target_images::copies(targets, |_| resources.result_cache.is_enabled(), context.temp_files)?;
    let may_be_cut = |target: &AmdImages<'_>| amd_target::may_be_cut(target, resources);
    let units = target_images::copied_units(targets, &copies, resources.result_cache, may_be_cut);
    let targets = target_images::with_copies(targets, &copies, &units);
    let plan = || {
        let planned = targets.par_iter().zip(&copies);
        planned.map(|(target, copy)| PlannedTarget::plan(target, copy.as_ref(), resources)).collect::<Vec<_>>()
    };
    let planned = collect(context.recorder.phase("symbols and partitions", plan))?;
    if context.request.options.plan.is_some() {
        let described = reports(&planned)?;
        context.plan.add(|| described)?;
    }
    let done = work(planned)?;
    let cut = targets.iter().filter(|target| amd_target::may_be_cut(target, resources));
    cut.flat_map(AmdImages::units).for_each(|unit| resources.result_cache.keep_facts(unit));
    Ok(done)
}

/// Compiles the partitions of all targets.
fn compile_all(planned: &[PlannedTarget<'_>], resources: Resources<'_>) -> Result<(), Errors> {
    let distribution = amd_partition::distribute(planned, resources)?;
    let resources = Resources { distribution: &distribution, ..resources };
    let open = |planned| Open { planned, parts: Mutex::default() };
    let targets: Vec<Open<'_>> = planned.iter().map(open).collect();
    let jobs =
        targets.iter().flat_map(|target| (0..target.planned.job_count()).map(move |index| Job { target, index }));
    let jobs: Vec<Job<'_>> = jobs.collect();
    let compile = |job: &Job<'_>| amd_partition::compile(job.target.planned, job.index, resources);
    let compiled = job_list::run(&jobs, resources, |job| job.is_known(resources), compile)?;
    let mut compiled = compiled.into_iter();
    for target in planned {
        let messages = compiled.by_ref().take(target.job_count()).map(|done| done.messages);
        llvm_messages::print(resources.link, &target.images.name, &llvm_messages::join(messages));
    }
    Ok(())
}

/// A target whose parts are compiled.
struct Open<'p> {
    planned: &'p PlannedTarget<'p>,
    /// The results so far, in the order of the parts.
    parts: Mutex<Vec<Option<Compiled>>>,
}

/// One part of a target: a partition, or a whole program.
struct Job<'p> {
    target: &'p Open<'p>,
    index: usize,
}

impl job_queue::Job for Job<'_> {
    fn is_one_of_many(&self) -> bool {
        !self.target.planned.partitions.is_empty()
    }
}

impl LinkJob for Job<'_> {
    fn unordered(&self) -> Unordered {
        let whole = || {
            let instructions = self.target.planned.estimated_instructions();
            Unordered { id: None, instructions, estimate: instructions }
        };
        let PlannedTarget { images, partitions, .. } = self.target.planned;
        partitions.get(self.index).map_or_else(whole, |partition| amd_partition::unordered(images, partition))
    }

    fn label(&self) -> String {
        let planned = self.target.planned;
        let kernels = planned.partitions.get(self.index).map(|partition| &partition.kernels);
        kernels.and_then(|kernels| kernels.first()).unwrap_or(&planned.images.name).clone()
    }
}

impl Job<'_> {
    fn is_known(&self, resources: Resources<'_>) -> bool {
        amd_partition::is_known(self.target.planned, self.index, resources)
    }

    /// Compiles the part. The job that compiles the last part of a target also joins all of them.
    fn run(&self, resources: Resources<'_>) -> Result<Option<CodeObject>, Errors> {
        let compiled = amd_partition::compile(self.target.planned, self.index, resources)?;
        let parts = {
            let mut parts = self.target.parts.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(place) = parts.get_mut(self.index) {
                *place = Some(compiled);
            }
            if parts.iter().any(Option::is_none) {
                return Ok(None);
            }
            parts.drain(..).flatten().collect()
        };
        join(self.target.planned, parts, resources).map(Some)
    }
}

/// Runs the jobs of all targets, which join them.
fn run_all(planned: &[PlannedTarget<'_>], resources: Resources<'_>) -> Result<Vec<CodeObject>, Errors> {
    let distribution = amd_partition::distribute(planned, resources)?;
    let resources = Resources { distribution: &distribution, ..resources };
    let open = |planned| Open { planned, parts: Mutex::new(vec![None; PlannedTarget::job_count(planned)]) };
    let targets: Vec<Open<'_>> = planned.iter().map(open).collect();
    let jobs = |target| (0..Open::planned(target).job_count()).map(move |index| Job { target, index });
    let jobs: Vec<Job<'_>> = targets.iter().flat_map(jobs).collect();
    let linked = job_list::run(&jobs, resources, |job| job.is_known(resources), |job| job.run(resources))?;
    let mut linked = linked.into_iter();
    // One of its jobs has the result; all of them are consumed.
    let of_target = |target: &PlannedTarget<'_>| linked.by_ref().take(target.job_count()).flatten().last();
    Ok(planned.iter().map(of_target).map(Option::unwrap_or_default).collect())
}

impl<'p> Open<'p> {
    fn planned(&self) -> &'p PlannedTarget<'p> {
        self.planned
    }
}

/// Makes the code object. A program whose partitions do not fit together is compiled in one piece.
fn join(target: &PlannedTarget<'_>, parts: Vec<Compiled>, resources: Resources<'_>) -> Result<CodeObject, Errors> {
    let (images, context) = (target.images, resources.link);
    if context.request.options.diagnosing && target.partitions.is_empty() {
        return Ok(CodeObject::default());
    }
    let (objects, messages) = match fitted(target, parts) {
        Ok(fitted) => fitted,
        Err(reason) => {
            note(images, &reason, context);
            let whole = PlannedTarget::plan_whole(images, None, None, resources)?;
            let Compiled { object, messages, .. } = amd_partition::compile(&whole, 0, resources)?;
            (object.into_iter().collect(), messages)
        }
    };
    Ok(CodeObject { bytes: images.join(&objects, context)?, messages })
}

/// The objects that ld.lld links, with LLVM's messages.
///
/// # Errors
/// Why the partitions cannot be linked.
fn fitted(target: &PlannedTarget<'_>, parts: Vec<Compiled>) -> Result<(Vec<Vec<u8>>, Vec<Message>), String> {
    let calls: Vec<String> = parts.iter().flat_map(|part| part.calls.clone()).collect();
    if !calls.is_empty() {
        return Err(format!("a partition calls {} of another one", calls.join(", ")));
    }
    let messages = llvm_messages::join(parts.iter().map(|part| part.messages.clone()));
    let functions = parts.iter().map(|part| part.functions).fold(Registers::default(), Registers::max);
    let objects: Vec<Vec<u8>> = parts.into_iter().filter_map(|part| part.object).collect();
    if target.partitions.is_empty() {
        return Ok((objects, messages));
    }
    fit_together(objects, functions).map(|objects| (objects, messages)).map_err(|error| error.to_string())
}

/// Makes objects of one program fit together: kernels that call unknown functions get the registers of all `functions` that they may call,
/// and the metadata of all objects becomes that of one.
///
/// # Errors
/// Objects that cannot be joined soundly.
fn fit_together(objects: Vec<Vec<u8>>, functions: Registers) -> Result<Vec<Vec<u8>>, FormatError> {
    let mut parts = objects.into_iter().map(PartObject::new).collect::<Result<Vec<_>, _>>()?;
    parts.iter_mut().for_each(|part| part.raise(functions));
    let split = parts.into_iter().map(PartObject::split).collect::<Result<Vec<_>, _>>()?;
    let (mut objects, metadata): (Vec<Vec<u8>>, Vec<Metadata>) = split.into_iter().unzip();
    let joined = Metadata::join(metadata).ok_or_else(PartObject::different)?;
    let object = metadata_object(&joined, objects.first().map_or(&[], Vec::as_slice))?;
    objects.push(object);
    Ok(objects)
}

impl<'c> Images<'c> for AmdImages<'c> {
    fn stem(&self) -> String {
        AmdImages::stem(self)
    }

    fn images(&self) -> Vec<Image<'c>> {
        self.images.iter().map(|image| (image.bytes, image.unit)).collect()
    }

    fn with_images(&self, images: Vec<Image<'c>>) -> Self {
        let images = self.images.iter().zip(images);
        let images = images.map(|(image, (bytes, unit))| AmdImage { bytes, unit, ..*image });
        let AmdImages { name, target, options, is_partial, .. } = self;
        let (name, target, options, is_partial) = (name.clone(), target.clone(), options.clone(), *is_partial);
        AmdImages { name, target, options, is_partial, images: images.collect() }
    }
}
