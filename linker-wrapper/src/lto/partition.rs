//! Compiles one partition of a target: LLVM emits PTX, in a worker process or in this one, and ptxas assembles it. The cache may
//! have the result already.

use std::path::PathBuf;
use std::time::Instant;

use llvm_passes::OwnedProgram;
use llvm_passes::extract::UnitPart;
use llvm_passes::partition::Partition;
use llvm_passes::pipeline::NamedBitcode;
use offload_bundle::arch::GpuArch;
use offload_bundle::ptx::{self, DebugInfo};

use crate::codegen::{Codegen, DeviceObject, PtxSource};
use crate::diag::demangle;
use crate::diag::error::{Errors, collect};
use crate::lto::compile_job::{CompileJob, Emission};
use crate::lto::context::LtoContext;
use crate::lto::products::CompiledPartition;
use crate::lto::result_cache::CachedPartition;
use crate::lto::target::PlannedTarget;
use crate::lto::{culprit, worker};
use crate::profile::span;
use crate::profile::stats::JobStat;
use crate::sys::temp_files;

/// Maximum number of kernels that messages about a partition name.
const KERNELS_SHOWN: usize = 3;
/// Maximum length of a kernel's name in messages, in characters.
const NAME_WIDTH: usize = 100;

/// PTX that LLVM emitted.
struct Emitted {
    debug_info: DebugInfo,
    /// Length of the text in bytes.
    size: u64,
    /// The text; `None` if a worker wrote it to the emission's file.
    text: Option<Vec<u8>>,
}

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
    job: CompileJob,
    /// Each machine code target, with the index of its emission.
    sass: Vec<(GpuArch, usize)>,
    /// Each PTX target, with the index of its emission.
    ptx: Vec<(GpuArch, usize)>,
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

