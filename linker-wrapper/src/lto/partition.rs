//! Compiles one partition of a target: LLVM emits PTX, in a worker process or in this one, and ptxas assembles it. The cache may
//! have the result already.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Instant;

use llvm_passes::OwnedProgram;
use llvm_passes::partition::Partition;
use llvm_passes::pipeline::NamedBitcode;
use llvm_passes::program::Machine;
use offload_bundle::arch::GpuArch;
use offload_bundle::cubin;
use offload_bundle::ptx::DebugInfo;

use crate::codegen::{Assembler, Codegen, DeviceObject};
use crate::diag::demangle;
use crate::diag::error::{Errors, collect};
use crate::lto::compile_job::{CompileJob, KeptCode};
use crate::lto::context::LtoContext;
use crate::lto::culprit;
use crate::lto::distribution::Distribution;
use crate::lto::error::Error;
use crate::lto::generate::{Emitted, Generated, generate};
use crate::lto::job_list;
use crate::lto::job_run::{self, Finished, NamedJob};
use crate::lto::outputs::{Emission, ImagePtx, ImagePtxVersion, MachineCode, Outputs, Relocatable};
use crate::lto::products::CompiledPartition;
use crate::lto::result_cache::CachedPartition;
use crate::lto::result_cache::complete::{self, Step};
use crate::lto::result_cache::job_times::{JobId, Unordered};
use crate::lto::target::PlannedTarget;
use crate::lto::target_code::{NvptxCode, TargetCode};
use crate::lto::unit_file;
use crate::lto::worker::{EmittedPtx, Reply};
use crate::plan::target_link::TargetLink;
use crate::profile::stats::JobStat;
use crate::profile::{recording, span};
use crate::sys::cache::Key;
use crate::sys::{memory, temp_files};

/// Maximum number of kernels that messages about a partition name.
const KERNELS_SHOWN: usize = 3;
/// Maximum length of a kernel's name in messages, in characters.
const NAME_WIDTH: usize = 100;

/// The compilation of one partition, ready to run.
struct PartitionJob<'j> {
    context: LtoContext<'j>,
    target: &'j PlannedTarget<'j>,
    /// The prefix of the names of its files.
    stem: String,
    /// The partition's name in messages.
    described: String,
    label: String,
    codegen: Codegen<'j>,
    instructions: u64,
    id: Option<JobId>,
    code: NvptxCode,
    job: CompileJob,
}

/// What a worker did.
struct Ran {
    /// The compiled partition, if it was compiled or found.
    compiled: Option<CompiledPartition>,
    /// What its code is cached under.
    code: Option<Key>,
}

/// Compiles one partition of a target.
///
/// # Errors
/// Errors of LLVM or ptxas.
pub fn compile(
    target: &PlannedTarget<'_>,
    index: usize,
    context: &LtoContext<'_>,
) -> Result<CompiledPartition, Errors> {
    let job = PartitionJob::new(target, index, *context)?;
    if target.plan.is_monolithic() { job.run_here() } else { job.run_cached() }
}

/// Compiles the only partition of a target as the link of a program that has nothing else will use it.
///
/// # Errors
/// Errors of LLVM or ptxas.
pub fn compile_finished(target: &PlannedTarget<'_>, context: &LtoContext<'_>) -> Result<CompiledPartition, Errors> {
    match PartitionJob::finished(target, 0, *context)? {
        Some(job) => job.run_cached(),
        None => Ok(CompiledPartition::default()),
    }
}

/// Whether the result of a partition seems to be at hand.
pub fn is_known(target: &PlannedTarget<'_>, index: usize, context: &LtoContext<'_>) -> bool {
    let cache = context.result_cache;
    // Errors are those of the job itself.
    let is_here = || cache.is_here(&PartitionJob::new(target, index, *context).ok()?.key()?).then_some(());
    cache.is_enabled() && !target.plan.is_monolithic() && is_here().is_some()
}

/// What the cost of a partition depends on.
pub fn unordered(target: &PlannedTarget<'_>, index: usize) -> Unordered {
    let partition = &target.plan.partitions[index];
    let id = JobId::of(&target.plan.arch.to_string(), partition);
    Unordered { id, instructions: partition.instructions, estimate: partition.instructions }
}

