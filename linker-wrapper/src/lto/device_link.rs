//! Links the device code of all targets of a machine: plans each link, compiles the partitions of all targets as jobs of one queue, the
//! longest first, and joins each target.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use llvm_passes::session::Message;
use rayon::prelude::*;

use crate::cli::values::KernelFolding;
use crate::device::compat_checks::{self, ComparedTarget};
use crate::device::targets::TargetImages;
use crate::diag::error::{Errors, both, collect};
use crate::diag::messages::{self, warn};
use crate::lto::context::LtoContext;
use crate::lto::distribution::Distribution;
use crate::lto::job_list::{self, LinkJob};
use crate::lto::partition;
use crate::lto::private_images::PrivateImages;
use crate::lto::products::{CachedPartition, CachedTarget, LinkedTarget};
use crate::lto::result_cache::ResultCache;
use crate::lto::result_cache::images::CachedImage;
use crate::lto::result_cache::job_times::Unordered;
use crate::lto::target::{self, PlannedTarget};
use crate::lto::target_images;
use crate::lto::{llvm_messages, plan_report};
use crate::machines::interface::{Compiled, Fields, Generated, Joined, Machine};
use crate::plan::link_context::{LinkContext, Request};
use crate::plan::report::TargetReport;
use crate::profile::span;
use crate::sys::cache::Key;
use crate::sys::job_queue;
use crate::sys::memory::estimates::Estimates;
use crate::sys::threads;

/// The targets of a machine that a link has code for.
pub struct DeviceLink<'a, M: Machine> {
    /// The kind of the code, in plans.
    pub kind: &'static str,
    /// Whether the kind can register a kernel in place of an equal one.
    pub folds_kernels: bool,
    /// What the code runs on.
    pub machine: &'a M,
    /// The targets.
    pub targets: &'a [TargetImages<'a, M::Arch>],
    /// Targets that something else links: the compatibility checks compare them with the others.
    pub others: Others<'a>,
    /// The request and the resources of the link.
    pub link: &'a LinkContext<'a>,
    /// Results of earlier links.
    pub result_cache: &'a ResultCache<'a>,
}

/// Targets that something else links, in checks and in the plan.
#[derive(Default)]
pub struct Others<'a> {
    /// What the compatibility checks read of them.
    pub compared: Vec<ComparedTarget<'a>>,
    /// What the plan says about them.
    pub reports: Vec<TargetReport>,
}