/// Describes a partition in messages: "the kernels a, b, c and 4 more for sm_90".
pub fn described(partition: &Partition, arch: GpuArch) -> String {
    if partition.parts.is_empty() {
        return format!("the linked code for {arch}");
    }
    let kernels = &partition.kernels;
    if kernels.is_empty() {
        return format!("functions and variables that kernels share for {arch}");
    }
    let names = kernels.iter().take(KERNELS_SHOWN).map(|name| demangle::shortened(name, NAME_WIDTH));
    let shown: Vec<String> = names.collect();
    let more = kernels.len().saturating_sub(KERNELS_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let noun = if kernels.len() == 1 { "kernel" } else { "kernels" };
    format!("the {noun} {}{more} for {arch}", shown.join(", "))
}

impl<'j> PartitionJob<'j> {
    fn new(target: &'j PlannedTarget<'j>, index: usize, context: LtoContext<'j>) -> Result<Self, Errors> {
        let (plan, own) = (&target.plan, target.plan.arch);
        let partition = &plan.partitions[index];
        let codegen = context.backends.choose(&plan.needs)?;
        let stem = format!("{own}.{index}");
        let (emissions, sass, ptx) = emissions(target, &stem, codegen, &context)?;
        let version = codegen.ptx_version(own)?;
        let stage = |stage: &str| context.temp_files().file(&format!("{stem}.{stage}.bc"));
        let keep_stages = context.temp_files().folder().is_none().then(|| (stage("merged"), stage("opt")));
        let (units, ranges) = match &target.unit_file {
            Some(file) if partition.parts.is_empty() => (file.path.clone(), file.ranges.clone()),
            Some(file) => {
                let ranges = partition.parts.iter().map(|part| file.ranges[part.unit].clone());
                (file.path.clone(), ranges.collect())
            }
            None => (PathBuf::new(), Vec::new()),
        };
        let parts = partition.parts.iter().enumerate();
        let job = CompileJob {
            name: stem.clone(),
            arch: own,
            version,
            level: context.options().level,
            llvm_options: context.options().llvm_options.clone(),
            units,
            ranges,
            parts: parts.map(|(place, part)| UnitPart { unit: place, takes: part.takes.clone() }).collect(),
            promoted: if partition.parts.is_empty() { plan.promoted.clone() } else { Vec::new() },
            keep: partition.keep.clone(),
            libdevice: context.libraries.libdevice_path().map(Into::into),
            emissions,
            keep_stages,
        };
        let label = partition.kernels.first().cloned().unwrap_or_else(|| stem.clone());
        let (described, instructions) = (described(partition, own), partition.instructions);
        Ok(PartitionJob { context, target, stem, described, label, codegen, instructions, job, sass, ptx })
    }

    /// Compiles the program that is open in this process.
    fn run_here(&self) -> Result<CompiledPartition, Errors> {
        if self.context.link.request.options.diagnosing {
            // LLVM would end this process, so others compile. Do not use rayon here: all of its threads may wait for this job.
            return culprit::search(&self.job, &self.job.arch.to_string(), self.context.temp_files())
                .map(|()| CompiledPartition::default());
        }
        let _linking = span::traced("Link device input", || self.job.arch.to_string());
        let units = self.target.images.units();
        let program =
            self.target.take_program().map_or_else(|| OwnedProgram::load(&units), Ok).map_err(Errors::from_iter)?;
        let names: Vec<_> =
            units.iter().map(|unit| NamedBitcode { name: unit.name(), bitcode: unit.bitcode() }).collect();
        let (texts, warnings) = program.compile(self, |session, modules, this| {
            let texts = this.job.compile(session, modules, &names, &|| this.context.libraries.libdevice());
            texts.map(|texts| (texts, session.take_warnings()))
        })?;
        let emitted =
            |text: Vec<u8>| Emitted { debug_info: DebugInfo::of(&text), size: text.len() as u64, text: Some(text) };
        let mut emitted: Vec<Emitted> = texts.into_iter().map(emitted).collect();
        let mut compiled = CompiledPartition { warnings, ..CompiledPartition::default() };
        compiled.ptx = self.image_ptx(&mut emitted)?;
        for (arch, emission) in &self.sass {
            compiled.add(self.assemble(*arch, *emission, &mut emitted[*emission])?);
        }
        Ok(compiled)
    }

    fn run_cached(&self) -> Result<CompiledPartition, Errors> {
        let cache = self.context.result_cache;
        // Only results of ptxas are cached: the key of a library's result would have to cover the library.
        let key =
            self.codegen.is_toolkit().then(|| cache.partition_key(&self.job, &self.context.key_inputs())).flatten();
        let found = cache.get::<CachedPartition>(key.as_ref()).and_then(|found| self.unpack(found));
        if let Some(compiled) = found {
            if let Ok(compiled) = &compiled {
                let stat = JobStat { cached: true, cubin_bytes: compiled.object_bytes(), ..self.stat() };
                self.context.link.recorder.job(stat);
            }
            return compiled;
        }
        let compiled = self.run_in_worker()?;
        if key.is_some() && !self.context.is_dry_run() {
            cache.put(key.as_ref(), &CachedPartition::of(&compiled));
        }
        Ok(compiled)
    }

    fn run_in_worker(&self) -> Result<CompiledPartition, Errors> {
        let LtoContext { budget, estimates, link, .. } = self.context;
        let mut permit = budget.admit(estimates.llvm(self.instructions));
        let compiling = span::traced("Compile partition", || format!("{}: {}", self.stem, self.described));
        let begun = Instant::now();
        let spec = link.temp_files.file(&format!("{}.json", self.stem));
        let reply = worker::compile(&self.job, &spec, &self.described)
            .map_err(|failure| culprit::explain(failure, &self.job, &self.stem, link.temp_files))?;
        drop(compiling);
        link.recorder.process(begun, reply.peak);
        let (llvm_seconds, begun) = (begun.elapsed().as_secs_f64(), Instant::now());
        let in_file =
            |(debug_info, size): (&DebugInfo, &u64)| Emitted { debug_info: *debug_info, size: *size, text: None };
        let mut emitted: Vec<Emitted> = reply.debug_info.iter().zip(&reply.sizes).map(in_file).collect();
        permit.adjust(estimates.ptxas(reply.sizes.iter().copied().max().unwrap_or_default()));
        let mut compiled = CompiledPartition { warnings: reply.warnings, ..CompiledPartition::default() };
        let mut ptxas_peak = 0;
        for (arch, emission) in &self.sass {
            let object = self.assemble(*arch, *emission, &mut emitted[*emission])?;
            estimates.learn(emitted[*emission].size, object.peak);
            ptxas_peak = ptxas_peak.max(object.peak);
            compiled.add(object);
        }
        compiled.ptx = self.image_ptx(&mut emitted)?;
        drop(permit);
        link.recorder.process(begun, ptxas_peak);
        link.recorder.job(JobStat {
            llvm_seconds,
            ptxas_seconds: begun.elapsed().as_secs_f64(),
            llvm_peak: reply.peak,
            ptxas_peak,
            ptx_bytes: reply.sizes.iter().sum(),
            cubin_bytes: compiled.object_bytes(),
            ..self.stat()
        });
        Ok(compiled)
    }

    fn stat(&self) -> JobStat {
        JobStat { label: self.label.clone(), target: self.job.arch.to_string(), ..JobStat::default() }
    }

    /// Turns emitted PTX into machine code.
    fn assemble(&self, arch: GpuArch, emission: usize, emitted: &mut Emitted) -> Result<DeviceObject, Errors> {
        let (is_monolithic, own) = (self.target.plan.is_monolithic(), arch == self.target.plan.arch);
        let mut relocatable = match (is_monolithic, own) {
            (false, _) => true,
            (true, true) => self.target.plan.needs.joins,
            (true, false) => !self.context.options().nvlink_arguments.is_empty(),
        };
        let input = self.job.emissions[emission].path.clone();
        if let Some(text) = &emitted.text {
            // In finished code, ptxas inlines functions so much that registers and size suffer. So a program with functions is
            // assembled as relocatable code and finished by nvlink, as all other linkers do.
            relocatable |= self.codegen.can_finish() && ptx::defines_functions(text);
            temp_files::write_file(&input, text)?;
        }
        let name = if is_monolithic { format!("the linked code for {arch}") } else { self.described.clone() };
        let source = PtxSource { arch, input, debug_info: emitted.debug_info, relocatable, name };
        let _assembling = span::traced("ptxas", || source.input.display().to_string());
        self.codegen.assemble(source, self.context.temp_files())
    }

    /// Returns the PTX for the image, each text with the lowest version that it needs.
    fn image_ptx(&self, emitted: &mut [Emitted]) -> Result<Vec<(GpuArch, Vec<u8>)>, Errors> {
        collect(self.ptx.iter().map(|(arch, emission)| {
            let text = match emitted[*emission].text.take() {
                Some(text) => text,
                None => temp_files::read_file(&self.job.emissions[*emission].path)?,
            };
            Ok((*arch, self.lowered(text, *arch)?))
        }))
    }

    fn lowered(&self, text: Vec<u8>, arch: GpuArch) -> Result<Vec<u8>, Errors> {
        match self.context.link.request.options.ptx_version {
            // A dry run cannot run ptxas to try a lower version.
            _ if self.context.is_dry_run() => Ok(text),
            Some(version) => Ok(ptx::with_version(&text, version).unwrap_or(text)),
            None => {
                let _probing = span::traced("Find lowest PTX version", || format!("{} {arch}", self.stem));
                self.codegen.lower_version(text, arch, &self.stem, self.context.temp_files())
            }
        }
    }

    /// Writes the machine code of a cached partition to files for nvlink. Returns `None` if the entry does not fit the job.
    fn unpack(&self, found: CachedPartition) -> Option<Result<CompiledPartition, Errors>> {
        let CachedPartition { cubins, ptx, warnings, diagnostics } = found;
        let mut compiled = CompiledPartition { warnings, diagnostics, ..CompiledPartition::default() };
        for (arch, bytes) in cubins {
            let path = match self.context.temp_files().write(&format!("{}.{arch}.cubin", self.stem), &bytes) {
                Ok(path) => path,
                Err(error) => return Some(Err(error)),
            };
            compiled.objects.push(DeviceObject::cubin(self.described.clone(), arch, path, bytes, true));
        }
        compiled.ptx = ptx;
        let found = compiled.objects.iter().map(|object| object.arch);
        found.eq(self.sass.iter().map(|(arch, _)| *arch)).then_some(Ok(compiled))
    }
}

/// The emissions of a partition; each machine code target with the index of its emission; each PTX target with its own.
type Emissions = (Vec<Emission>, Vec<(GpuArch, usize)>, Vec<(GpuArch, usize)>);

fn emissions(
    target: &PlannedTarget<'_>,
    stem: &str,
    codegen: Codegen<'_>,
    context: &LtoContext<'_>,
) -> Result<Emissions, Errors> {
    let plan = &target.plan;
    let emission = |arch: GpuArch, file: String, visible_functions: bool| {
        let version = codegen.ptx_version(arch)?;
        let path = context.temp_files().file(&file);
        Ok::<_, Errors>(Emission { arch, version, visible_functions, path })
    };
    let mut all = Vec::new();
    if plan.is_monolithic() {
        // Functions stay local in PTX for the image. The target's own code is emitted last, from the module itself instead of a copy.
        for arch in &plan.ptx {
            all.push(emission(*arch, format!("{stem}.image.{arch}.ptx"), false)?);
        }
        let ptx = plan.ptx.iter().copied().enumerate().map(|(place, arch)| (arch, place)).collect();
        let mut sass = Vec::new();
        let (own, others): (Vec<GpuArch>, Vec<GpuArch>) = plan.sass.iter().partition(|arch| **arch == plan.arch);
        for arch in others {
            sass.push((arch, all.len()));
            all.push(emission(arch, format!("{arch}.from.{}.ptx", plan.arch), false)?);
        }
        for arch in own {
            sass.insert(0, (arch, all.len()));
            // Functions that become visible must not collide with those of other objects.
            let visible = !plan.needs.joins && codegen.can_finish();
            all.push(emission(arch, format!("{stem}.ptx"), visible)?);
        }
        return Ok((all, sass, ptx));
    }
    let more = plan.ptx.iter().filter(|arch| !plan.sass.contains(arch));
    let archs: Vec<GpuArch> = plan.sass.iter().chain(more).copied().collect();
    for arch in &archs {
        all.push(emission(*arch, format!("{stem}.{arch}.ptx"), false)?);
    }
    let place = |arch: &GpuArch| archs.iter().position(|other| other == arch).map(|place| (*arch, place));
    Ok((all, plan.sass.iter().filter_map(place).collect(), plan.ptx.iter().filter_map(place).collect()))
}
