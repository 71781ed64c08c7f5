//! Compiles one partition of a target: LLVM emits its code, in a worker process or in this one, and tools finish it. The cache may have the
//! result already.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Instant;

use llvm_passes::OwnedProgram;
use llvm_passes::extract::UnitPart;
use llvm_passes::partition::Partition;
use llvm_passes::pipeline::NamedBitcode;

use crate::diag::demangle;
use crate::diag::error::{Errors, collect};
use crate::lto::compile_job::{CachedCode, CompileJob};
use crate::lto::context::LtoContext;
use crate::lto::culprit;
use crate::lto::distribution::Distribution;
use crate::lto::error::Error;
use crate::lto::job_list::{self, Offered};
use crate::lto::job_run::{self, Finished, NamedJob};
use crate::lto::products::CachedPartition;
use crate::lto::result_cache::job_times::{JobId, Unordered};
use crate::lto::target::PlannedTarget;
use crate::lto::unit_file;
use crate::lto::worker::Reply;
use crate::machines;
use crate::machines::interface::{Compiled, Generated, JobPart, Machine, Planned};
use crate::plan::target_plan::TargetPlan;
use crate::profile::span;
use crate::profile::stats::JobStat;
use crate::sys::cache::Key;
use crate::sys::memory;

/// Maximum number of kernels that messages about a partition name.
const KERNELS_SHOWN: usize = 3;
/// Maximum length of a kernel's name in messages, in characters.
const NAME_WIDTH: usize = 100;

/// The compilation of one partition, ready to run.
struct PartitionJob<'j, M: Machine> {
    context: LtoContext<'j, M>,
    target: &'j PlannedTarget<'j, M>,
    /// The partition's name in messages.
    described: String,
    label: String,
    instructions: u64,
    id: Option<JobId>,
    job: CompileJob,
}

/// What a worker did.
struct Ran<C> {
    /// The compiled partition, if it was compiled or found.
    compiled: Option<Compiled<C>>,
    /// What its code is cached under.
    code: Option<Key>,
}

/// Compiles one partition of a target.
///
/// # Errors
/// Errors of LLVM or of a tool.
pub fn compile<M: Machine>(
    target: &PlannedTarget<'_, M>,
    index: usize,
    context: &LtoContext<'_, M>,
) -> Result<Compiled<M::Code>, Errors> {
    let job = PartitionJob::new(target, index, *context)?;
    if target.planned.plan.is_whole() { job.run_here() } else { job.run_cached() }
}

/// Compiles the only partition of a target as the link of a program that has nothing else will use it; `None` if it cannot be finished.
///
/// # Errors
/// Errors of LLVM or of a tool.
pub fn compile_finished<M: Machine>(
    target: &PlannedTarget<'_, M>,
    context: &LtoContext<'_, M>,
) -> Result<Option<Compiled<M::Code>>, Errors> {
    PartitionJob::finished(target, 0, *context)?.map(|job| job.run_cached()).transpose()
}

/// Whether the result of a partition seems to be at hand.
pub fn is_known<M: Machine>(target: &PlannedTarget<'_, M>, index: usize, context: &LtoContext<'_, M>) -> bool {
    let cache = context.result_cache;
    // Errors are those of the job itself.
    let is_here = || cache.is_here(&PartitionJob::new(target, index, *context).ok()?.key()?).then_some(());
    cache.is_enabled() && !target.planned.plan.is_whole() && is_here().is_some()
}

/// What the cost of a partition depends on.
pub fn unordered<M: Machine>(target: &Planned<'_, M>, index: usize, machine: &M) -> Unordered {
    let partition = &target.plan.partitions[index];
    let id = JobId::of(&target.images.arch.to_string(), partition);
    let Partition { instructions, largest, .. } = *partition;
    let estimate = if partition.parts.is_empty() { instructions } else { machine.cost(instructions, largest) };
    Unordered { id, instructions, estimate }
}

/// The kernels of those partitions of a target whose results are in the inputs of the link.
pub fn kernels_in_inputs<M: Machine>(
    target: &PlannedTarget<'_, M>,
    context: &LtoContext<'_, M>,
) -> Result<BTreeSet<String>, Errors> {
    let mut kernels = BTreeSet::new();
    let plan = &target.planned.plan;
    for (index, partition) in plan.partitions.iter().enumerate().filter(|_| !plan.is_whole()) {
        let key = PartitionJob::new(target, index, *context)?.key();
        if key.is_some_and(|key| context.result_cache.is_in_inputs(&key)) {
            kernels.extend(partition.kernels.iter().cloned());
        }
    }
    Ok(kernels)
}