/// The kernels of those partitions of a target whose results are in the inputs of the link.
pub fn kernels_in_inputs(target: &PlannedTarget<'_>, context: &LtoContext<'_>) -> Result<BTreeSet<String>, Errors> {
    let mut kernels = BTreeSet::new();
    let partitions = target.plan.partitions.iter().enumerate().filter(|_| !target.plan.is_monolithic());
    for (index, partition) in partitions {
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
/// No backend supports a target, or the jobs cannot be written.
pub fn distribute(targets: &[PlannedTarget<'_>], context: &LtoContext<'_>) -> Result<Distribution, Errors> {
    let partitions = || {
        let cut = targets.iter().filter(|target| !target.plan.is_monolithic());
        let indices = cut.flat_map(|target| (0..target.plan.partitions.len()).map(move |index| (target, index)));
        collect(indices.map(|(target, index)| {
            let job = PartitionJob::new(target, index, *context)?;
            Ok(job_list::PartitionJob { unordered: unordered(target, index), key: job.key(), job: job.job })
        }))
    };
    let keeps_here = |_: &[job_list::PartitionJob]| complete::unknown_file(Step::Compile, context.options());
    job_list::distribute("cuda", context.resources(), partitions, keeps_here)
}

/// Describes a partition in messages: "the kernels a, b, c and 4 more for sm_90".
pub fn described(partition: &Partition, target: &dyn Display) -> String {
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

impl<'j> PartitionJob<'j> {
    /// If nothing is linked with the code, ptxas finishes it, unless the inputs have the relocatable result alone.
    fn new(target: &'j PlannedTarget<'j>, index: usize, context: LtoContext<'j>) -> Result<Self, Errors> {
        let is_in_inputs = |job: &Self| job.key().is_some_and(|key| context.result_cache.is_in_inputs(&key));
        let joined = Self::of(target, index, false, context)?;
        if context.request().is_partial {
            return Ok(joined);
        }
        let finished = Self::finished(target, index, context)?;
        Ok(finished.filter(|finished| is_in_inputs(finished) || !is_in_inputs(&joined)).unwrap_or(joined))
    }

    /// The job whose machine code needs no linker; `None` if there has to be one.
    fn finished(target: &'j PlannedTarget<'j>, index: usize, context: LtoContext<'j>) -> Result<Option<Self>, Errors> {
        let can_finish = target.plan.is_finishable && context.backends.choose(&target.plan.needs)?.can_finish();
        can_finish.then(|| Self::of(target, index, true, context)).transpose()
    }

    fn of(
        target: &'j PlannedTarget<'j>,
        index: usize,
        is_finished: bool,
        context: LtoContext<'j>,
    ) -> Result<Self, Errors> {
        let (plan, own) = (&target.plan, target.plan.arch);
        let partition = &plan.partitions[index];
        let codegen = context.backends.choose(&plan.needs)?;
        let stem = if is_finished { format!("{own}.finished") } else { format!("{own}.{index}") };
        let described = described(partition, &own);
        // With nothing beside it, a unit needs no names and no copies for what partitions share.
        let is_whole = partition.parts.is_empty() || (is_finished && partition.parts.len() == 1);
        let (emissions, outputs) = if plan.is_monolithic() || is_finished {
            outputs_of_whole(target, &stem, plan.needs.joins && !is_finished, codegen, &context)?
        } else {
            outputs(target, &stem, &described, codegen, &context)?
        };
        let version = codegen.ptx_version(own)?;
        let stage = |stage: &str| context.temp_files().file(&format!("{stem}.{stage}.bc"));
        let keep_stages = context.temp_files().folder().is_none().then(|| (stage("merged"), stage("opt")));
        let (units, ranges) = match &target.unit_file {
            Some(file) => (file.path.clone(), file.ranges_of(&partition.parts)),
            None => (PathBuf::new(), Vec::new()),
        };
        let code = NvptxCode {
            arch: own,
            version,
            level: context.options().level,
            dead: if partition.parts.is_empty() { plan.dead.clone() } else { BTreeSet::new() },
            declared_kernels: plan.kernels_declared_by(&partition.parts, target.images),
            libdevice: context.libraries.libdevice_path().map(Into::into),
            emissions,
            outputs,
            assembler: codegen.assembler()?,
        };
        let job = CompileJob {
            name: stem.clone(),
            llvm_options: context.options().llvm_options.clone(),
            units,
            ranges,
            parts: if is_whole { Vec::new() } else { unit_file::renumbered(&partition.parts) },
            promoted: if partition.parts.is_empty() { plan.promoted.clone() } else { Vec::new() },
            keep: if is_whole { visible_names(partition, plan) } else { partition.keep.clone() },
            code: TargetCode::Nvptx(code.clone()),
            keep_stages,
            kept: None,
            traced: recording::is_on(),
        };
        let unnamed = || if plan.is_monolithic() { job_run::WHOLE_PROGRAM.to_owned() } else { stem.clone() };
        let label = partition.kernels.first().cloned().unwrap_or_else(unnamed);
        let Unordered { id, instructions, .. } = unordered(target, index);
        let job = PartitionJob { context, target, stem, described, label, codegen, instructions, id, code, job };
        Ok(job.without_dead_kernels(partition))
    }

    /// Leaves out dead kernels, unless the result of the whole partition is at hand or other links may need it. The key is that of the whole
    /// partition nevertheless.
    fn without_dead_kernels(mut self, partition: &Partition) -> Self {
        let removable = &self.target.plan.removable;
        let dead: BTreeSet<String> =
            partition.kernels.iter().filter(|name| removable.contains(*name)).cloned().collect();
        let is_needed_whole =
            |key: Option<Key>| key.is_none_or(|key| !self.context.result_cache.is_for_this_link(&key));
        if !dead.is_empty() && !is_needed_whole(self.key()) {
            self.code.dead = dead;
            self.job.code = TargetCode::Nvptx(self.code.clone());
        }
        self
    }

    /// Compiles the program that is open in this process.
    fn run_here(&self) -> Result<CompiledPartition, Errors> {
        if self.context.link.request.options.diagnosing {
            // LLVM would end this process, so others compile. Do not use rayon here: all of its threads may wait for this job.
            return culprit::search(&self.job, &self.code.arch.to_string(), self.context.link)
                .map(|()| CompiledPartition::default());
        }
        let _linking = span::traced("Link device input", || self.code.arch.to_string());
        let units = self.target.images.units();
        let program = self
            .target
            .take_program()
            .map_or_else(|| OwnedProgram::load(&units, Machine::Nvptx), Ok)
            .map_err(Errors::from_iter)?;
        let names: Vec<_> =
            units.iter().map(|unit| NamedBitcode { name: unit.name(), bitcode: unit.bitcode() }).collect();
        let begun = Instant::now();
        let (texts, messages) = program.compile(self, |session, modules, this| {
            let libdevice = || this.context.libraries.libdevice();
            let texts = this.code.emit(session, this.job.optimize(session, modules, &names, &libdevice)?)?;
            Ok::<_, Errors>((texts, session.take_messages()))
        })?;
        for code in &self.code.outputs.machine_code {
            temp_files::write_file(&self.code.emissions[code.emission].path, &texts[code.emission])?;
        }
        let (llvm, llvm_peak) = (begun.elapsed(), memory::own_peak());
        let sizes: Vec<u64> = texts.iter().map(|text| text.len() as u64).collect();
        let mut emitted: Vec<Emitted> = texts.into_iter().map(Emitted::of).collect();
        let begun = Instant::now();
        let generated = generate(&self.job.name, &self.code, &mut emitted, &self.codegen)?;
        let tools_peak = generated.peak();
        self.context.link.recorder.process(begun, tools_peak);
        let compiled = CompiledPartition::of(generated, messages);
        self.named().ran_here(
            JobStat {
                llvm_seconds: llvm.as_secs_f64(),
                ptxas_seconds: begun.elapsed().as_secs_f64(),
                llvm_peak,
                ptxas_peak: tools_peak,
                ptx_bytes: sizes.iter().sum(),
                cubin_bytes: compiled.object_bytes(),
                ..JobStat::default()
            },
            self.context.resources(),
        );
        Ok(compiled)
    }

    fn run_cached(&self) -> Result<CompiledPartition, Errors> {
        let cache = self.context.result_cache;
        let key = self.key();
        let found = cache.get::<CachedPartition>(key.as_ref()).and_then(|found| self.unpack(found));
        if let Some(compiled) = found {
            if let Ok(compiled) = &compiled {
                self.named().was_cached(compiled.object_bytes(), self.context.resources());
            }
            return compiled;
        }
        let Some(key) = key.filter(|_| !self.context.is_dry_run()) else {
            return self.compile_in_worker();
        };
        let kept = cache.kept_code(&self.job, &self.code, &self.context.key_inputs());
        let Ran { compiled, code } = self.run_in_worker(kept)?;
        // An entry that the worker has seen may be gone.
        let compiled = compiled.map_or_else(|| self.compile_in_worker(), Ok)?;
        cache.put(Some(&key), &CachedPartition::of(&compiled));
        if let Some(code) = code {
            cache.keep_code(&code, &key);
        }
        Ok(compiled)
    }

    fn compile_in_worker(&self) -> Result<CompiledPartition, Errors> {
        let compiled = self.run_in_worker(None)?.compiled;
        compiled.ok_or_else(|| Error::NothingCompiled { what: self.described.clone() }.into())
    }

    /// Only results of ptxas are cached: the key of a library's result would have to cover the library.
    fn key(&self) -> Option<Key> {
        let cache = self.context.result_cache;
        let key = || cache.partition_key(&self.job, &self.code, &self.context.key_inputs());
        self.codegen.is_toolkit().then(key).flatten()
    }

    /// Runs the job, unless the result of its code is `kept`.
    fn run_in_worker(&self, kept: Option<KeptCode>) -> Result<Ran, Errors> {
        let job = CompileJob { kept, ..self.job.clone() };
        let named = NamedJob { job: &job, ..self.named() };
        named.run_in_worker(self.context.resources(), |reply| {
            let Reply { messages, emitted, objects, code, is_kept, .. } = reply;
            let code = code.map(Key::of_bytes);
            if is_kept {
                return Ok(self.find_kept(code));
            }
            let generated = match &self.code.assembler {
                Some(assembler) => self.read(assembler, objects)?,
                None => self.generate_from_files(&emitted)?,
            };
            for (code, object) in self.code.outputs.machine_code.iter().zip(&generated.objects) {
                self.context.estimates.learn(emitted.sizes[code.emission], object.peak);
            }
            let tools_peak = generated.peak();
            let value = CompiledPartition::of(generated, messages);
            let code_bytes = value.object_bytes();
            Ok(Finished { value: Ran { compiled: Some(value), code }, code_bytes, tools_peak, is_kept })
        })
    }

    /// Returns the result that the cache has of this code.
    fn find_kept(&self, code: Option<Key>) -> Finished<Ran> {
        let cache = self.context.result_cache;
        let result = code.and_then(|code| cache.result_of(&code));
        let found = cache.get::<CachedPartition>(result.as_ref()).and_then(|found| self.unpack(found)?.ok());
        let code_bytes = found.as_ref().map_or(0, CompiledPartition::object_bytes);
        Finished { code_bytes, is_kept: found.is_some(), value: Ran { compiled: found, code }, tools_peak: 0 }
    }

    fn named(&self) -> NamedJob<'_> {
        let (described, label, instructions) = (&*self.described, &*self.label, self.instructions);
        NamedJob { job: &self.job, described, label, instructions, id: self.id }
    }

    /// Reads what a worker has left in files.
    fn read(&self, assembler: &Assembler, objects: Vec<DeviceObject>) -> Result<Generated, Errors> {
        let NvptxCode { emissions, outputs, .. } = &self.code;
        let objects = objects.into_iter().map(|object| assembler.read(object)).collect::<Result<_, _>>()?;
        let ptx = outputs.ptx.iter().map(|ptx| Ok((emissions[ptx.emission].arch, temp_files::read_file(&ptx.path)?)));
        Ok(Generated { objects, ptx: collect(ptx)? })
    }

    /// Generates the outputs with the library that is loaded in this process, from the PTX that a worker has left in files.
    fn generate_from_files(&self, emitted: &EmittedPtx) -> Result<Generated, Errors> {
        let in_file = |debug_info: &DebugInfo| Emitted { debug_info: *debug_info, text: None };
        let mut emitted: Vec<Emitted> = emitted.debug_info.iter().map(in_file).collect();
        generate(&self.job.name, &self.code, &mut emitted, &self.codegen)
    }

    /// Writes the machine code of a cached partition to files for nvlink. Returns `None` if the entry does not fit the job.
    fn unpack(&self, found: CachedPartition) -> Option<Result<CompiledPartition, Errors>> {
        let CachedPartition { cubins, ptx, messages, diagnostics } = found;
        let mut compiled = CompiledPartition { messages, diagnostics, ..CompiledPartition::default() };
        for (arch, bytes) in cubins {
            let path = match self.context.temp_files().write(&format!("{}.{arch}.cubin", self.stem), &bytes) {
                Ok(path) => path,
                Err(error) => return Some(Err(error)),
            };
            let is_finished = cubin::parse(&bytes).is_ok_and(|cubin| !cubin.is_relocatable());
            compiled.objects.push(DeviceObject::cubin(self.described.clone(), arch, path, bytes, !is_finished));
        }
        compiled.ptx = ptx;
        // nvlink leaves finished code out without a word.
        let fits = |(object, code): (&DeviceObject, &MachineCode)| {
            object.arch == self.code.emissions[code.emission].arch
                && (object.unlinked || code.relocatable != Relocatable::Always)
        };
        let expected = &self.code.outputs.machine_code;
        let all_fit = compiled.objects.len() == expected.len() && compiled.objects.iter().zip(expected).all(fits);
        all_fit.then_some(Ok(compiled))
    }
}

/// The names of a program in one piece, or of a partition that is compiled as one, that stay visible.
fn visible_names(partition: &Partition, plan: &TargetLink) -> BTreeSet<String> {
    let is_visible = |name: &&String| plan.visible.contains(*name) || partition.kernels.contains(name);
    partition.keep.iter().filter(is_visible).cloned().collect()
}

/// Returns the emissions of a partition, and what is made of them.
fn outputs(
    target: &PlannedTarget<'_>,
    stem: &str,
    described: &str,
    codegen: Codegen<'_>,
    context: &LtoContext<'_>,
) -> Result<(Vec<Emission>, Outputs), Errors> {
    let plan = &target.plan;
    let mut outputs = Outputs { ptx_version: image_ptx_version(context), ..Outputs::default() };
    let more = plan.ptx.iter().filter(|arch| !plan.sass.contains(arch));
    let archs: Vec<GpuArch> = plan.sass.iter().chain(more).copied().collect();
    let all = archs.iter().map(|arch| emission(*arch, &format!("{stem}.{arch}.ptx"), false, codegen, context));
    let all = collect(all)?;
    let places =
        |of: &[GpuArch]| of.iter().filter_map(|arch| archs.iter().position(|other| other == arch)).collect::<Vec<_>>();
    let code = |emission| MachineCode { emission, relocatable: Relocatable::Always, name: described.to_owned() };
    outputs.machine_code = places(&plan.sass).into_iter().map(code).collect();
    outputs.ptx = places(&plan.ptx).into_iter().map(|place| image_ptx(archs[place], place, stem, context)).collect();
    Ok((all, outputs))
}

/// Returns the emissions of all code of a target, and what is made of them. `is_joined`: the machine code is linked with other code.
fn outputs_of_whole(
    target: &PlannedTarget<'_>,
    stem: &str,
    is_joined: bool,
    codegen: Codegen<'_>,
    context: &LtoContext<'_>,
) -> Result<(Vec<Emission>, Outputs), Errors> {
    let plan = &target.plan;
    let mut all = Vec::new();
    let mut outputs = Outputs { ptx_version: image_ptx_version(context), ..Outputs::default() };
    // Functions stay local in PTX for the image. The target's own code is emitted last, from the module itself instead of a copy.
    for arch in &plan.ptx {
        outputs.ptx.push(image_ptx(*arch, all.len(), stem, context));
        all.push(emission(*arch, &format!("{stem}.image.{arch}.ptx"), false, codegen, context)?);
    }
    let finished = || if codegen.can_finish() { Relocatable::WithFunctions } else { Relocatable::Never };
    let code = |arch: GpuArch, emission: usize, is_joined: bool| MachineCode {
        emission,
        relocatable: if is_joined { Relocatable::Always } else { finished() },
        name: format!("the linked code for {arch}"),
    };
    let (own, others): (Vec<GpuArch>, Vec<GpuArch>) = plan.sass.iter().partition(|arch| **arch == plan.arch);
    for arch in others {
        outputs.machine_code.push(code(arch, all.len(), !context.options().nvlink_arguments.is_empty()));
        all.push(emission(arch, &format!("{arch}.from.{}.ptx", plan.arch), false, codegen, context)?);
    }
    for arch in own {
        outputs.machine_code.insert(0, code(arch, all.len(), is_joined));
        // Functions that become visible must not collide with those of other objects.
        let visible = !is_joined && codegen.can_finish();
        all.push(emission(arch, &format!("{stem}.ptx"), visible, codegen, context)?);
    }
    Ok((all, outputs))
}

fn emission(
    arch: GpuArch,
    file: &str,
    visible_functions: bool,
    codegen: Codegen<'_>,
    context: &LtoContext<'_>,
) -> Result<Emission, Errors> {
    let version = codegen.ptx_version(arch)?;
    Ok(Emission { arch, version, visible_functions, path: context.temp_files().file(file) })
}

fn image_ptx(arch: GpuArch, emission: usize, stem: &str, context: &LtoContext<'_>) -> ImagePtx {
    let file = |ending: &str| context.temp_files().file(&format!("{stem}.{}.{ending}.ptx", arch.virtual_name()));
    ImagePtx { emission, probe: file("probe"), path: file("image") }
}

fn image_ptx_version(context: &LtoContext<'_>) -> ImagePtxVersion {
    match context.link.request.options.ptx_version {
        _ if context.is_dry_run() => ImagePtxVersion::Unchanged,
        Some(version) => ImagePtxVersion::Fixed(version),
        None => ImagePtxVersion::Lowest,
    }
}
