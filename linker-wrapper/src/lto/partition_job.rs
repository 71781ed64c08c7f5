//! The job of one partition: PTX by a worker process, machine code by ptxas, or both out of the cache.

use std::time::Instant;

use llvm_passes::extract::UnitPart;
use llvm_passes::partition::Partition;
use llvm_passes::session::Warning;
use offload_bundle::arch::GpuArch;

use crate::codegen::{Codegen, DeviceObject, PtxSource};
use crate::diag::demangle;
use crate::diag::error::{Errors, collect};
use crate::lto::culprit;
use crate::lto::device_link::{self, Surroundings};
use crate::lto::partitioned::CutTarget;
use crate::lto::result_cache::CompiledPartition;
use crate::lto::worker::{self, Emission, Work};
use crate::profile::span;
use crate::profile::stats::JobStat;
use crate::sys::cache::Key;
use crate::sys::temp_files;
use offload_bundle::ptx::{self, DebugInfo};

/// Kernels that are named in messages about a partition, and the longest name.
const KERNELS_SHOWN: usize = 3;
const NAME_WIDTH: usize = 100;

/// What a partition gives.
#[derive(Debug, Default)]
pub struct Made {
    /// Relocatable machine code, or PTX for a library that compiles all of it at once.
    pub cubins: Vec<DeviceObject>,
    /// PTX for the image, of the lowest version that it needs.
    pub ptx: Vec<(GpuArch, Vec<u8>)>,
    /// LLVM's warnings.
    pub warnings: Vec<Warning>,
    /// What ptxas said.
    pub said: Vec<String>,
}

impl Made {
    fn cubin_bytes(&self) -> u64 {
        self.cubins.iter().map(|cubin| cubin.bytes.len() as u64).sum()
    }
}

/// A job with everything that is known before it runs.
struct Job<'j> {
    around: &'j Surroundings<'j>,
    stem: String,
    what: String,
    label: String,
    maker: Codegen<'j>,
    sass: Vec<GpuArch>,
    ptx: Vec<GpuArch>,
    instructions: u64,
    work: Work,
}

/// Compiles one partition for all targets that get some of it.
///
/// # Errors
/// What LLVM or ptxas says.
pub fn compile(cut: &CutTarget<'_>, index: usize, around: &Surroundings<'_>) -> Result<Made, Errors> {
    let job = Job::new(cut, index, around)?;
    // What a library made is not kept: its key would have to know the library.
    let key = job.maker.is_toolkit().then(|| around.results.partition_key(&job.work, around)).flatten();
    if let Some(made) = around.results.get::<CompiledPartition>(key.as_ref()).and_then(|found| job.unpack(found)) {
        if let Ok(made) = &made {
            around.recorder.job(JobStat { cached: true, cubin_bytes: made.cubin_bytes(), ..job.stat() });
        }
        return made;
    }
    job.run(key.as_ref())
}