impl<M: Machine> DeviceLink<'_, M> {
    /// Links all targets; the results are in their order.
    ///
    /// # Errors
    /// All errors in the images, and those that tools report.
    pub fn link(&self) -> Result<Vec<LinkedTarget<M::Linked>>, Errors> {
        self.with_context(|context| self.link_all(context))
    }

    /// Compiles the partitions of all targets for later links, and links nothing. A program that cannot be cut is left to the later link.
    ///
    /// # Errors
    /// All errors in the images, and those that tools report.
    pub fn compile_for_later(&self) -> Result<(), Errors> {
        self.with_context(|context| self.compile_partitions(context))
    }

    /// Looks up the finished container of all targets, which depends also on `fields`, and prints what their links printed. A link that
    /// describes what is in the container makes it again.
    ///
    /// # Errors
    /// Those of the compatibility checks.
    pub fn cached_image(&self, fields: &Fields) -> Result<Option<CachedImage>, Errors> {
        let cache = self.result_cache;
        if !self.link.request.may_use_cached_image() {
            return Ok(None);
        }
        let keys = self.targets.iter().map(|target| cache.target_key(self.kind, target, self.machine, self.link));
        let keys: Option<Vec<Key>> = keys.collect();
        let key = keys.and_then(|keys| cache.image_key(&keys, fields));
        let Some(image) = key.and_then(|key| cache.image(&key, self.targets.len())) else { return Ok(None) };
        self.with_context(|context| self.check(self.targets, context))?;
        self.store_facts(self.targets);
        for (target, messages) in self.targets.iter().zip(&image.messages) {
            self.print_messages(&target.arch, messages);
        }
        Ok(Some(image))
    }

    fn with_context<T>(&self, work: impl FnOnce(&LtoContext<'_, M>) -> T) -> T {
        work(&LtoContext {
            kind: self.kind,
            folds_kernels: self.folds_kernels,
            machine: self.machine,
            link: self.link,
            result_cache: self.result_cache,
            estimates: &Estimates::default(),
            distribution: &Distribution::default(),
            only_folded: None,
            finished: &BTreeSet::new(),
        })
    }

    fn link_all(&self, context: &LtoContext<'_, M>) -> Result<Vec<LinkedTarget<M::Linked>>, Errors> {
        let mut cached: Vec<Option<LinkedTarget<M::Linked>>> =
            self.targets.iter().map(|target| self.cached(target)).collect();
        if cached.iter().any(Option::is_none) {
            self.machine.require_tools()?;
        }
        let targets: Vec<&TargetImages<'_, M::Arch>> = self.targets.iter().collect();
        let is_copied = |place: usize| context.result_cache.is_enabled() && cached[place].is_none();
        let copies = target_images::copies(&targets, is_copied, context)?;
        let units = target_images::copied_units(&targets, &copies, context);
        let targets = target_images::with_copies(&targets, &copies, &units);
        let uncached: Vec<Uncached<'_, M>> = (0..targets.len())
            .filter(|place| cached[*place].is_none())
            .map(|place| Uncached { images: &targets[place], private: copies[place].as_ref() })
            .collect();
        // Compute the keys from the copies: an input may have changed since the lookup.
        let keys =
            uncached.iter().map(|one| context.result_cache.target_key(self.kind, one.images, self.machine, self.link));
        let keys: Vec<Option<Key>> = keys.collect();
        let mut linked = self.link_uncached(&uncached, &targets, context)?;
        for (key, linked) in keys.into_iter().zip(&mut linked) {
            // A target with tool messages is not cached: only the tools themselves can print them again.
            linked.key = key.filter(|_| linked.diagnostics.is_empty() && !context.is_dry_run());
        }
        self.store_facts(&targets);
        let mut linked = linked.into_iter();
        Ok(targets
            .iter()
            .zip(&mut cached)
            .map(|(target, cached)| {
                let linked = cached.take().or_else(|| linked.next()).unwrap_or_default();
                linked.diagnostics.iter().for_each(messages::show);
                self.print_messages(&target.arch, &linked.messages);
                linked
            })
            .collect())
    }

    fn compile_partitions(&self, context: &LtoContext<'_, M>) -> Result<(), Errors> {
        let targets: Vec<&TargetImages<'_, M::Arch>> = self.targets.iter().collect();
        let copies = target_images::copies(&targets, |_| context.result_cache.is_enabled(), context)?;
        let units = target_images::copied_units(&targets, &copies, context);
        let targets = target_images::with_copies(&targets, &copies, &units);
        let uncached = targets.iter().zip(&copies);
        let uncached: Vec<_> = uncached.map(|(images, copy)| Uncached { images, private: copy.as_ref() }).collect();
        let recorder = self.link.recorder;
        let planned = collect(recorder.phase("symbols and partitions", || plan_all(&uncached, context)))?;
        self.record_plan(&targets, &planned, context)?;
        let cut: Vec<PlannedTarget<'_, M>> =
            planned.into_iter().filter(|planned| !planned.planned.plan.is_whole()).collect();
        let jobs = collect(cut.iter().map(|target| jobs_for_later_links(target, self.machine)))?;
        let counts: Vec<usize> = jobs.iter().map(Vec::len).collect();
        let jobs: Vec<Job<'_, M>> = jobs.into_iter().flatten().collect();
        let as_it_is = |_: usize, done: Done<M::Code>, _: &LtoContext<'_, M>| Ok(done);
        let compile = || run_all(&jobs, &cut, context, as_it_is);
        let mut compiled = recorder.phase("device code", compile)?.into_iter();
        for (target, count) in cut.iter().zip(counts) {
            let partitions = compiled.by_ref().take(count).filter_map(Done::partition);
            let mut partitions: Vec<Compiled<M::Code>> = partitions.collect();
            // What tools say of the code that is compiled in two ways is printed once.
            partitions.truncate(target.planned.plan.partitions.len());
            let diagnostics = partitions.iter().flat_map(|partition| self.machine.diagnostics(&partition.code));
            diagnostics.for_each(messages::show);
            let messages = llvm_messages::join(partitions.into_iter().map(|partition| partition.messages));
            self.print_messages(&target.planned.images.arch, &messages);
        }
        self.store_facts(&targets);
        let cut = targets.iter().filter(|images| target::may_be_cut(images, context));
        cut.flat_map(TargetImages::units).for_each(|unit| context.result_cache.collect_facts(unit));
        Ok(())
    }

    /// Looks up the target in the cache.
    fn cached(&self, target: &TargetImages<'_, M::Arch>) -> Option<LinkedTarget<M::Linked>> {
        let key = self.result_cache.target_key(self.kind, target, self.machine, self.link);
        let accept = |found: CachedTarget<M::Linked>| {
            let checked = self.machine.check_linked(&target.arch, &found.code);
            checked.is_ok().then_some(found)
        };
        let CachedTarget { code, messages } = self.result_cache.get(key.as_ref(), accept)?;
        // The report names the tools.
        self.machine.choose_tools(target);
        Some(LinkedTarget { code, messages, key, is_cached: true, ..LinkedTarget::default() })
    }

    /// Plans, compiles and joins targets. Meanwhile, the compatibility checks run on `all` targets of the link.
    fn link_uncached<'a>(
        &self,
        uncached: &'a [Uncached<'a, M>],
        all: &[TargetImages<'_, M::Arch>],
        context: &LtoContext<'_, M>,
    ) -> Result<Vec<LinkedTarget<M::Linked>>, Errors> {
        let recorder = self.link.recorder;
        let planned = recorder.phase("symbols and partitions", || plan_all(uncached, context));
        // If planning fails, run the compatibility checks now and report their errors, too.
        let planned = match collect(planned) {
            Ok(planned) => planned,
            Err(errors) => both(Err(errors), self.check(all, context)).map(|(planned, ())| planned)?,
        };
        self.record_plan(all, &planned, context)?;
        let open: Vec<Open<'_, M>> = planned.iter().map(|target| Open::new(target, self.machine)).collect();
        let jobs: Vec<(&Open<'_, M>, usize)> =
            open.iter().flat_map(|open| (0..open.jobs.len()).map(move |place| (open, place))).collect();
        let all_jobs: Vec<Job<'_, M>> = open.iter().flat_map(|open| open.jobs.iter().copied()).collect();
        let finish = |index: usize, done: Done<M::Code>, context: &LtoContext<'_, M>| {
            let (open, place) = jobs[index];
            open.add(place, done, context)
        };
        let compile = || recorder.phase("device code", || run_all(&all_jobs, &planned, context, finish));
        let (linked, checked) = threads::join(compile, || self.check(all, context));
        let (linked, ()) = both(linked, checked)?;
        let mut linked = linked.into_iter();
        // One of a target's jobs has joined it; all of them are consumed.
        collect(open.iter().map(|open| {
            let joined = linked.by_ref().take(open.jobs.len()).flatten().last();
            joined.map_or_else(|| open.join(Vec::new(), context), Ok)
        }))
    }

    fn record_plan(
        &self,
        all: &[TargetImages<'_, M::Arch>],
        planned: &[PlannedTarget<'_, M>],
        context: &LtoContext<'_, M>,
    ) -> Result<(), Errors> {
        planned.iter().for_each(|planned| planned.record(context));
        self.link.plan.add(|| {
            let mut reports = plan_report::reports(all, planned, context);
            reports.extend(self.others.reports.iter().cloned());
            reports
        })
    }

    /// Runs the compatibility checks and prints their warnings.
    ///
    /// # Errors
    /// Those of checks whose level is `error`.
    fn check(&self, targets: &[TargetImages<'_, M::Arch>], context: &LtoContext<'_, M>) -> Result<(), Errors> {
        let _checking = span::traced("Compare translation units", String::new);
        let request = self.link.request;
        let is_cached = self.others.compared.is_empty();
        let key = context.result_cache.checks_key(targets, &request.options.checks).filter(|_| is_cached);
        if context.result_cache.is_checked(key.as_ref()) {
            return Ok(());
        }
        let compared: Vec<ComparedTarget<'_>> = targets.iter().map(|target| self.machine.compared(target)).collect();
        let compared: Vec<&ComparedTarget<'_>> = compared.iter().chain(&self.others.compared).collect();
        if compare_units(&compared, request)? == 0 {
            context.result_cache.store_checked(key.as_ref());
        }
        Ok(())
    }

    /// Keeps what was read of the units for later links.
    fn store_facts(&self, targets: &[TargetImages<'_, M::Arch>]) {
        targets.iter().flat_map(TargetImages::units).for_each(|unit| self.link.unit_facts.keep(unit));
    }

    fn print_messages(&self, arch: &M::Arch, messages: &[Message]) {
        llvm_messages::print(self.link, &arch.to_string(), messages);
    }
}

/// Compares how the units of targets were compiled, and prints the warnings of that. Returns their number.
///
/// # Errors
/// Those of checks whose level is `error`.
pub fn compare_units(targets: &[&ComparedTarget<'_>], request: Request<'_>) -> Result<usize, Errors> {
    let warnings = compat_checks::compare(targets, &request.options.checks)?;
    warnings.iter().for_each(|text| warn(request.program, text));
    Ok(warnings.len())
}

/// A target that is not in the cache.
struct Uncached<'a, M: Machine> {
    images: &'a TargetImages<'a, M::Arch>,
    /// The private copy of the images, if the cache is on.
    private: Option<&'a PrivateImages>,
}

/// Plans a target. Kernels are folded without loss of a result in the inputs, so these are looked for in a program that folds none.
fn plan_one<'a, M: Machine>(
    one: &'a Uncached<'a, M>,
    context: &LtoContext<'_, M>,
) -> Result<PlannedTarget<'a, M>, Errors> {
    let plan = |context: &LtoContext<'_, M>| PlannedTarget::new(one.images, one.private, context);
    if context.folding() == KernelFolding::Off || !context.result_cache.cuts_all() {
        return plan(context);
    }
    let unfolded = plan(&LtoContext { only_folded: Some(&BTreeMap::new()), ..*context })?;
    let finished = partition::kernels_in_inputs(&unfolded, context)?;
    plan(&LtoContext { finished: &finished, ..*context })
}

/// Plans all targets. If the host program launches kernels in place of others, it does so for all targets alike.
fn plan_all<'a, M: Machine>(
    uncached: &'a [Uncached<'a, M>],
    context: &LtoContext<'_, M>,
) -> Vec<Result<PlannedTarget<'a, M>, Errors>> {
    let plan = |context: &LtoContext<'_, M>| -> Vec<Result<PlannedTarget<'a, M>, Errors>> {
        uncached.par_iter().map(|one| plan_one(one, context)).collect()
    };
    let planned = plan(context);
    let of_target = |planned: &Result<PlannedTarget<'_, M>, Errors>| {
        planned.as_ref().map(|planned| planned.planned.plan.folding.folded.clone()).unwrap_or_default()
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

