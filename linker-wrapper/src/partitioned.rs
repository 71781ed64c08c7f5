//! The device link of one target in partitions: jobs that are independent of each other, each in a process of its
//! own, whose machine code nvlink joins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use llvm_passes::extract::UnitPart;
use llvm_passes::partition::{self, Cut, Partition};
use llvm_passes::pipeline::{self, Unit};
use llvm_passes::program::Program;
use llvm_passes::resolve::UnitSymbols;
use llvm_passes::session::Session;
use llvm_passes::summary::{self, Summary};
use offload_bundle::arch::GpuArch;
use rayon::prelude::*;

use crate::backend::choose::Inputs;
use crate::backend::{Piece, Source};
use crate::device_library::DeviceLibrary;
use crate::device_link::{self, Libdevice, LinkedTarget, Surroundings};
use crate::error::{Errors, collect, warn};
use crate::plan::TargetPlan;
use crate::report;
use crate::scratch::Scratch;
use crate::trace;
use crate::worker::{self, Emission, UnitRange, Work};

/// Less bitcode than this is one job in any case, and is not looked at twice.
const SMALL: usize = 192 << 10;

/// How device code is cut into jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Partitioning {
    /// As is usually best.
    #[default]
    Usual,
    /// Into jobs of about so many instructions.
    Size(u64),
    /// Not at all.
    Whole,
}

impl Partitioning {
    /// Reads the value of `--offload-partition-size=`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "whole" => Some(Partitioning::Whole),
            _ => text.parse().ok().filter(|size| *size > 0).map(Partitioning::Size),
        }
    }

    /// Instructions of a job; `None`: there is one job.
    fn grain(self, units: &[Unit<'_>]) -> Option<u64> {
        let bytes: usize = units.iter().map(|unit| unit.bitcode.len()).sum();
        match self {
            Partitioning::Usual => (bytes >= SMALL).then_some(partition::USUAL_GRAIN),
            Partitioning::Size(size) => Some(size),
            Partitioning::Whole => None,
        }
    }
}

/// Kernels that are named in messages about a partition.
const KERNELS_SHOWN: usize = 3;

/// A target that was cut.
pub struct CutTarget<'a> {
    target: &'a TargetPlan<'a>,
    cut: Cut,
    /// All bitcode of the target, one unit behind the other.
    units: PathBuf,
    ranges: Vec<UnitRange>,
    libdevice: Libdevice,
    library: Option<DeviceLibrary>,
    /// What the tool that makes the machine code must be able to do.
    needs: Inputs,
}

impl CutTarget<'_> {
    /// Its jobs.
    pub fn partitions(&self) -> &[Partition] {
        &self.cut.partitions
    }
}

/// Cuts a target, if that is worth it.
///
/// # Errors
/// What is wrong with its images or its symbols.
pub fn cut<'a>(target: &'a TargetPlan<'a>, around: &Surroundings<'_>) -> Result<Option<CutTarget<'a>>, Errors> {
    let names: Vec<String> = target.images.iter().map(|image| image.origin.to_string()).collect();
    let units = device_link::units(target, &names);
    let Some(grain) = around.partitioning.grain(&units).filter(|_| around.ptx.is_empty()) else { return Ok(None) };
    let summaries = summaries(&units)?;
    let bitcode = |unit: usize| UnitSymbols { symbols: summary::symbols(&summaries[unit]) };
    let symbols = device_link::all_symbols(target, &bitcode)?;
    let libdevice = Libdevice::new(around.libdevice.clone());
    let users = |image: usize, name: &str| {
        let unit = device_link::unit_of(image, target);
        unit.map(|unit| users_of(&summaries[unit], name)).unwrap_or_default()
    };
    let (resolution, library) = device_link::resolve_names(target, &symbols, &libdevice, &users, around)?;
    let mut keep = device_link::kept_names(target, &symbols, around.registered);
    keep.extend(library.iter().flat_map(|library| library.defines.iter().cloned()));
    let prevailing = |name: &str| device_link::unit_of(*resolution.prevailing.get(name)?, target);
    let program = Program::new(&summaries, tags(&units), &prevailing, &keep);
    let cutting = trace::scope("Partition", || target.arch.to_string());
    let cut = partition::cut(&program, grain);
    drop(cutting);
    if cut.partitions.is_empty() {
        return Ok(None);
    }
    device_link::keep_inputs(target, around.scratch)?;
    let (path, ranges) = write_units(&units, target.arch, around.scratch)?;
    let needs = device_link::needs(target, cut.partitions.len(), library.is_some());
    // Said before the long work is done.
    around.backends.choose(&needs)?;
    Ok(Some(CutTarget { target, cut, units: path, ranges, libdevice, library, needs }))
}

/// What every unit says of itself.
fn summaries(units: &[Unit<'_>]) -> Result<Vec<Summary>, Errors> {
    let read = |unit: &Unit<'_>| {
        let _reading = trace::scope("Read symbols", || unit.name.to_owned());
        let session = Session::new();
        let module = session.read(unit.name, unit.bitcode).map_err(Errors::one)?;
        pipeline::require_nvptx(std::slice::from_ref(&module), &[*unit]).map_err(Errors::all)?;
        Ok(summary::of_module(&module))
    };
    let summaries: Vec<_> = units.par_iter().map(read).collect();
    collect(summaries)
}

fn users_of(summary: &Summary, name: &str) -> Vec<String> {
    let refers = |global: &&summary::Global| {
        global.references.iter().any(|reference| summary.globals[reference.to as usize].name == name)
    };
    summary.globals.iter().filter(refers).map(|global| global.name.clone()).collect()
}

