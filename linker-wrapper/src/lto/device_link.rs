//! The device links of all targets: each is planned, the partitions of all of them run as jobs of one queue, the longest
//! first, and then each is joined.

use llvm_passes::unit::Unit;
use rayon::prelude::*;

use crate::device::compat_checks;
use crate::device::targets::{DeviceImage, TargetImages};
use crate::diag::error::{Errors, both, collect};
use crate::diag::messages::{self, warn};
use crate::diag::progress::Progress;
use crate::lto::context::LtoContext;
use crate::lto::join;
use crate::lto::partition;
use crate::lto::private_images::PrivateImages;
use crate::lto::products::{CompiledPartition, LinkedTarget};
use crate::lto::result_cache::CachedTarget;
use crate::lto::target::{self, PlannedTarget};
use crate::lto::{llvm_warnings, plan_report};
use crate::plan::target_link;
use crate::profile::span;
use crate::sys::job_queue;

/// Links all targets; the results come in their order.
///
/// # Errors
/// All that is wrong with the images, and what the tools report.
pub fn link(targets: &[TargetImages<'_>], context: &LtoContext<'_>) -> Result<Vec<LinkedTarget>, Errors> {
    let cached: Vec<Option<LinkedTarget>> = targets.iter().map(|target| cached(target, context)).collect();
    let copies = private_copies(targets, &cached, context)?;
    let units: Vec<Vec<Option<Unit<'_>>>> =
        targets.iter().zip(&copies).map(|(target, copy)| known_units(target, copy.as_ref(), context)).collect();
    let targets = targets.iter().zip(&copies).zip(&units);
    let targets: Vec<TargetImages<'_>> =
        targets.map(|((target, copy), units)| with_copied_images(target, copy.as_ref(), units)).collect();
    let uncached: Vec<Uncached<'_>> = (0..targets.len())
        .filter(|place| cached[*place].is_none())
        .map(|place| Uncached { images: &targets[place], private: copies[place].as_ref() })
        .collect();
    // Of the copies: an input may have changed since it was looked up.
    let keys: Vec<_> =
        uncached.iter().map(|one| context.result_cache.target_key(one.images, &context.key_inputs())).collect();
    let linked = link_uncached(&uncached, &targets, context)?;
    for (key, linked) in keys.iter().zip(&linked) {
        // Messages of tools are not part of what is kept: the tools print them when they run.
        if linked.diagnostics.is_empty() && !context.is_dry_run() {
            context.result_cache.put(key.as_ref(), &CachedTarget::of(linked));
        }
    }
    let cut = uncached.iter().filter(|one| target::may_be_cut(one.images, context));
    cut.flat_map(|one| one.images.units()).for_each(|unit| context.result_cache.keep_facts(unit));
    let mut linked = linked.into_iter();
    let all = targets.iter().zip(cached).map(|(target, cached)| {
        let linked = cached.or_else(|| linked.next()).unwrap_or_default();
        print_diagnostics(target, &linked, context);
        linked
    });
    Ok(all.collect())
}

/// A target that no earlier link has left the result of.
struct Uncached<'a> {
    images: &'a TargetImages<'a>,
    /// The copy that the images are in, if results are kept.
    private: Option<&'a PrivateImages>,
}

/// Plans, compiles and joins targets. `all` targets of the link are checked for differences between their units meanwhile.
fn link_uncached<'a>(
    uncached: &'a [Uncached<'a>],
    all: &[TargetImages<'_>],
    context: &LtoContext<'_>,
) -> Result<Vec<LinkedTarget>, Errors> {
    let recorder = context.link.recorder;
    let plan = |one: &'a Uncached<'a>| PlannedTarget::plan(one.images, one.private, context);
    let planned = recorder.phase("symbols and partitions", || uncached.par_iter().map(plan).collect::<Vec<_>>());
    // What the check reads of the units is known by now, unless a unit could not be read.
    let planned = match collect(planned) {
        Ok(planned) => planned,
        Err(errors) => both(Err(errors), check(all, context)).map(|(planned, ())| planned)?,
    };
    context.link.plan.add(|| plan_report::of(all, &planned, context))?;
    let jobs: Vec<Job<'_>> = planned.iter().flat_map(jobs_of).collect();
    let compile = || recorder.phase("device code", || run_all(&jobs, context));
    let (compiled, checked) = rayon::join(compile, || check(all, context));
    let (compiled, ()) = both(compiled, checked)?;
    let mut compiled = compiled.into_iter();
    let partitions: Vec<(&PlannedTarget<'_>, Vec<CompiledPartition>)> =
        planned.iter().map(|target| (target, compiled.by_ref().take(target.plan.partitions.len()).collect())).collect();
    let join = |(target, partitions)| join::join(target, partitions, context);
    collect(recorder.phase("joining", || partitions.into_par_iter().map(join).collect::<Vec<_>>()))
}

/// Compares how the units were compiled, and prints the warnings.
///
/// # Errors
/// The differences that are errors.
fn check(targets: &[TargetImages<'_>], context: &LtoContext<'_>) -> Result<(), Errors> {
    let _checking = span::traced("Compare translation units", String::new);
    let request = context.link.request;
    let warnings = compat_checks::check(targets, &request.options.checks)?;
    warnings.iter().for_each(|text| warn(request.program, text));
    Ok(())
}

/// One partition of a target, by its number.
struct Job<'j> {
    target: &'j PlannedTarget<'j>,
    partition: usize,
}

fn jobs_of<'j>(target: &'j PlannedTarget<'j>) -> impl Iterator<Item = Job<'j>> {
    (0..target.plan.partitions.len()).map(move |partition| Job { target, partition })
}

impl Job<'_> {
    /// Its first kernel, or its target.
    fn label(&self) -> String {
        let kernels = &self.target.plan.partitions[self.partition].kernels;
        kernels.first().cloned().unwrap_or_else(|| self.target.plan.arch.to_string())
    }
}