/// A target whose jobs run.
struct Open<'p, M: Machine> {
    target: &'p PlannedTarget<'p, M>,
    jobs: Vec<Job<'p, M>>,
    /// The results so far, in the order of the jobs.
    done: Mutex<Vec<Option<Done<M::Code>>>>,
}

impl<'p, M: Machine> Open<'p, M> {
    fn new(target: &'p PlannedTarget<'p, M>, machine: &'p M) -> Self {
        let jobs = jobs_of(target, machine);
        let done = Mutex::new(jobs.iter().map(|_| None).collect());
        Open { target, jobs, done }
    }

    /// Adds the result of a job. The last one joins the target, while jobs of other targets still run.
    fn add(
        &self,
        place: usize,
        result: Done<M::Code>,
        context: &LtoContext<'_, M>,
    ) -> Result<Option<LinkedTarget<M::Linked>>, Errors> {
        let all = {
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            done[place] = Some(result);
            if done.iter().any(Option::is_none) {
                return Ok(None);
            }
            std::mem::take(&mut *done)
        };
        self.join(all.into_iter().flatten().collect(), context).map(Some)
    }

    fn join(&self, done: Vec<Done<M::Code>>, context: &LtoContext<'_, M>) -> Result<LinkedTarget<M::Linked>, Errors> {
        let (mut partitions, mut assembled) = (Vec::new(), Vec::new());
        for done in done {
            match done {
                Done::Partition(partition) => partitions.push(partition),
                Done::Assembly(code) => assembled.push(code),
            }
        }
        let join = || join(self.target, partitions, assembled, context);
        context.link.recorder.phase("joining", join)
    }
}