/// Runs the partitions of all targets elsewhere if the link has a distributor, but for those in the cache. Begins to fetch those that
/// may be in a remote cache.
///
/// # Errors
/// No tool supports a target, or the jobs cannot be written.
pub fn distribute<M: Machine>(
    targets: &[PlannedTarget<'_, M>],
    context: &LtoContext<'_, M>,
) -> Result<Distribution, Errors> {
    let offered = || {
        let cut = targets.iter().filter(|target| !target.planned.plan.is_whole());
        let all = cut.flat_map(|target| (0..target.planned.plan.partitions.len()).map(move |index| (target, index)));
        collect(all.map(|(target, index)| {
            let job = PartitionJob::new(target, index, *context)?;
            let unordered = unordered(&target.planned, index, context.machine);
            Ok(Offered { unordered, key: job.key(), job: job.job })
        }))
    };
    // Only files that fatlink knows go to other machines, and no environment variables.
    let keeps_here = || context.machine.needed_here();
    job_list::distribute(context.machine.name(), context.resources(), offered, keeps_here)
}

/// Describes a partition in messages: "the kernels a, b, c and 4 more for sm_90".
fn described(partition: &Partition, target: &dyn Display) -> String {
    if partition.parts.is_empty() {
        return format!("the linked code for {target}");
    }
    let kernels = &partition.kernels;
    if kernels.is_empty() {
        return format!("functions and variables that kernels share for {target}");
    }
    let names = kernels.iter().take(KERNELS_SHOWN).map(|name| demangle::shortened(name, NAME_WIDTH));
    let shown: Vec<String> = names.collect();
    let more = kernels.len().saturating_sub(KERNELS_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let noun = if kernels.len() == 1 { "kernel" } else { "kernels" };
    format!("the {noun} {}{more} for {target}", shown.join(", "))
}

impl<'j, M: Machine> PartitionJob<'j, M> {
    /// If nothing is linked with the code, its tools finish it, unless the inputs have the result alone that has to be linked.
    fn new(target: &'j PlannedTarget<'j, M>, index: usize, context: LtoContext<'j, M>) -> Result<Self, Errors> {
        let is_in_inputs = |job: &Self| job.key().is_some_and(|key| context.result_cache.is_in_inputs(&key));
        let joined = Self::of(target, index, false, context)?;
        if context.is_partial() {
            return Ok(joined);
        }
        let finished = Self::finished(target, index, context)?;
        Ok(finished.filter(|finished| is_in_inputs(finished) || !is_in_inputs(&joined)).unwrap_or(joined))
    }

    /// The job whose machine code needs no linker; `None` if there has to be one.
    fn finished(
        target: &'j PlannedTarget<'j, M>,
        index: usize,
        context: LtoContext<'j, M>,
    ) -> Result<Option<Self>, Errors> {
        let can_finish = context.machine.is_finishable(&target.planned)?;
        can_finish.then(|| Self::of(target, index, true, context)).transpose()
    }

    fn of(
        target: &'j PlannedTarget<'j, M>,
        index: usize,
        is_finished: bool,
        context: LtoContext<'j, M>,
    ) -> Result<Self, Errors> {
        let (machine, Planned { images, plan, .. }) = (context.machine, &target.planned);
        let partition = &plan.partitions[index];
        let stem = machine.stem(&images.arch);
        let name = match is_finished {
            true => format!("{stem}.finished"),
            false if plan.is_whole() => machine.whole_job(&images.arch),
            false => format!("{stem}.{index}"),
        };
        let described = described(partition, &images.arch);
        // A unit alone needs no names and no copies for what partitions share.
        let is_whole = partition.parts.is_empty() || (is_finished && partition.parts.len() == 1);
        let units: Vec<usize> = partition.parts.iter().map(|part| part.unit).collect();
        let units = (!partition.parts.is_empty()).then_some(&*units);
        let part = JobPart { name: &name, described: &described, units, is_finished };
        let code = machine.job_code(&target.planned, &part)?;
        let stage = |stage: &str| context.temp_files().file(&format!("{name}.{stage}.bc"));
        let saved_stages = context.temp_files().folder().is_none().then(|| (stage("merged"), stage("opt")));
        let (units, ranges) = match &target.unit_file {
            Some(file) => (file.path.clone(), file.ranges_of(&partition.parts)),
            None => (PathBuf::new(), Vec::new()),
        };
        let parts: Vec<UnitPart> = if is_whole { Vec::new() } else { unit_file::renumbered(&partition.parts) };
        let job = CompileJob {
            name: name.clone(),
            llvm_options: machine.llvm_options(),
            units,
            ranges,
            parts,
            promoted: if partition.parts.is_empty() { plan.promoted.clone() } else { Vec::new() },
            keep: if is_whole { visible_names(partition, plan) } else { partition.keep.clone() },
            kernels: partition.kernels.iter().filter(|kernel| partition.keep.contains(*kernel)).cloned().collect(),
            code,
            saved_stages,
            cached_code: None,
            traced: context.link.recorder.recording().is_some(),
        };
        let unnamed = || if plan.is_whole() { job_run::WHOLE_PROGRAM.to_owned() } else { name };
        let label = partition.kernels.first().cloned().unwrap_or_else(unnamed);
        let Unordered { id, instructions, .. } = unordered(&target.planned, index, machine);
        let job = PartitionJob { context, target, described, label, instructions, id, job };
        Ok(job.without_dead_kernels(partition))
    }

    /// Leaves out dead kernels, unless the result of the whole partition is at hand or other links may need it. The key is that of the whole
    /// partition nevertheless.
    fn without_dead_kernels(mut self, partition: &Partition) -> Self {
        let removable = &self.target.planned.plan.removable;
        let dead: BTreeSet<String> =
            partition.kernels.iter().filter(|name| removable.contains(*name)).cloned().collect();
        let is_needed_whole =
            |key: Option<Key>| key.is_none_or(|key| !self.context.result_cache.is_for_this_link(&key));
        if !dead.is_empty() && !is_needed_whole(self.key()) {
            self.job.kernels.retain(|kernel| !dead.contains(kernel));
            self.job.code = self.job.code.steps().without_kernels(dead);
        }
        self
    }

    /// Compiles the program that is open in this process.
    fn run_here(&self) -> Result<Compiled<M::Code>, Errors> {
        let (machine, planned) = (self.context.machine, &self.target.planned);
        if self.context.link.request.options.diagnosing {
            // LLVM would end this process, so others compile. Do not use rayon here: all of its threads may wait for this job.
            let stem = machine.stem(&planned.images.arch);
            culprit::search(&self.job, &stem, self.context.link)?;
            return Ok(Compiled { code: M::Code::default(), messages: Vec::new() });
        }
        let _linking = span::traced("Link device input", || planned.images.arch.to_string());
        let units = planned.images.units();
        let program = self
            .target
            .take_program()
            .map_or_else(|| OwnedProgram::load(&units, machine.rules()), Ok)
            .map_err(Errors::from_iter)?;
        let names: Vec<_> =
            units.iter().map(|unit| NamedBitcode { name: unit.name(), bitcode: unit.bitcode() }).collect();
        let begun = Instant::now();
        let (emitted, messages) = program.compile(self, |session, modules, this| {
            machines::check_modules(&modules, &names)?;
            let library = || this.context.machine.library();
            let module = this.job.optimize(session, modules, &names, &library)?;
            let emitted = this.job.code.steps().emit(session, module, true)?;
            Ok::<_, Errors>((emitted, session.take_messages()))
        })?;
        let (llvm, llvm_peak, text_bytes) = (begun.elapsed(), memory::own_peak(), emitted.text_bytes());
        let begun = Instant::now();
        let Generated { code, tools_peak, .. } = machine.finish(planned, &self.job.name, &self.job.code, emitted)?;
        self.check(&code)?;
        self.context.link.recorder.process(begun, tools_peak);
        let stat = JobStat {
            llvm_seconds: llvm.as_secs_f64(),
            tool_seconds: begun.elapsed().as_secs_f64(),
            llvm_peak,
            tools_peak,
            text_bytes,
            code_bytes: machine.code_bytes(&code),
            ..JobStat::default()
        };
        self.named().ran_here(stat, self.context.resources());
        Ok(Compiled { code, messages })
    }

    fn run_cached(&self) -> Result<Compiled<M::Code>, Errors> {
        let cache = self.context.result_cache;
        let key = self.key();
        if let Some(found) = self.look_up(key.as_ref())? {
            self.named().was_cached(self.context.machine.code_bytes(&found.code), self.context.resources());
            return Ok(found);
        }
        let Some(key) = key.filter(|_| !self.context.is_dry_run()) else {
            return self.compile_in_worker();
        };
        let kept = cache.cached_code(&self.job, self.context.machine);
        let Ran { compiled, code } = self.run_in_worker(kept)?;
        // An entry that the worker has seen may be gone.
        let compiled = compiled.map_or_else(|| self.compile_in_worker(), Ok)?;
        let Compiled { code: own, messages } = &compiled;
        let stored = CachedPartition { code: self.context.machine.store(own), messages: messages.clone() };
        cache.put(Some(&key), &stored);
        if let Some(code) = code {
            cache.store_code(&code, &key);
        }
        Ok(compiled)
    }

    /// Returns the result that the cache has under a key.
    fn look_up(&self, key: Option<&Key>) -> Result<Option<Compiled<M::Code>>, Errors> {
        let (machine, arch) = (self.context.machine, &self.target.planned.images.arch);
        let accept = |CachedPartition { code, messages }: CachedPartition<M::Stored>| {
            let restored = machine.restore(&self.job.name, &self.described, &self.job.code, code).transpose()?;
            let is_sound = |code: &M::Code| machine.check(arch, code, &self.job.kernels).is_ok();
            match restored {
                Ok(code) => is_sound(&code).then_some(Ok(Compiled { code, messages })),
                // Not that of the entry: a file cannot be written.
                Err(errors) => Some(Err(errors)),
            }
        };
        self.context.result_cache.get(key, accept).transpose()
    }

    /// Checks code that was made for the job.
    fn check(&self, code: &M::Code) -> Result<(), Errors> {
        match self.context.makes_code() {
            true => self.context.machine.check(&self.target.planned.images.arch, code, &[]),
            false => Ok(()),
        }
    }

    fn compile_in_worker(&self) -> Result<Compiled<M::Code>, Errors> {
        let compiled = self.run_in_worker(None)?.compiled;
        compiled.ok_or_else(|| Error::NothingCompiled { what: self.described.clone() }.into())
    }

    fn key(&self) -> Option<Key> {
        self.context.result_cache.partition_key(&self.job, self.context.machine)
    }

    /// Runs the job, unless the result of its code is `kept`.
    fn run_in_worker(&self, cached_code: Option<CachedCode>) -> Result<Ran<M::Code>, Errors> {
        let job = CompileJob { cached_code, ..self.job.clone() };
        let named = NamedJob { job: &job, ..self.named() };
        let machine = self.context.machine;
        named.run_in_worker(self.context.resources(), |reply| {
            let Reply { messages, emitted, made, code, is_cached, .. } = reply;
            let key = code.map(Key::of_bytes);
            if is_cached {
                return Ok(self.find_cached(key));
            }
            let (name, code, sizes) = (&self.job.name, &self.job.code, &emitted.sizes);
            let Generated { code, tools_peak, learned } =
                machine.read(&self.target.planned, name, code, made, sizes)?;
            self.check(&code)?;
            learned.iter().for_each(|(size, peak)| self.context.estimates.learn(*size, *peak));
            let code_bytes = machine.code_bytes(&code);
            let value = Ran { compiled: Some(Compiled { code, messages }), code: key };
            Ok(Finished { value, code_bytes, tools_peak, is_cached })
        })
    }

    /// Returns the result that the cache has of this code.
    fn find_cached(&self, code: Option<Key>) -> Finished<Ran<M::Code>> {
        let result = code.and_then(|code| self.context.result_cache.result_of(&code));
        let found = self.look_up(result.as_ref()).ok().flatten();
        let code_bytes = found.as_ref().map_or(0, |found| self.context.machine.code_bytes(&found.code));
        Finished { code_bytes, is_cached: found.is_some(), value: Ran { compiled: found, code }, tools_peak: 0 }
    }

    fn named(&self) -> NamedJob<'_> {
        let (described, label, instructions) = (&*self.described, &*self.label, self.instructions);
        NamedJob { job: &self.job, described, label, instructions, id: self.id }
    }
}

/// The names of a program in one piece, or of a partition that is compiled as one, that stay visible.
fn visible_names(partition: &Partition, plan: &TargetPlan) -> BTreeSet<String> {
    let is_visible = |name: &&String| plan.visible.contains(*name) || partition.kernels.contains(name);
    partition.keep.iter().filter(is_visible).cloned().collect()
}
