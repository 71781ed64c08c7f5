//! Compiles the code of an AMD GPU target to objects: a partition in a worker process, a whole program in this process. The cache may
//! have the result already.

use std::time::Instant;

use llvm_passes::OwnedProgram;
use llvm_passes::amdgpu::{self, PartitionCode};
use llvm_passes::partition::Partition;
use llvm_passes::pipeline::NamedBitcode;
use llvm_passes::program::Machine;
use llvm_passes::session::Message;
use offload_bundle::amdgpu::Registers;
use serde::{Deserialize, Serialize};

use crate::cli::amd_options;
use crate::diag::error::Errors;
use crate::lto::amd_target::{PlannedTarget, names_of};
use crate::lto::code_object::{AmdImages, same_version};
use crate::lto::compile_job::CompileJob;
use crate::lto::culprit;
use crate::lto::distribution::Distribution;
use crate::lto::job_list::{self, PartitionJob};
use crate::lto::job_run::{self, Finished, NamedJob, Resources};
use crate::lto::partition::described;
use crate::lto::result_cache::complete;
use crate::lto::result_cache::job_times::{JobId, Unordered};
use crate::lto::target_code::{AmdCode, TargetCode};
use crate::lto::unit_file;
use crate::profile::stats::JobStat;
use crate::profile::{recording, span};
use crate::sys::{memory, temp_files};

/// The result of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Compiled {
    /// The object; none of a program without bitcode, or of a partition that needs functions of others.
    #[serde(with = "serde_bytes")]
    pub object: Option<Vec<u8>>,
    /// Functions of other partitions that the code calls by name.
    pub calls: Vec<String>,
    /// What functions of the object need that other partitions may call through pointers.
    pub functions: Registers,
    /// LLVM's messages.
    pub messages: Vec<Message>,
}

/// Compiles a partition, or the whole program without one.
///
/// # Errors
/// Errors of LLVM.
pub fn compile(target: &PlannedTarget<'_>, index: usize, resources: Resources<'_>) -> Result<Compiled, Errors> {
    match target.partitions.get(index) {
        Some(partition) => compile_partition(target, index, partition, resources),
        None => compile_whole(target, resources),
    }
}

/// Whether the result of a partition seems to be at hand.
pub fn is_known(target: &PlannedTarget<'_>, index: usize, resources: Resources<'_>) -> bool {
    let cache = resources.result_cache;
    let is_here = |partition| {
        let (job, code) = partition_job(target, index, partition, resources);
        cache.object_key(&job, &code).is_some_and(|key| cache.is_here(&key))
    };
    cache.is_enabled() && target.partitions.get(index).is_some_and(is_here)
}