/// Joins a target.
fn join<M: Machine>(
    target: &PlannedTarget<'_, M>,
    partitions: Vec<Compiled<M::Code>>,
    assembled: Vec<M::Code>,
    context: &LtoContext<'_, M>,
) -> Result<LinkedTarget<M::Linked>, Errors> {
    let planned = &target.planned;
    let again = |machine: &M| {
        let context = LtoContext { machine, ..*context };
        let whole = PlannedTarget::whole(planned.images, None, &context)?;
        collect((0..whole.planned.plan.partitions.len()).map(|index| partition::compile(&whole, index, &context)))
    };
    let joined = context.machine.join(planned, partitions, assembled, &again)?;
    let Joined { linked: code, messages, diagnostics, is_joined } = joined;
    if context.makes_code() {
        context.machine.check_linked(&planned.images.arch, &code)?;
    }
    let folding = &planned.plan.folding;
    let folded = if folding.emits_aliases { BTreeMap::new() } else { folding.folded.clone() };
    let messages = llvm_messages::join(messages);
    Ok(LinkedTarget { code, messages, diagnostics, folded, is_joined, ..LinkedTarget::default() })
}

/// One step of a target's link that depends on no other.
struct Job<'j, M: Machine> {
    target: &'j PlannedTarget<'j, M>,
    machine: &'j M,
    work: Work,
}

