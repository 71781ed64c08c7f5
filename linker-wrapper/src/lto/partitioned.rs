//! The device link of one target in partitions: jobs that are independent of each other, each in a process of its
//! own, whose machine code nvlink joins.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use llvm_passes::partition::{self, Cut, Grain, Partition};
use llvm_passes::pipeline::{self, NamedBitcode};
use llvm_passes::program::Program;
use llvm_passes::reference_graph::{self, ReferenceGraph};
use llvm_passes::resolve::UnitSymbols;
use llvm_passes::session::Session;
use offload_bundle::arch::GpuArch;
use offload_bundle::ptx;
use rayon::prelude::*;

use crate::cli::values::Partitioning;
use crate::codegen::DeviceObject;
use crate::device::cudadevrt::DeviceLibrary;
use crate::device::targets::{Code, TargetPlan};
use crate::diag::error::{Errors, collect};
use crate::diag::messages;
use crate::lto::device_link::{self, Libdevice, LinkedTarget, Surroundings};
use crate::lto::monolithic;
use crate::lto::partition_job::Made;
use crate::lto::private_images::{self, PrivateImages};
use crate::lto::result_cache::Results;
use crate::lto::worker::UnitRange;
use crate::plan::backend::CodegenNeeds;
use crate::profile::span;
use crate::sys::temp_files::TempFiles;

/// Less bitcode than this is one job in any case, and is not looked at twice.
const SMALL: usize = 192 << 10;

/// The size of a job; `None`: there is one job.
fn grain(partitioning: Partitioning, units: &[NamedBitcode<'_>]) -> Option<Grain> {
    let bytes: usize = units.iter().map(|unit| unit.bitcode.len()).sum();
    match partitioning {
        Partitioning::Usual => (bytes >= SMALL).then_some(Grain::Usual),
        Partitioning::Size(size) => Some(Grain::Exactly(size)),
        Partitioning::Whole => None,
    }
}

/// A target that was cut.
pub struct CutTarget<'a> {
    /// What is linked.
    pub target: &'a TargetPlan<'a>,
    /// All bitcode of the target, one unit behind the other.
    pub units: PathBuf,
    /// The units in there.
    pub ranges: Vec<UnitRange>,
    /// libdevice.
    pub libdevice: Libdevice,
    /// What the tool that makes the machine code must be able to do.
    pub needs: CodegenNeeds,
    cut: Cut,
    library: Option<DeviceLibrary>,
}

impl CutTarget<'_> {
    /// Its jobs.
    pub fn partitions(&self) -> &[Partition] {
        &self.cut.partitions
    }

    /// What the tool that makes the machine code must be able to do.
    pub fn needs(&self) -> &CodegenNeeds {
        &self.needs
    }
}

/// Cuts a target, if that is worth it. `private` is the copy that the images are in, if there is one.
///
/// # Errors
/// What is wrong with its images or its symbols.
pub fn cut<'a>(
    target: &'a TargetPlan<'a>,
    private: Option<&PrivateImages>,
    around: &Surroundings<'_>,
) -> Result<Option<CutTarget<'a>>, Errors> {
    let names: Vec<String> = target.images.iter().map(|image| image.origin.to_string()).collect();
    let units = device_link::units(target, &names);
    let Some(grain) = grain(around.partitioning, &units) else { return Ok(None) };
    let graphs = reference_graphs(&units, around.results)?;
    let bitcode = |unit: usize| UnitSymbols { symbols: reference_graph::symbols(&graphs[unit]) };
    let symbols = device_link::all_symbols(target, &bitcode)?;
    let libdevice = Libdevice::new(around.libdevice.clone());
    let users = |image: usize, name: &str| {
        let unit = device_link::unit_of(image, target);
        unit.map(|unit| reference_graph::users_of(&graphs[unit], name)).unwrap_or_default()
    };
    let (resolution, library) = device_link::resolve_names(target, &symbols, &libdevice, &users, around)?;
    let mut keep = device_link::kept_names(target, &symbols, around.registered);
    keep.extend(library.iter().flat_map(|library| library.defines.iter().cloned()));
    let prevailing = |name: &str| device_link::unit_of(*resolution.prevailing.get(name)?, target);
    let program = Program::new(graphs.iter().collect(), tags(&units), &prevailing, &keep);
    let cutting = span::traced("Partition", || target.arch.to_string());
    let cut = partition::cut(&program, grain);
    drop(cutting);
    if cut.partitions.is_empty() {
        if let Some(monolithic) = cut.monolithic.filter(|_| around.mode.show) {
            // A comment to the shell that the commands are pasted into.
            let name = monolithic.unit.map_or_else(String::new, |unit| format!("{}: ", units[unit].name));
            messages::show(format_args!(" # {}: not cut into jobs: {name}{}", target.arch, monolithic.reason));
        }
        return Ok(None);
    }
    around.recorder.cut(cut.partitions.len(), cut.distinct, cut.duplicated());
    device_link::keep_inputs(target, around.temp_files)?;
    let (path, ranges) = unit_file(target, &units, private, around.temp_files)?;
    let needs = device_link::needs(target, cut.partitions.len(), library.is_some(), around.options);
    // Said before the long work is done.
    around.backends.choose(&needs)?;
    Ok(Some(CutTarget { target, cut, units: path, ranges, libdevice, library, needs }))
}