/// Names for units that depend on nothing but their content, and differ.
fn tags(units: &[Unit<'_>]) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let hashes: Vec<String> = units.par_iter().map(|unit| summary::short_hash(unit.bitcode)).collect();
    let tag = |hash: String| {
        let count = seen.entry(hash.clone()).or_default();
        *count += 1;
        if *count == 1 { hash } else { format!("{hash}_{count}") }
    };
    hashes.into_iter().map(tag).collect()
}

fn write_units(units: &[Unit<'_>], arch: GpuArch, scratch: &Scratch) -> Result<(PathBuf, Vec<UnitRange>), Errors> {
    let mut content = Vec::with_capacity(units.iter().map(|unit| unit.bitcode.len()).sum());
    let mut ranges = Vec::with_capacity(units.len());
    for unit in units {
        ranges.push(UnitRange { name: unit.name.to_owned(), start: content.len(), length: unit.bitcode.len() });
        content.extend_from_slice(unit.bitcode);
    }
    Ok((scratch.write(&format!("{arch}.units"), &content)?, ranges))
}

/// Compiles one partition to machine code for all targets that get some of it.
///
/// # Errors
/// What LLVM or ptxas says.
pub fn compile(cut: &CutTarget<'_>, index: usize, around: &Surroundings<'_>) -> Result<Vec<Piece>, Errors> {
    let partition = &cut.partitions()[index];
    let stem = format!("{}.{index}", cut.target.arch);
    let what = described(partition, cut.target.arch);
    let archs = archs(cut.target.arch, around);
    let maker = around.backends.choose(&cut.needs)?;
    let work = work(cut, partition, &stem, &archs, around)?;
    let compiling = trace::scope("Compile partition", || format!("{stem}: {what}"));
    let reply = worker::compile(&work, &around.scratch.file(&format!("{stem}.json")), &what)?;
    drop(compiling);
    let warnings: BTreeSet<String> = reply.warnings.into_iter().collect();
    warnings.iter().for_each(|text| warn(around.program, format_args!("{}: {text}", cut.target.arch)));
    let runs = archs.iter().zip(&work.emissions).zip(&reply.debug_info);
    collect(runs.map(|((arch, emission), debug_info)| {
        let (name, input) = (what.clone(), emission.path.clone());
        let source = Source { arch: *arch, input, debug_info: *debug_info, joins: true, name };
        device_link::assemble(maker, source, around)
    }))
}

/// "the kernels 'a', 'b', 'c' and 4 more for sm_90".
fn described(partition: &Partition, arch: GpuArch) -> String {
    let kernels = &partition.kernels;
    if kernels.is_empty() {
        return format!("functions and variables that kernels share for {arch}");
    }
    let shown: Vec<String> = kernels.iter().take(KERNELS_SHOWN).map(|name| report::named(name)).collect();
    let more = kernels.len().saturating_sub(KERNELS_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let noun = if kernels.len() == 1 { "kernel" } else { "kernels" };
    format!("the {noun} {}{more} for {arch}", shown.join(", "))
}

/// The targets that get machine code of this target's code, its own first.
fn archs(own: GpuArch, around: &Surroundings<'_>) -> Vec<GpuArch> {
    let mut archs: Vec<GpuArch> =
        around.sass.iter().filter(|entry| entry.from == own).map(|entry| entry.arch).collect();
    archs.sort_by_key(|arch| *arch != own);
    archs
}

fn work(
    cut: &CutTarget<'_>,
    partition: &Partition,
    stem: &str,
    archs: &[GpuArch],
    around: &Surroundings<'_>,
) -> Result<Work, Errors> {
    let maker = around.backends.choose(&cut.needs)?;
    let version = |arch: GpuArch| maker.ptx_version(arch).map(|version| (version.major, version.minor));
    let emission = |arch: &GpuArch| {
        let path = around.scratch.file(&format!("{stem}.{arch}.ptx"));
        Ok(Emission { arch: arch.to_string(), version: version(*arch)?, path })
    };
    let parts = partition.parts.iter().enumerate();
    let stages = |stage: &str| around.scratch.file(&format!("{stem}.{stage}.bc"));
    Ok(Work {
        arch: cut.target.arch.to_string(),
        version: version(cut.target.arch)?,
        level: around.options.level,
        llvm_options: around.options.llvm_options.clone(),
        units: cut.units.clone(),
        ranges: partition.parts.iter().map(|part| cut.ranges[part.unit].clone()).collect(),
        parts: parts.map(|(place, part)| UnitPart { unit: place, takes: part.takes.clone() }).collect(),
        keep: partition.keep.clone(),
        libdevice: cut.libdevice.path().map(PathBuf::from),
        emissions: collect(archs.iter().map(emission))?,
        keep_stages: around.scratch.folder().is_none().then(|| (stages("merged"), stages("opt"))),
    })
}

/// Joins the machine code of all partitions.
///
/// # Errors
/// What nvlink says.
pub fn join(cut: &CutTarget<'_>, pieces: Vec<Vec<Piece>>, around: &Surroundings<'_>) -> Result<LinkedTarget, Errors> {
    let mut by_arch: BTreeMap<GpuArch, Vec<Piece>> = BTreeMap::new();
    for piece in pieces.into_iter().flatten() {
        by_arch.entry(piece.arch).or_default().push(piece);
    }
    let joined = by_arch.into_iter().map(|(arch, pieces)| {
        let joined = device_link::join(cut.target, arch, pieces, cut.library.as_ref(), &cut.needs, around)?;
        Ok((arch, joined))
    });
    Ok(LinkedTarget { sass: collect(joined)?, ptx: Vec::new() })
}
