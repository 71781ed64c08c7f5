//! Links the code of AMD GPU targets: plans each, compiles the parts of all targets as jobs of one queue, the longest first, and joins
//! each target.

use std::collections::BTreeSet;

use llvm_passes::amdgpu::{self, PartitionCode};
use llvm_passes::partition::{self, Cut, Grain, Partition};
use llvm_passes::pipeline::NamedBitcode;
use llvm_passes::program::{Machine, Program};
use llvm_passes::reference_graph::{self, ReferenceGraph};
use llvm_passes::session::{Session, Warning};
use offload_bundle::FormatError;
use offload_bundle::amdgpu::{Metadata, PartObject, Registers, metadata_object};
use rayon::prelude::*;

use crate::cli::values::Partitioning;
use crate::diag::error::{Errors, collect};
use crate::diag::messages;
use crate::lto::code_object::{AmdImages, CodeObject, same_version};
use crate::lto::error::Error;
use crate::plan::link_context::LinkContext;
use crate::profile::span;
use crate::sys::job_queue;
use crate::toolchain::llvm_tools;

/// A program with less bitcode than this, in bytes, is compiled in one piece; its references are not read.
const MIN_PARTITIONED_BYTES: usize = 192 << 10;

/// A target and how it is compiled.
struct Planned<'a> {
    images: &'a AmdImages<'a>,
    names: Vec<String>,
    /// Empty for a program that is compiled in one piece.
    partitions: Vec<Partition>,
}

/// Links all targets; the results are in their order.
///
/// # Errors
/// All errors in the images, and those that LLVM and ld.lld report.
pub fn link(targets: &[&AmdImages<'_>], context: &LinkContext<'_>) -> Result<Vec<CodeObject>, Errors> {
    // Fails before the long work.
    llvm_tools::lld(&context.request.options.parts)?;
    let plan = || targets.par_iter().map(|images| Planned::new(images, context)).collect::<Vec<_>>();
    let planned = collect(context.recorder.phase("symbols and partitions", plan))?;
    let jobs: Vec<Job<'_>> = planned.iter().flat_map(Planned::jobs).collect();
    let run = || job_queue::longest_first(&jobs, context.limit, |_, job| job.run(context));
    let mut compiled = context.recorder.phase("device code", run)?.into_iter();
    let parts: Vec<(&Planned<'_>, Vec<Compiled>)> =
        planned.iter().map(|target| (target, compiled.by_ref().take(target.job_count()).collect())).collect();
    let join = |(target, parts): (&Planned<'_>, Vec<Compiled>)| target.join(parts, context);
    collect(context.recorder.phase("joining", || parts.into_par_iter().map(join).collect::<Vec<_>>()))
}

/// One partition, or a whole program.
struct Job<'j> {
    target: &'j Planned<'j>,
    partition: Option<&'j Partition>,
    /// Its index among the partitions of the target.
    number: usize,
}

/// The result of a job.
struct Compiled {
    /// `None`: the partition needs functions of others.
    objects: Option<Vec<Vec<u8>>>,
    warnings: Vec<Warning>,
}

impl job_queue::Job for Job<'_> {
    fn cost(&self) -> u64 {
        // An instruction takes about eight bytes of bitcode.
        self.partition.map_or_else(|| self.target.images.bitcode_bytes() as u64 / 8, |partition| partition.instructions)
    }

    fn is_one_of_many(&self) -> bool {
        self.partition.is_some()
    }
}

impl Job<'_> {
    fn run(&self, context: &LinkContext<'_>) -> Result<Compiled, Errors> {
        let images = self.target.images;
        let Some(partition) = self.partition else {
            let (objects, warnings) = images.compile_whole(context)?;
            return Ok(Compiled { objects: Some(objects), warnings });
        };
        let _compiling = span::traced("Compile partition", || partition.kernels.first().cloned().unwrap_or_default());
        let session = Session::new();
        let units: Vec<NamedBitcode<'_>> = images.units(&self.target.names);
        let (parts, keep) = (&partition.parts, &partition.keep);
        let objects = match amdgpu::compile_partition(&session, &units, parts, keep, self.number, &images.target)? {
            PartitionCode::Object(object) => Some(vec![object]),
            PartitionCode::Calls(functions) => {
                note(images, &format!("a partition calls {} of another one", functions.join(", ")), context);
                None
            }
        };
        Ok(Compiled { objects, warnings: session.take_warnings() })
    }
}

/// Prints why a program is compiled in one piece. As a shell comment, so that the output can be pasted into a shell.
fn note(images: &AmdImages<'_>, reason: &str, context: &LinkContext<'_>) {
    if context.request.mode.show {
        messages::show(format_args!(" # {}: not cut into jobs: {reason}", images.name));
    }
}

impl<'a> Planned<'a> {
    fn new(images: &'a AmdImages<'a>, context: &LinkContext<'_>) -> Result<Self, Errors> {
        let names = images.names();
        let partitions = match grain(images, context) {
            Some(grain) => Self::cut(images, &names, grain, context)?,
            None => Vec::new(),
        };
        Ok(Planned { images, names, partitions })
    }