/// "the kernels 'a', 'b', 'c' and 4 more for sm_90".
pub fn described(partition: &Partition, arch: GpuArch) -> String {
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

impl<'j> Job<'j> {
    fn new(cut: &'j CutTarget<'j>, index: usize, around: &'j Surroundings<'j>) -> Result<Self, Errors> {
        let (partition, own) = (&cut.partitions()[index], cut.target.arch);
        let maker = around.backends.choose(cut.needs())?;
        let stem = format!("{own}.{index}");
        let mut sass: Vec<GpuArch> =
            around.sass.iter().filter(|entry| entry.from == own).map(|entry| entry.arch).collect();
        sass.sort_by_key(|arch| *arch != own);
        let ptx: Vec<GpuArch> = around.ptx.iter().filter(|entry| entry.from == own).map(|entry| entry.arch).collect();
        let more = ptx.iter().filter(|arch| !sass.contains(arch));
        let emissions = collect(sass.iter().chain(more).map(|arch| {
            let version = maker.ptx_version(*arch)?;
            let path = around.temp_files.file(&format!("{stem}.{arch}.ptx"));
            Ok(Emission { arch: *arch, version, path })
        }))?;
        let version = maker.ptx_version(own)?;
        let parts = partition.parts.iter().enumerate();
        let stage = |stage: &str| around.temp_files.file(&format!("{stem}.{stage}.bc"));
        let work = Work {
            arch: own,
            version,
            level: around.options.level,
            llvm_options: around.options.llvm_options.clone(),
            units: cut.units.clone(),
            ranges: partition.parts.iter().map(|part| cut.ranges[part.unit].clone()).collect(),
            parts: parts.map(|(place, part)| UnitPart { unit: place, takes: part.takes.clone() }).collect(),
            keep: partition.keep.clone(),
            libdevice: cut.libdevice.path().map(Into::into),
            emissions,
            keep_stages: around.temp_files.folder().is_none().then(|| (stage("merged"), stage("opt"))),
        };
        let (what, instructions) = (described(partition, own), partition.instructions);
        let label = partition.kernels.first().cloned().unwrap_or_else(|| stem.clone());
        Ok(Job { around, stem, what, label, maker, sass, ptx, instructions, work })
    }

    fn run(&self, key: Option<&Key>) -> Result<Made, Errors> {
        let around = self.around;
        let mut permit = around.budget.admit(around.estimates.llvm(self.instructions));
        let compiling = span::traced("Compile partition", || format!("{}: {}", self.stem, self.what));
        let begun = Instant::now();
        let compiled = worker::compile(&self.work, &around.temp_files.file(&format!("{}.json", self.stem)), &self.what);
        let reply = compiled.map_err(|failure| culprit::errors(failure, &self.work, &self.stem, around.temp_files))?;
        drop(compiling);
        around.recorder.process(begun, reply.peak);
        let (llvm_seconds, begun) = (begun.elapsed().as_secs_f64(), Instant::now());
        let sizes = &reply.sizes;
        permit.adjust(around.estimates.ptxas(sizes.iter().copied().max().unwrap_or_default()));
        let mut made = Made { warnings: reply.warnings, ..Made::default() };
        let mut ptxas_peak = 0;
        for (arch, (debug_info, size)) in self.sass.iter().zip(reply.debug_info.iter().zip(sizes)) {
            let cubin = self.assemble(*arch, *debug_info)?;
            around.estimates.learn(*size, cubin.peak);
            ptxas_peak = ptxas_peak.max(cubin.peak);
            made.said.extend(cubin.diagnostics.clone());
            made.cubins.push(cubin);
        }
        made.ptx = collect(self.ptx.iter().map(|arch| Ok((*arch, self.image_ptx(*arch)?))))?;
        drop(permit);
        around.recorder.process(begun, ptxas_peak);
        around.recorder.job(JobStat {
            llvm_seconds,
            ptxas_seconds: begun.elapsed().as_secs_f64(),
            llvm_peak: reply.peak,
            ptxas_peak,
            ptx_bytes: reply.sizes.iter().sum(),
            cubin_bytes: made.cubin_bytes(),
            ..self.stat()
        });
        self.keep(key, &made);
        Ok(made)
    }

    fn stat(&self) -> JobStat {
        JobStat { label: self.label.clone(), target: self.work.arch.to_string(), ..JobStat::default() }
    }

    fn emission(&self, arch: GpuArch) -> Option<&Emission> {
        self.work.emissions.iter().find(|emission| emission.arch == arch)
    }

    fn assemble(&self, arch: GpuArch, debug_info: DebugInfo) -> Result<DeviceObject, Errors> {
        let input = self.emission(arch).map(|emission| emission.path.clone()).unwrap_or_default();
        let source = PtxSource { arch, input, debug_info, relocatable: true, name: self.what.clone() };
        device_link::assemble(self.maker, source, self.around)
    }

    /// PTX for the image, with the lowest version that it needs.
    fn image_ptx(&self, arch: GpuArch) -> Result<Vec<u8>, Errors> {
        let Some(emission) = self.emission(arch) else { return Ok(Vec::new()) };
        let text = temp_files::read_file(&emission.path)?;
        if self.around.mode.dry {
            return Ok(text);
        }
        if let Some(version) = self.around.ptx_version {
            return Ok(ptx::with_version(&text, version).unwrap_or(text));
        }
        let _probing = span::traced("Find lowest PTX version", || format!("{} {arch}", self.stem));
        self.maker.lower_version(text, arch, &self.stem, self.around.temp_files)
    }

    /// What was kept, with the cubins where nvlink finds them. `None`: it makes no sense.
    fn unpack(&self, found: CompiledPartition) -> Option<Result<Made, Errors>> {
        let mut made = Made { warnings: found.warnings, said: found.said, ..Made::default() };
        for (arch, bytes) in found.cubins {
            let path = match self.around.temp_files.write(&format!("{}.{arch}.cubin", self.stem), &bytes) {
                Ok(path) => path,
                Err(error) => return Some(Err(error)),
            };
            made.cubins.push(DeviceObject::cubin(self.what.clone(), arch, path, bytes, true));
        }
        for (arch, text) in found.ptx {
            made.ptx.push((arch, text));
        }
        let cubins: Vec<GpuArch> = made.cubins.iter().map(|cubin| cubin.arch).collect();
        (cubins == self.sass).then_some(Ok(made))
    }

    fn keep(&self, key: Option<&Key>, made: &Made) {
        if key.is_none() || self.around.mode.dry || !self.maker.is_toolkit() {
            return;
        }
        let kept = CompiledPartition {
            cubins: made.cubins.iter().map(|cubin| (cubin.arch, cubin.bytes.clone())).collect(),
            ptx: made.ptx.clone(),
            warnings: made.warnings.clone(),
            said: made.said.clone(),
        };
        self.around.results.put(key, &kept);
    }
}