/// Runs the partitions of all targets elsewhere if the link has a distributor, but for those in the cache. Begins to fetch those that
/// may be in a remote cache.
///
/// # Errors
/// The jobs cannot be written.
pub fn distribute(targets: &[PlannedTarget<'_>], resources: Resources<'_>) -> Result<Distribution, Errors> {
    let partitions = || {
        let all = targets.iter().flat_map(|target| {
            let indexed = target.partitions.iter().enumerate();
            indexed.map(move |(index, partition)| (target, index, partition))
        });
        let offered = |(target, index, partition): (&PlannedTarget<'_>, usize, &Partition)| {
            let (job, code) = partition_job(target, index, partition, resources);
            let key = resources.result_cache.object_key(&job, &code);
            PartitionJob { unordered: unordered(target.images, partition), job, key }
        };
        Ok(all.map(offered).collect())
    };
    let unknown = |partition: &PartitionJob| complete::unknown_llvm_file(&partition.job.llvm_options);
    job_list::distribute("hip", resources, partitions, |partitions| partitions.iter().find_map(unknown))
}

/// What the cost of a partition depends on.
pub fn unordered(images: &AmdImages<'_>, partition: &Partition) -> Unordered {
    let id = JobId::of(&images.name, partition);
    Unordered { id, instructions: partition.instructions, estimate: cost(partition) }
}

/// What compiling a partition costs, in instructions. LLVM takes more than linear time for large functions of AMD GPUs: a kernel of 7,000
/// instructions took five times as long as 200 kernels together that have as many.
fn cost(partition: &Partition) -> u64 {
    const LINEAR_UP_TO: u64 = 1500;
    let squared = partition.largest.saturating_mul(partition.largest);
    partition.instructions.saturating_add(squared / LINEAR_UP_TO)
}

fn partition_job(
    target: &PlannedTarget<'_>,
    index: usize,
    partition: &Partition,
    resources: Resources<'_>,
) -> (CompileJob, AmdCode) {
    let name = format!("{}.{index}", target.images.stem());
    let code = code(target, &name, resources);
    (job(target, Some(partition), name, &code, resources), code)
}

fn compile_partition(
    target: &PlannedTarget<'_>,
    index: usize,
    partition: &Partition,
    resources: Resources<'_>,
) -> Result<Compiled, Errors> {
    let (job, code) = partition_job(target, index, partition, resources);
    let described = described(partition, &target.images.name);
    let label = partition.kernels.first().unwrap_or(&job.name);
    let Unordered { id, instructions, .. } = unordered(target.images, partition);
    let named = NamedJob { job: &job, described: &described, label, instructions, id };
    let cache = resources.result_cache;
    let key = cache.object_key(&job, &code);
    if let Some(found) = cache.get::<Compiled>(key.as_ref()) {
        named.was_cached(found.code_bytes(), resources);
        return Ok(found);
    }
    let compiled = named.run_in_worker(resources, |reply| {
        let object = reply.calls.is_empty().then(|| temp_files::read_file(&code.object)).transpose()?;
        let value = Compiled { object, calls: reply.calls, functions: reply.functions, messages: reply.messages };
        Ok(Finished { code_bytes: value.code_bytes(), value, tools_peak: 0, is_kept: false })
    })?;
    if !resources.link.request.mode.dry {
        cache.put(key.as_ref(), &compiled);
    }
    Ok(compiled)
}

/// Compiles all bitcode, if there is any.
fn compile_whole(target: &PlannedTarget<'_>, resources: Resources<'_>) -> Result<Compiled, Errors> {
    let images = target.images;
    let units = images.units();
    if units.is_empty() {
        return Ok(Compiled::default());
    }
    let code = code(target, &images.stem(), resources);
    let job = job(target, None, images.stem(), &code, resources);
    if resources.link.request.options.diagnosing {
        // LLVM would end this process, so others compile.
        return culprit::search(&job, &images.stem(), resources.link).map(|()| Compiled::default());
    }
    let cache = resources.result_cache;
    let key = cache.object_key(&job, &code);
    let instructions = target.estimated_instructions();
    let named = NamedJob { job: &job, described: &images.name, label: job_run::WHOLE_PROGRAM, instructions, id: None };
    if let Some(found) = cache.get::<Compiled>(key.as_ref()) {
        named.was_cached(found.code_bytes(), resources);
        return Ok(found);
    }
    let _linking = span::traced("Link device input", || images.name.clone());
    let program = target
        .take_program()
        .map_or_else(|| OwnedProgram::load(&units, Machine::Amdgpu), Ok)
        .map_err(Errors::from_iter)?;
    let names: Vec<_> = units.iter().map(|unit| NamedBitcode { name: unit.name(), bitcode: unit.bitcode() }).collect();
    let begun = Instant::now();
    let compiled: Result<Compiled, Errors> = program.compile(&(), |session, modules, ()| {
        let versions = modules.iter().map(amdgpu::code_object_version).collect::<Vec<_>>();
        same_version(&versions, &names_of(&units))?;
        let module = job.optimize(session, modules, &names, &|| None)?;
        let object = match code.emit(session, &module, true)? {
            PartitionCode::Object(object, _) => Some(object),
            PartitionCode::Calls(_) => None,
        };
        Ok(Compiled { object, messages: session.take_messages(), ..Compiled::default() })
    });
    let compiled = compiled?;
    let (llvm_seconds, llvm_peak) = (begun.elapsed().as_secs_f64(), memory::own_peak());
    let cubin_bytes = compiled.code_bytes();
    named.ran_here(JobStat { llvm_seconds, llvm_peak, cubin_bytes, ..JobStat::default() }, resources);
    if !resources.link.request.mode.dry {
        cache.put(key.as_ref(), &compiled);
    }
    Ok(compiled)
}

fn code(target: &PlannedTarget<'_>, name: &str, resources: Resources<'_>) -> AmdCode {
    let images = target.images;
    AmdCode {
        target: images.target.clone(),
        internalizes: images.options.named_input.is_none(),
        object: resources.link.temp_files.file(&format!("{name}.o")),
    }
}

fn job(
    target: &PlannedTarget<'_>,
    partition: Option<&Partition>,
    name: String,
    code: &AmdCode,
    resources: Resources<'_>,
) -> CompileJob {
    let temp_files = resources.link.temp_files;
    let parts = partition.map_or(&[][..], |partition| &partition.parts);
    let file = target.unit_file.as_ref();
    let stage = |stage: &str| temp_files.file(&format!("{name}.{stage}.bc"));
    let request = resources.link.request;
    CompileJob {
        llvm_options: amd_options::all_llvm_options(request.options, request.device),
        units: file.map(|file| file.path.clone()).unwrap_or_default(),
        ranges: file.map(|file| file.ranges_of(parts)).unwrap_or_default(),
        parts: unit_file::renumbered(parts),
        promoted: target.promoted.clone(),
        keep: partition.map_or_else(|| target.keep.clone(), |partition| partition.keep.clone()),
        code: TargetCode::Amdgpu(code.clone()),
        keep_stages: temp_files.folder().is_none().then(|| (stage("merged"), stage("opt"))),
        kept: None,
        traced: recording::is_on(),
        name,
    }
}

impl Compiled {
    /// Size of the object in bytes.
    fn code_bytes(&self) -> u64 {
        self.object.as_ref().map_or(0, |object| object.len() as u64)
    }
}