    fn cut(
        images: &AmdImages<'_>,
        names: &[String],
        grain: Grain,
        context: &LinkContext<'_>,
    ) -> Result<Vec<Partition>, Errors> {
        let units = images.units(names);
        let facts = collect(units.par_iter().map(UnitFacts::read).collect::<Vec<_>>())?;
        same_version(&facts.iter().map(|unit| unit.version).collect::<Vec<_>>(), names)?;
        let symbols = images.symbols(&mut facts.iter().map(|unit| reference_graph::symbols(&unit.graph)))?;
        let users = |unit: usize, name: &str| reference_graph::users_of(&facts[unit].graph, name);
        let resolution = images.resolve(&symbols, &users)?;
        let exported: BTreeSet<String> = facts.iter().flat_map(|unit| unit.exported.iter().cloned()).collect();
        let prevailing = |name: &str| images.unit_of(*resolution.prevailing.get(name)?);
        let graphs = facts.iter().map(|unit| &unit.graph).collect();
        let program = Program::on(Machine::Amdgpu, graphs, tags(&units), &prevailing, &exported);
        let Cut { partitions, distinct, monolithic } = partition::cut(&program, grain);
        if let Some(reason) = &monolithic {
            let unit = reason.unit.map_or_else(String::new, |unit| format!("{}: ", names[unit]));
            note(images, &format!("{unit}{}", reason.reason), context);
        }
        if !partitions.is_empty() {
            let placed: u64 = partitions.iter().map(|partition| partition.instructions).sum();
            context.recorder.cut(partitions.len(), distinct, placed.saturating_sub(distinct));
        }
        Ok(partitions)
    }

    fn jobs(&self) -> Vec<Job<'_>> {
        if self.partitions.is_empty() {
            return vec![Job { target: self, partition: None, number: 0 }];
        }
        let job = |(number, partition)| Job { target: self, partition: Some(partition), number };
        self.partitions.iter().enumerate().map(job).collect()
    }

    fn job_count(&self) -> usize {
        self.partitions.len().max(1)
    }

    /// Makes the code object. A program whose partitions do not fit together is compiled in one piece.
    fn join(&self, parts: Vec<Compiled>, context: &LinkContext<'_>) -> Result<CodeObject, Errors> {
        let mut warnings: Vec<Warning> = parts.iter().flat_map(|part| part.warnings.clone()).collect();
        let objects: Option<Vec<Vec<u8>>> =
            parts.into_iter().map(|part| part.objects).collect::<Option<Vec<_>>>().map(|all| all.concat());
        let fitted = match objects {
            Some(objects) if self.partitions.is_empty() => Some(objects),
            Some(objects) => match fit_together(objects) {
                Ok(objects) => Some(objects),
                Err(reason) => {
                    note(self.images, &reason.to_string(), context);
                    None
                }
            },
            None => None,
        };
        let objects = match fitted {
            Some(objects) => objects,
            None => {
                let (objects, found) = self.images.compile_whole(context)?;
                warnings = found;
                objects
            }
        };
        Ok(CodeObject { bytes: self.images.join(&objects, context)?, warnings })
    }
}

/// Makes objects of one program fit together: kernels that call unknown functions get the registers of all functions that they may call,
/// and the metadata of all objects becomes that of one.
///
/// # Errors
/// Objects that cannot be joined soundly.
fn fit_together(objects: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, FormatError> {
    let read = |(number, bytes)| PartObject::new(bytes, &format!("{}.{number}", amdgpu::PROBE));
    let mut parts = objects.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    let functions = parts.iter().map(PartObject::function_registers).fold(Registers::default(), Registers::max);
    parts.iter_mut().for_each(|part| part.raise(functions));
    let split = parts.into_iter().map(PartObject::split).collect::<Result<Vec<_>, _>>()?;
    let (mut objects, metadata): (Vec<Vec<u8>>, Vec<Metadata>) = split.into_iter().unzip();
    let joined = Metadata::join(metadata).ok_or_else(PartObject::different)?;
    let object = metadata_object(&joined, objects.first().map_or(&[], Vec::as_slice))?;
    objects.push(object);
    Ok(objects)
}

/// What is read of a unit before the program is cut.
struct UnitFacts {
    graph: ReferenceGraph,
    exported: BTreeSet<String>,
    version: Option<u64>,
}

impl UnitFacts {
    fn read(unit: &NamedBitcode<'_>) -> Result<Self, Errors> {
        let _reading = span::traced("Read symbols", || unit.name.to_owned());
        let session = Session::new();
        let modules = amdgpu::read_units(&session, std::slice::from_ref(unit)).map_err(Errors::from_iter)?;
        let module = modules.first().ok_or_else(|| Error::NoModule { unit: unit.name.to_owned() })?;
        Ok(UnitFacts {
            graph: reference_graph::of_module(module),
            exported: amdgpu::exported(module),
            version: amdgpu::code_object_version(module),
        })
    }
}

/// How large partitions are; `None` for a program that is compiled in one piece anyway.
fn grain(images: &AmdImages<'_>, context: &LinkContext<'_>) -> Option<Grain> {
    if images.options.names_inputs() || images.has_objects() || context.request.options.diagnosing {
        return None;
    }
    match context.request.options.partitioning {
        Partitioning::Usual => (images.bitcode_bytes() >= MIN_PARTITIONED_BYTES).then_some(Grain::Usual),
        Partitioning::Size(size) => Some(Grain::Exactly(size)),
        Partitioning::Whole => None,
    }
}

/// Names the units by their content alone, each differently.
fn tags(units: &[NamedBitcode<'_>]) -> Vec<String> {
    let hashes: Vec<String> =
        units.par_iter().map(|unit| blake3::hash(unit.bitcode).to_hex()[..16].to_owned()).collect();
    let before = |place: usize| hashes[..place].iter().filter(|hash| **hash == hashes[place]).count();
    let tag = |place: usize| match before(place) {
        0 => hashes[place].clone(),
        count => format!("{}_{}", hashes[place], count + 1),
    };
    (0..hashes.len()).map(tag).collect()
}
