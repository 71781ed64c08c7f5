//! Links the device code of all targets: plans each link, compiles the partitions of all targets as jobs of one queue, the longest
//! first, and joins each target.

use std::collections::BTreeMap;

use llvm_passes::session::Message;
use llvm_passes::unit::Unit;
use rayon::prelude::*;

use crate::cli::values::KernelFolding;
use crate::codegen::DeviceObject;
use crate::device::compat_checks;
use crate::device::targets::{DeviceImage, TargetImages};
use crate::diag::error::{Errors, both, collect};
use crate::diag::messages::{self, warn};
use crate::lto::context::LtoContext;
use crate::lto::input_objects;
use crate::lto::job_list::{self, LinkJob};
use crate::lto::join;
use crate::lto::partition;
use crate::lto::private_images::PrivateImages;
use crate::lto::products::{CompiledPartition, LinkedTarget};
use crate::lto::result_cache::CachedTarget;
use crate::lto::result_cache::images::CachedImage;
use crate::lto::result_cache::job_times::Unordered;
use crate::lto::target::{self, PlannedTarget};
use crate::lto::target_images::{self, Image, Images};
use crate::lto::{llvm_messages, plan_report};
use crate::plan::target_link;
use crate::profile::span;
use crate::sys::cache::Key;
use crate::sys::job_queue;