impl<M: Machine> Clone for Job<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Job<'_, M> {}

#[derive(Debug, Clone, Copy)]
enum Work {
    /// A partition to compile, by its index.
    Partition(usize),
    /// The only partition to compile, for programs that have nothing else.
    Finished,
    /// An image that becomes code by itself, by its index.
    Assembly(usize),
}

/// The result of a job.
enum Done<C> {
    Partition(Compiled<C>),
    Assembly(C),
}

impl<C> Done<C> {
    fn partition(self) -> Option<Compiled<C>> {
        match self {
            Done::Partition(partition) => Some(partition),
            Done::Assembly(_) => None,
        }
    }
}

fn jobs_of<'j, M: Machine>(target: &'j PlannedTarget<'j, M>, machine: &'j M) -> Vec<Job<'j, M>> {
    let assemblies = machine.assemblies(&target.planned).into_iter().map(Work::Assembly);
    let works = works_of_code(target).chain(assemblies);
    works.map(|work| Job { target, machine, work }).collect()
}

/// The jobs that compile bitcode.
fn works_of_code<M: Machine>(target: &PlannedTarget<'_, M>) -> impl Iterator<Item = Work> + use<M> {
    (0..target.planned.plan.partitions.len()).map(Work::Partition)
}

/// The jobs that compile bitcode for the links of programs.
fn jobs_for_later_links<'j, M: Machine>(
    target: &'j PlannedTarget<'j, M>,
    machine: &'j M,
) -> Result<Vec<Job<'j, M>>, Errors> {
    let finished = machine.is_finishable(&target.planned)?.then_some(Work::Finished);
    Ok(works_of_code(target).chain(finished).map(|work| Job { target, machine, work }).collect())
}

impl<M: Machine> Job<'_, M> {
    fn partition(&self) -> usize {
        if let Work::Partition(index) = self.work { index } else { 0 }
    }

    /// Whether the cache probably holds the result. Assembly jobs are not looked up: few links have them, and they are short.
    fn is_known(&self, context: &LtoContext<'_, M>) -> bool {
        match self.work {
            Work::Partition(index) => partition::is_known(self.target, index, context),
            Work::Finished | Work::Assembly(_) => false,
        }
    }

    fn run(&self, context: &LtoContext<'_, M>) -> Result<Done<M::Code>, Errors> {
        match self.work {
            Work::Partition(index) => partition::compile(self.target, index, context).map(Done::Partition),
            Work::Finished => {
                let compiled = partition::compile_finished(self.target, context)?;
                let nothing = || Compiled { code: M::Code::default(), messages: Vec::new() };
                Ok(Done::Partition(compiled.unwrap_or_else(nothing)))
            }
            Work::Assembly(place) => assemble(self.target, place, context).map(Done::Assembly),
        }
    }
}