impl job_queue::Job for Job<'_> {
    fn cost(&self) -> u64 {
        self.target.plan.partitions[self.partition].instructions
    }

    fn is_one_of_many(&self) -> bool {
        !self.target.plan.is_monolithic()
    }
}

/// Runs all jobs, with a line on a terminal that shows how far they are.
fn run_all(jobs: &[Job<'_>], context: &LtoContext<'_>) -> Result<Vec<CompiledPartition>, Errors> {
    let labels: Vec<(String, u64)> = jobs.iter().map(|job| (job.label(), job_queue::Job::cost(job))).collect();
    let progress = Progress::new(&labels);
    job_queue::longest_first(jobs, context.link.limit, |index, job| {
        progress.started(index);
        let done = partition::compile(job.target, job.partition, context);
        progress.finished(index);
        done
    })
}

fn print_diagnostics(target: &TargetImages<'_>, linked: &LinkedTarget, context: &LtoContext<'_>) {
    linked.diagnostics.iter().for_each(messages::show);
    for text in llvm_warnings::lines(linked.warnings.iter().cloned()) {
        warn(context.link.request.program, format_args!("{}: {text}", target.arch));
    }
}

/// What an earlier link left of the same target.
fn cached(target: &TargetImages<'_>, context: &LtoContext<'_>) -> Option<LinkedTarget> {
    let key = context.result_cache.target_key(target, &context.key_inputs());
    let linked = context.result_cache.get::<CachedTarget>(key.as_ref()).map(CachedTarget::into_linked)?;
    // The key was made for this backend, so choosing it again cannot fail: it is for the report.
    let _ = context.backends.choose(&target_link::most_needs(target, context.options()));
    Some(linked)
}

/// Copies of the targets whose results will be kept: these are compiled from a copy that nobody else writes to, and kept under
/// a key of the copy.
fn private_copies(
    targets: &[TargetImages<'_>],
    cached: &[Option<LinkedTarget>],
    context: &LtoContext<'_>,
) -> Result<Vec<Option<PrivateImages>>, Errors> {
    collect(targets.iter().zip(cached).map(|(target, cached)| {
        let is_copied = context.result_cache.is_enabled() && cached.is_none();
        is_copied.then(|| PrivateImages::of(target, context.temp_files())).transpose()
    }))
}

/// The units of a copied target, with what earlier links have read of them if it may be cut into partitions: a program that is
/// compiled in one piece is read anyway.
fn known_units<'c>(
    target: &TargetImages<'c>,
    copy: Option<&'c PrivateImages>,
    context: &LtoContext<'_>,
) -> Vec<Option<Unit<'c>>> {
    let may_be_cut = target::may_be_cut(target, context);
    let unit = |(place, image): (usize, &DeviceImage<'c>)| {
        let unit = Unit::new(image.unit?.name(), copy?.bytes(place));
        Some(if may_be_cut { context.result_cache.with_facts(unit) } else { unit })
    };
    target.images.iter().enumerate().map(unit).collect()
}

/// The target with its images in the copy, and with these units.
fn with_copied_images<'c>(
    target: &TargetImages<'c>,
    copy: Option<&'c PrivateImages>,
    units: &'c [Option<Unit<'c>>],
) -> TargetImages<'c> {
    let images = target.images.iter().zip(units).enumerate().map(|(place, (image, unit))| DeviceImage {
        bytes: copy.map_or(image.bytes, |copy| copy.bytes(place)),
        unit: unit.as_ref().or(image.unit),
        ..image.clone()
    });
    TargetImages { arch: target.arch, images: images.collect() }
}