/// Links all targets; the results are in their order.
///
/// # Errors
/// All errors in the images, and those that tools report.
pub fn link(targets: &[TargetImages<'_>], context: &LtoContext<'_>) -> Result<Vec<LinkedTarget>, Errors> {
    let cached: Vec<Option<LinkedTarget>> = targets.iter().map(|target| cached(target, context)).collect();
    let targets: Vec<&TargetImages<'_>> = targets.iter().collect();
    let is_copied = |place: usize| context.result_cache.is_enabled() && cached[place].is_none();
    let copies = target_images::copies(&targets, is_copied, context.temp_files())?;
    let units = copied_units(&targets, &copies, context);
    let targets = target_images::with_copies(&targets, &copies, &units);
    let uncached: Vec<Uncached<'_>> = (0..targets.len())
        .filter(|place| cached[*place].is_none())
        .map(|place| Uncached { images: &targets[place], private: copies[place].as_ref() })
        .collect();
    // Compute the keys from the copies: an input may have changed since the lookup.
    let keys: Vec<_> =
        uncached.iter().map(|one| context.result_cache.target_key(one.images, &context.key_inputs())).collect();
    let mut linked = link_uncached(&uncached, &targets, context)?;
    for (key, linked) in keys.into_iter().zip(&mut linked) {
        // A target with tool messages is not cached: only the tools themselves can print them again.
        linked.key = key.filter(|_| linked.diagnostics.is_empty() && !context.is_dry_run());
    }
    keep_facts(uncached.iter().map(|one| one.images), context);
    let mut linked = linked.into_iter();
    let all = targets.iter().zip(cached).map(|(target, cached)| {
        let linked = cached.or_else(|| linked.next()).unwrap_or_default();
        print_diagnostics(target, &linked, context);
        Ok(linked)
    });
    collect(all)
}

/// Compiles the partitions of all targets for later links, and links nothing. A program that cannot be cut is left to the later link.
///
/// # Errors
/// All errors in the images, and those that tools report.
pub fn compile_partitions(targets: &[TargetImages<'_>], context: &LtoContext<'_>) -> Result<(), Errors> {
    let targets: Vec<&TargetImages<'_>> = targets.iter().collect();
    let copies = target_images::copies(&targets, |_| context.result_cache.is_enabled(), context.temp_files())?;
    let units = copied_units(&targets, &copies, context);
    let targets = target_images::with_copies(&targets, &copies, &units);
    let uncached = targets.iter().zip(&copies);
    let uncached: Vec<_> = uncached.map(|(images, copy)| Uncached { images, private: copy.as_ref() }).collect();
    let recorder = context.link.recorder;
    let planned = collect(recorder.phase("symbols and partitions", || plan_all(&uncached, context)))?;
    planned.iter().for_each(|planned| planned.record(context));
    context.link.plan.add(|| plan_report::of(&targets, &planned, context))?;
    let cut: Vec<PlannedTarget<'_>> = planned.into_iter().filter(|planned| !planned.plan.is_monolithic()).collect();
    let jobs: Vec<Job<'_>> = cut.iter().flat_map(jobs_for_later_links).collect();
    let compiled = recorder.phase("device code", || run_all(&jobs, &cut, context))?;
    let mut compiled = compiled.into_iter();
    for target in &cut {
        let partitions = compiled.by_ref().take(jobs_for_later_links(target).count()).filter_map(Done::partition);
        let mut partitions: Vec<CompiledPartition> = partitions.collect();
        // What tools say of the code that is compiled in two ways is printed once.
        partitions.truncate(target.plan.partitions.len());
        partitions.iter().flat_map(|partition| &partition.diagnostics).for_each(messages::show);
        let messages = llvm_messages::join(partitions.into_iter().map(|partition| partition.messages));
        print_messages(target.images, &messages, context);
    }
    keep_facts(targets.iter(), context);
    Ok(())
}

/// Keeps the facts about the units of programs that may be cut.
fn keep_facts<'t>(targets: impl Iterator<Item = &'t TargetImages<'t>>, context: &LtoContext<'_>) {
    let cut = targets.filter(|images| target::may_be_cut(images, context));
    cut.flat_map(TargetImages::units).for_each(|unit| context.result_cache.keep_facts(unit));
}

/// Looks up the finished container of all targets, and prints what their links printed. A link that describes what is in the
/// container makes it again.
///
/// # Errors
/// Those of the compatibility checks.
pub fn kept_image(targets: &[TargetImages<'_>], context: &LtoContext<'_>) -> Result<Option<CachedImage>, Errors> {
    let (cache, options) = (context.result_cache, context.link.request.options);
    if !context.link.request.may_use_kept_image() {
        return Ok(None);
    }
    let keys = targets.iter().map(|target| cache.target_key(target, &context.key_inputs()));
    let keys: Option<Vec<Key>> = keys.collect();
    let key = keys.and_then(|keys| cache.image_key(&keys, options, context.options()));
    let Some(image) = key.and_then(|key| cache.image(&key, targets.len())) else { return Ok(None) };
    check(targets, context)?;
    targets.iter().zip(&image.messages).for_each(|(target, messages)| print_messages(target, messages, context));
    Ok(Some(image))
}

/// A target that is not in the cache.
struct Uncached<'a> {
    images: &'a TargetImages<'a>,
    /// The private copy of the images, if the cache is on.
    private: Option<&'a PrivateImages>,
}

/// Plans, compiles and joins targets. Meanwhile, the compatibility checks run on `all` targets of the link.
fn link_uncached<'a>(
    uncached: &'a [Uncached<'a>],
    all: &[TargetImages<'_>],
    context: &LtoContext<'_>,
) -> Result<Vec<LinkedTarget>, Errors> {
    let recorder = context.link.recorder;
    let planned = recorder.phase("symbols and partitions", || plan_all(uncached, context));
    // If planning fails, run the compatibility checks now and report their errors, too.
    let planned = match collect(planned) {
        Ok(planned) => planned,
        Err(errors) => both(Err(errors), check(all, context)).map(|(planned, ())| planned)?,
    };
    planned.iter().for_each(|planned| planned.record(context));
    context.link.plan.add(|| plan_report::of(all, &planned, context))?;
    let jobs: Vec<Job<'_>> = planned.iter().flat_map(jobs_of).collect();
    let compile = || recorder.phase("device code", || run_all(&jobs, &planned, context));
    let (compiled, checked) = rayon::join(compile, || check(all, context));
    let (compiled, ()) = both(compiled, checked)?;
    let mut compiled = compiled.into_iter();
    let of_target = |target| {
        let (mut partitions, mut assembled) = (Vec::new(), Vec::new());
        for done in compiled.by_ref().take(jobs_of(target).count()) {
            match done {
                Done::Partition(partition) => partitions.push(partition),
                Done::Assembly(object) => assembled.push(*object),
            }
        }
        (target, partitions, assembled)
    };
    let targets: Vec<(&PlannedTarget<'_>, _, _)> = planned.iter().map(of_target).collect();
    let join = |(target, partitions, assembled)| join::join(target, partitions, assembled, context);
    collect(recorder.phase("joining", || targets.into_par_iter().map(join).collect::<Vec<_>>()))
}

/// Plans a target. Kernels are folded without loss of a result in the inputs, so these are looked for in a program that folds none.
fn plan_one<'a>(one: &'a Uncached<'a>, context: &LtoContext<'_>) -> Result<PlannedTarget<'a>, Errors> {
    let plan = |context: &LtoContext<'_>| PlannedTarget::plan(one.images, one.private, context);
    if context.request().folding == KernelFolding::Off || !context.result_cache.cuts_all() {
        return plan(context);
    }
    let unfolded = plan(&LtoContext { only_folded: Some(&BTreeMap::new()), ..*context })?;
    let finished = partition::kernels_in_inputs(&unfolded, context)?;
    plan(&LtoContext { finished: &finished, ..*context })
}