/// Makes the code of an image that is no bitcode. The cache may have it already.
fn assemble<M: Machine>(
    target: &PlannedTarget<'_, M>,
    place: usize,
    context: &LtoContext<'_, M>,
) -> Result<M::Code, Errors> {
    let (machine, planned, cache) = (context.machine, &target.planned, context.result_cache);
    let key = cache.assembly_key(planned, place, machine);
    let arch = &planned.images.arch;
    let check = |code: &M::Code| machine.check(arch, code, &[]);
    let cached = cache.get(key.as_ref(), |found: CachedPartition<M::Stored>| {
        let restored = machine.assemble(planned, place, Some(found.code)).ok()?;
        check(&restored.code).is_ok().then_some(restored)
    });
    let is_cached = cached.is_some();
    let _permit = (!is_cached).then(|| {
        let size = machine.assembly_size(planned, place);
        context.link.budget.admit(context.estimates.tool(size))
    });
    let Generated { code, learned, .. } = match cached {
        Some(cached) => cached,
        None => machine.assemble(planned, place, None)?,
    };
    if !is_cached && context.makes_code() {
        check(&code)?;
    }
    learned.iter().for_each(|(size, peak)| context.estimates.learn(*size, *peak));
    if !is_cached && !context.is_dry_run() {
        let stored = CachedPartition { code: machine.store(&code), messages: Vec::new() };
        cache.put(key.as_ref(), &stored);
    }
    machine.declare(planned, place, code)
}

/// Runs all jobs that do not run elsewhere. `finish` gets the result of each, with its index.
fn run_all<M: Machine, T: Send>(
    jobs: &[Job<'_, M>],
    targets: &[PlannedTarget<'_, M>],
    context: &LtoContext<'_, M>,
    finish: impl Fn(usize, Done<M::Code>, &LtoContext<'_, M>) -> Result<T, Errors> + Sync,
) -> Result<Vec<T>, Errors> {
    prefetch_assemblies(targets, context);
    let distribution = partition::distribute(targets, context)?;
    let context = &LtoContext { distribution: &distribution, ..*context };
    let indexed: Vec<Indexed<'_, M>> =
        jobs.iter().copied().enumerate().map(|(index, job)| Indexed { index, job }).collect();
    let is_known = |one: &Indexed<'_, M>| one.job.is_known(context);
    job_list::run(&indexed, context.resources(), is_known, |one| finish(one.index, one.job.run(context)?, context))
}

/// A job with its place among all jobs.
struct Indexed<'j, M: Machine> {
    index: usize,
    job: Job<'j, M>,
}

/// Begins to fetch what may be in a remote cache.
fn prefetch_assemblies<M: Machine>(targets: &[PlannedTarget<'_, M>], context: &LtoContext<'_, M>) {
    let (machine, cache) = (context.machine, context.result_cache);
    if !cache.is_remote() {
        return;
    }
    cache.prefetch(targets.iter().flat_map(|target| {
        let planned = &target.planned;
        machine
            .assemblies(planned)
            .into_iter()
            .map(move |place| (machine.assembly_size(planned, place), cache.assembly_key(planned, place, machine)))
    }));
}

impl<M: Machine> job_queue::Job for Indexed<'_, M> {
    fn may_skip_after_error(&self) -> bool {
        matches!(self.job.work, Work::Assembly(_)) || !self.job.target.planned.plan.is_whole()
    }
}

impl<M: Machine> LinkJob for Indexed<'_, M> {
    fn label(&self) -> String {
        let planned = &self.job.target.planned;
        match self.job.work {
            Work::Partition(_) | Work::Finished => {
                let kernels = &planned.plan.partitions[self.job.partition()].kernels;
                kernels.first().cloned().unwrap_or_else(|| planned.images.arch.to_string())
            }
            Work::Assembly(place) => planned.images.images[place].origin.file.clone(),
        }
    }

    fn unordered(&self) -> Unordered {
        let Job { target, machine, work } = self.job;
        match work {
            Work::Partition(_) | Work::Finished => partition::unordered(&target.planned, self.job.partition(), machine),
            Work::Assembly(place) => {
                // An instruction of LLVM becomes a line of some thirty bytes.
                let instructions = machine.assembly_size(&target.planned, place) / 32;
                Unordered { id: None, instructions, estimate: instructions }
            }
        }
    }
}