/// The references within every unit.
fn reference_graphs(units: &[NamedBitcode<'_>], results: &Results) -> Result<Vec<ReferenceGraph>, Errors> {
    let read = |unit: &NamedBitcode<'_>| {
        let _reading = span::traced("Read symbols", || unit.name.to_owned());
        let session = Session::new();
        let module = session.read(unit.name, unit.bitcode).map_err(Errors::one)?;
        pipeline::require_nvptx(std::slice::from_ref(&module), &[*unit]).map_err(Errors::all)?;
        Ok(reference_graph::of_module(&module))
    };
    let graphs: Vec<_> = units.par_iter().map(|unit| results.references(unit.bitcode, || read(unit))).collect();
    collect(graphs)
}

/// Names for units that depend on nothing but their content, and differ.
fn tags(units: &[NamedBitcode<'_>]) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let hashes: Vec<String> = units.par_iter().map(|unit| reference_graph::short_hash(unit.bitcode)).collect();
    let tag = |hash: String| {
        let count = seen.entry(hash.clone()).or_default();
        *count += 1;
        if *count == 1 { hash } else { format!("{hash}_{count}") }
    };
    hashes.into_iter().map(tag).collect()
}

/// The file that holds the bitcode units of a target for the workers, and where each is in it.
fn unit_file(
    target: &TargetPlan<'_>,
    units: &[NamedBitcode<'_>],
    private: Option<&PrivateImages>,
    temp_files: &TempFiles,
) -> Result<(PathBuf, Vec<UnitRange>), Errors> {
    let bitcode: Vec<&[u8]> = units.iter().map(|unit| unit.bitcode).collect();
    let (path, places) = match private {
        Some(private) => {
            let all = private.ranges().iter().zip(&target.images);
            let of_units = all.filter(|(_, image)| image.code == Code::Bitcode).map(|(range, _)| range.clone());
            (private.path().to_owned(), of_units.collect())
        }
        None => private_images::write(&bitcode, target.arch, temp_files)?,
    };
    let hashes: Vec<_> = bitcode.par_iter().map(|bitcode| blake3::hash(bitcode).to_hex().to_string()).collect();
    let range = |((unit, hash), place): ((&NamedBitcode<'_>, String), Range<usize>)| UnitRange {
        name: unit.name.to_owned(),
        hash,
        start: place.start,
        length: place.len(),
    };
    Ok((path, units.iter().zip(hashes).zip(places).map(range).collect()))
}

/// Joins what the partitions gave.
///
/// # Errors
/// What nvlink says.
pub fn join(cut: &CutTarget<'_>, pieces: Vec<Made>, around: &Surroundings<'_>) -> Result<LinkedTarget, Errors> {
    let mut cubins: BTreeMap<GpuArch, Vec<DeviceObject>> = BTreeMap::new();
    let mut texts: BTreeMap<GpuArch, Vec<Vec<u8>>> = BTreeMap::new();
    let mut linked = LinkedTarget::default();
    for made in pieces {
        made.cubins.into_iter().for_each(|piece| cubins.entry(piece.arch).or_default().push(piece));
        made.ptx.into_iter().for_each(|(arch, text)| texts.entry(arch).or_default().push(text));
        linked.warnings.extend(made.warnings);
        linked.said.extend(made.said);
    }
    let joined = cubins.into_iter().map(|(arch, cubins)| {
        let joined = device_link::join(cut.target, arch, cubins, cut.library.as_ref(), &cut.needs, around)?;
        Ok((arch, joined))
    });
    linked.sass = collect(joined)?;
    let mut in_one_piece = Vec::new();
    for (arch, texts) in texts {
        match join_ptx(arch, texts, around) {
            Some(text) => linked.ptx.push((arch, text)),
            None => in_one_piece.push(arch),
        }
    }
    if !in_one_piece.is_empty() {
        linked.ptx.extend(monolithic::ptx(cut.target, &in_one_piece, around)?);
    }
    Ok(linked)
}

/// One PTX module of those of all partitions. `None`: these cannot be joined (they carry full debug information).
fn join_ptx(arch: GpuArch, texts: Vec<Vec<u8>>, around: &Surroundings<'_>) -> Option<Vec<u8>> {
    let _joining = span::traced("Join PTX", || arch.virtual_name());
    // Each has the lowest version that it needs: all need the highest of these.
    let version = texts.iter().filter_map(|text| ptx::version(text)).max()?;
    let texts: Vec<Vec<u8>> = texts.into_iter().map(|text| ptx::with_version(&text, version).unwrap_or(text)).collect();
    let parts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let joined = ptx::join::join(&parts).ok()?;
    around.temp_files.keep(&format!("{}.ptx", arch.virtual_name()), || joined.clone()).ok()?;
    Some(joined)
}