/// Plans all targets. If the host program launches kernels in place of others, it does so for all targets alike.
fn plan_all<'a>(uncached: &'a [Uncached<'a>], context: &LtoContext<'_>) -> Vec<Result<PlannedTarget<'a>, Errors>> {
    let plan = |context: &LtoContext<'_>| -> Vec<Result<PlannedTarget<'a>, Errors>> {
        uncached.par_iter().map(|one| plan_one(one, context)).collect()
    };
    let planned = plan(context);
    let of_target = |planned: &Result<PlannedTarget<'_>, Errors>| {
        planned.as_ref().map(|planned| planned.plan.folding.folded.clone()).unwrap_or_default()
    };
    let mut folded: Vec<BTreeMap<String, String>> = planned.iter().map(of_target).collect();
    let is_joint = context.link.request.options.kernel_folding == KernelFolding::All;
    if !is_joint || folded.windows(2).all(|pair| pair[0] == pair[1]) {
        return planned;
    }
    let mut common = folded.pop().unwrap_or_default();
    common.retain(|kernel, equal| folded.iter().all(|other| other.get(kernel) == Some(equal)));
    plan(&LtoContext { only_folded: Some(&common), ..*context })
}

/// Runs the compatibility checks and prints their warnings.
///
/// # Errors
/// Those of checks whose level is `error`.
fn check(targets: &[TargetImages<'_>], context: &LtoContext<'_>) -> Result<(), Errors> {
    let _checking = span::traced("Compare translation units", String::new);
    let request = context.link.request;
    let key = context.result_cache.checks_key(targets, &request.options.checks);
    if context.result_cache.is_checked(key.as_ref()) {
        return Ok(());
    }
    let warnings = compat_checks::check(targets, &request.options.checks)?;
    if warnings.is_empty() {
        context.result_cache.keep_checked(key.as_ref());
    }
    warnings.iter().for_each(|text| warn(request.program, text));
    Ok(())
}

/// One step of a target's link that depends on no other.
struct Job<'j> {
    target: &'j PlannedTarget<'j>,
    work: Work,
}

#[derive(Debug, Clone, Copy)]
enum Work {
    /// A partition to compile, by its index.
    Partition(usize),
    /// The only partition to compile, for programs that have nothing else.
    Finished,
    /// An image of PTX to assemble, by its index.
    Assembly(usize),
}

/// The result of a job.
enum Done {
    Partition(CompiledPartition),
    Assembly(Box<DeviceObject>),
}

impl Done {
    fn partition(self) -> Option<CompiledPartition> {
        match self {
            Done::Partition(partition) => Some(partition),
            Done::Assembly(_) => None,
        }
    }
}

fn jobs_of<'j>(target: &'j PlannedTarget<'j>) -> impl Iterator<Item = Job<'j>> {
    let assemblies = input_objects::assemblies(target).into_iter().map(Work::Assembly);
    jobs_of_code(target).chain(assemblies.map(move |work| Job { target, work }))
}

/// The jobs that compile bitcode.
fn jobs_of_code<'j>(target: &'j PlannedTarget<'j>) -> impl Iterator<Item = Job<'j>> {
    (0..target.plan.partitions.len()).map(move |index| Job { target, work: Work::Partition(index) })
}

/// The jobs that compile bitcode for the links of programs.
fn jobs_for_later_links<'j>(target: &'j PlannedTarget<'j>) -> impl Iterator<Item = Job<'j>> {
    let finished = target.plan.is_finishable.then_some(Job { target, work: Work::Finished });
    jobs_of_code(target).chain(finished)
}

impl Job<'_> {
    fn partition(&self) -> usize {
        if let Work::Partition(index) = self.work { index } else { 0 }
    }

    /// Whether the cache probably holds the result. Assembly jobs are not looked up: few links have them, and they are short.
    fn is_known(&self, context: &LtoContext<'_>) -> bool {
        match self.work {
            Work::Partition(index) => partition::is_known(self.target, index, context),
            Work::Finished | Work::Assembly(_) => false,
        }
    }

    fn run(&self, context: &LtoContext<'_>) -> Result<Done, Errors> {
        match self.work {
            Work::Partition(index) => partition::compile(self.target, index, context).map(Done::Partition),
            Work::Finished => partition::compile_finished(self.target, context).map(Done::Partition),
            Work::Assembly(place) => {
                let object = input_objects::assemble(self.target, place, context)?;
                Ok(Done::Assembly(Box::new(object)))
            }
        }
    }
}

/// Runs all jobs that do not run elsewhere.
fn run_all(jobs: &[Job<'_>], targets: &[PlannedTarget<'_>], context: &LtoContext<'_>) -> Result<Vec<Done>, Errors> {
    input_objects::prefetch(targets, context);
    let distribution = partition::distribute(targets, context)?;
    let context = &LtoContext { distribution: &distribution, ..*context };
    job_list::run(jobs, context.resources(), |job| job.is_known(context), |job| job.run(context))
}

impl job_queue::Job for Job<'_> {
    fn is_one_of_many(&self) -> bool {
        matches!(self.work, Work::Assembly(_)) || !self.target.plan.is_monolithic()
    }
}

impl LinkJob for Job<'_> {
    fn label(&self) -> String {
        match self.work {
            Work::Partition(_) | Work::Finished => {
                let kernels = &self.target.plan.partitions[self.partition()].kernels;
                kernels.first().cloned().unwrap_or_else(|| self.target.plan.arch.to_string())
            }
            Work::Assembly(place) => self.target.images.images[place].origin.file.clone(),
        }
    }

    fn unordered(&self) -> Unordered {
        match self.work {
            Work::Partition(_) | Work::Finished => partition::unordered(self.target, self.partition()),
            Work::Assembly(place) => {
                // An instruction of LLVM becomes a line of PTX, of some thirty bytes.
                let instructions = self.target.images.images[place].bytes.len() as u64 / 32;
                Unordered { id: None, instructions, estimate: instructions }
            }
        }
    }
}

fn copied_units<'c>(
    targets: &[&TargetImages<'c>],
    copies: &'c [Option<PrivateImages>],
    context: &LtoContext<'_>,
) -> Vec<Vec<Option<Unit<'c>>>> {
    target_images::copied_units(targets, copies, context.result_cache, |images| target::may_be_cut(images, context))
}

impl<'c> Images<'c> for TargetImages<'c> {
    fn stem(&self) -> String {
        self.arch.to_string()
    }

    fn images(&self) -> Vec<Image<'c>> {
        self.images.iter().map(|image| (image.bytes, image.unit)).collect()
    }

    fn with_images(&self, images: Vec<Image<'c>>) -> Self {
        let images = self.images.iter().zip(images);
        let images = images.map(|(image, (bytes, unit))| DeviceImage { bytes, unit, ..image.clone() });
        TargetImages { arch: self.arch, images: images.collect() }
    }
}

fn print_diagnostics(target: &TargetImages<'_>, linked: &LinkedTarget, context: &LtoContext<'_>) {
    linked.diagnostics.iter().for_each(messages::show);
    print_messages(target, &linked.messages, context);
}

fn print_messages(target: &TargetImages<'_>, messages: &[Message], context: &LtoContext<'_>) {
    llvm_messages::print(context.link, &target.arch.to_string(), messages);
}

/// Looks up the target in the cache.
fn cached(target: &TargetImages<'_>, context: &LtoContext<'_>) -> Option<LinkedTarget> {
    let key = context.result_cache.target_key(target, &context.key_inputs());
    let linked = context.result_cache.get::<CachedTarget>(key.as_ref()).map(CachedTarget::into_linked)?;
    let linked = LinkedTarget { key, is_cached: true, ..linked };
    // The report names the backend. The key depends on it, so choosing it again cannot fail.
    let _ = context.backends.choose(&target_link::most_needs(target, context.options()));
    Some(linked)
}
