//! Plans the device link of one AMD GPU target: reads the code, resolves its symbols, and cuts it into partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use llvm_passes::OwnedProgram;
use llvm_passes::amdgpu::AmdFacts;
use llvm_passes::partition::{self, Cut, Grain, Grouping, Partition, Rules};
use llvm_passes::program::{Machine, Program};
use llvm_passes::reference_graph;
use llvm_passes::unit::Unit;
use rayon::prelude::*;

use crate::cli::values::Partitioning;
use crate::diag::error::{Errors, collect};
use crate::diag::messages;
use crate::lto::code_object::{AmdImages, same_version};
use crate::lto::job_run::Resources;
use crate::lto::private_images::PrivateImages;
use crate::lto::unit_file::{self, UnitFile};
use crate::plan::link_context::LinkContext;
use crate::plan::report::{JobReport, SymbolReport};
use crate::profile::span;

/// A program with less bitcode than this, in bytes, is compiled in one piece; its references are not read.
const MIN_PARTITIONED_BYTES: usize = 192 << 10;

/// A target whose device link is planned.
pub struct PlannedTarget<'a> {
    /// The code.
    pub images: &'a AmdImages<'a>,
    /// Empty for a program that is compiled in one piece.
    pub partitions: Vec<Partition>,
    /// Linkonce definitions, with their units, that prevail over later weak ones.
    pub promoted: Vec<(usize, String)>,
    /// Names that objects among the images define or reference.
    pub keep: BTreeSet<String>,
    /// The file of the units, if workers read it.
    pub unit_file: Option<UnitFile>,
    /// The open program, if it is compiled in one piece. The job that compiles it takes it.
    program: Mutex<Option<OwnedProgram>>,
    prevailing: BTreeMap<String, usize>,
    /// Why it is compiled in one piece, if there is a reason beside its size.
    not_cut: Option<String>,
}

impl<'a> PlannedTarget<'a> {
    /// Reads the code and plans its link. `private` is the private copy of the images, if there is one.
    ///
    /// # Errors
    /// Errors in the images or their symbols.
    pub fn plan(
        images: &'a AmdImages<'a>,
        private: Option<&PrivateImages>,
        resources: Resources<'_>,
    ) -> Result<Self, Errors> {
        // A dry run links nothing.
        if !resources.link.request.mode.dry {
            images.require_objects()?;
        }
        if !images.options.traced.is_empty() {
            let symbols = images.symbols(&|unit| Ok(reference_graph::symbols(&unit.amd_facts()?.graph)))?;
            images.trace(&symbols, resources.link.request.program);
        }
        let not_cut = match grain(images, resources) {
            Some(grain) => match Self::plan_partitioned(images, grain, private, resources)? {
                Ok(planned) => return Ok(planned),
                Err(reason) => reason,
            },
            None => {
                let reason = images.options.why_one_piece();
                reason.iter().for_each(|reason| note(images, reason, resources.link));
                reason
            }
        };
        Self::plan_whole(images, private, not_cut, resources)
    }

    /// Plans a link in partitions. The inner error is the reason why the program must be compiled in one piece, if there is one
    /// beside its size.
    fn plan_partitioned(
        images: &'a AmdImages<'a>,
        grain: Grain,
        private: Option<&PrivateImages>,
        resources: Resources<'_>,
    ) -> Result<Result<Self, Option<String>>, Errors> {
        let units = images.units();
        let facts = collect(units.par_iter().map(|unit| facts(unit)).collect::<Vec<_>>())?;
        same_version(&facts.iter().map(|facts| facts.version).collect::<Vec<_>>(), &names_of(&units))?;
        let symbols = images.symbols(&|unit| Ok(reference_graph::symbols(&unit.amd_facts()?.graph)))?;
        let resolution = images.resolve(&symbols)?;
        let exported: BTreeSet<String> = facts.iter().flat_map(|unit| unit.exported.iter().cloned()).collect();
        let prevailing = |name: &str| images.unit_of(*resolution.prevailing.get(name)?);
        let graphs = facts.iter().map(|facts| &facts.graph).collect();
        let program = Program::on(Machine::Amdgpu, graphs, unit_file::tags(&units), &prevailing, &exported);
        // Partitions of a relocatable object are those of its unit, whichever program links it.
        let grouping = if resources.result_cache.cuts_all() { Grouping::AlwaysUnits } else { Grouping::Program };
        let cut = partition::cut(&program, Rules { grain, grouping }, &BTreeSet::new());
        let duplicated = cut.duplicated();
        let Cut { partitions, distinct, monolithic, .. } = cut;
        if partitions.is_empty() {
            let reason = monolithic.map(|reason| {
                let unit = reason.unit.map_or_else(String::new, |unit| format!("{}: ", units[unit].name()));
                format!("{unit}{}", reason.reason)
            });
            reason.iter().for_each(|reason| note(images, reason, resources.link));
            return Ok(Err(reason));
        }
        resources.link.recorder.cut(partitions.len(), distinct, duplicated);
        let prevailing = resolution.prevailing;
        let unit_file = Some(write_units(images, private, resources.link)?);
        let (promoted, keep, program) = (Vec::new(), BTreeSet::new(), Mutex::default());
        Ok(Ok(PlannedTarget { images, partitions, promoted, keep, unit_file, program, prevailing, not_cut: None }))
    }

    /// Plans a link in one piece.
    ///
    /// # Errors
    /// As [`PlannedTarget::plan`].
    pub fn plan_whole(
        images: &'a AmdImages<'a>,
        private: Option<&PrivateImages>,
        not_cut: Option<String>,
        resources: Resources<'_>,
    ) -> Result<Self, Errors> {
        let units = images.units();
        let program = {
            let _reading = span::traced("Read symbols", || images.name.clone());
            OwnedProgram::load(&units, Machine::Amdgpu).map_err(Errors::from_iter)?
        };
        // ld.lld resolves the names of objects alone.
        let symbols = match units.is_empty() {
            true => Vec::new(),
            false => images.symbols(&|unit| Ok(unit.used_symbols()?.to_vec()))?,
        };
        let resolution = images.resolve(&symbols)?;
        let promoted = resolution.linkonce_over_weak.iter();
        let promoted = promoted.filter_map(|(name, image)| Some((images.unit_of(*image)?, name.clone()))).collect();
        let (mut keep, prevailing) = (images.names_of_objects(&symbols), resolution.prevailing);
        keep.extend(images.options.roots.iter().cloned());
        // The cache needs hashes of the units, and has a private copy of them.
        let is_needed = resources.link.request.options.diagnosing || private.is_some();
        resources.link.recorder.cut(usize::from(!units.is_empty()), 0, 0);
        let unit_file = is_needed.then(|| write_units(images, private, resources.link)).transpose()?;
        let (partitions, program) = (Vec::new(), Mutex::new(Some(program)));
        Ok(PlannedTarget { images, partitions, promoted, keep, unit_file, program, prevailing, not_cut })
    }

    /// Takes the open program. Returns `None` if there is none, or if a job has taken it already.
    pub fn take_program(&self) -> Option<OwnedProgram> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Number of jobs that compile it.
    pub fn job_count(&self) -> usize {
        self.partitions.len().max(1)
    }

    /// An estimate of the instructions of a program that is compiled in one piece: one takes about eight bytes of bitcode.
    pub fn estimated_instructions(&self) -> u64 {
        self.images.bitcode_bytes() as u64 / 8
    }

    /// Why it is compiled in one piece, if there is a reason beside its size.
    pub fn not_cut(&self) -> Option<&str> {
        self.not_cut.as_deref()
    }

    /// The prevailing definition of each symbol, for the plan.
    ///
    /// # Errors
    /// Unreadable bitcode.
    pub fn symbol_reports(&self) -> Result<Vec<SymbolReport>, Errors> {
        let facts = collect(self.images.units().into_iter().map(facts))?;
        let exported: BTreeSet<&String> = facts.iter().flat_map(|facts| &facts.exported).chain(&self.keep).collect();
        let symbols = self.prevailing.iter().map(|(symbol, image)| SymbolReport {
            symbol: symbol.clone(),
            image: *image,
            visible: exported.contains(symbol),
        });
        Ok(symbols.collect())
    }

    /// The jobs, for the plan.
    pub fn job_reports(&self) -> Vec<JobReport> {
        let units = self.images.units().len();
        if self.partitions.is_empty() {
            let instructions = self.estimated_instructions();
            let whole = JobReport { runs_in: "thread", kernels: Vec::new(), instructions, units };
            return if units == 0 { Vec::new() } else { vec![whole] };
        }
        self.partitions.iter().map(|partition| JobReport::of(partition, units)).collect()
    }
}

/// The names of units in messages.
pub fn names_of<'u>(units: &[&'u Unit<'_>]) -> Vec<&'u str> {
    units.iter().map(|unit| unit.name()).collect()
}

fn facts<'u>(unit: &'u Unit<'_>) -> Result<&'u AmdFacts, Errors> {
    let _reading = span::traced("Read symbols", || unit.name().to_owned());
    Ok(unit.amd_facts()?)
}

/// Prints why a program is compiled in one piece. As a shell comment, so that the output can be pasted into a shell.
pub fn note(images: &AmdImages<'_>, reason: &str, context: &LinkContext<'_>) {
    if context.request.mode.show {
        messages::show(format_args!(" # {}: not cut into jobs: {reason}", images.name));
    }
}

fn write_units(
    images: &AmdImages<'_>,
    private: Option<&PrivateImages>,
    context: &LinkContext<'_>,
) -> Result<UnitFile, Errors> {
    let is_unit: Vec<bool> = images.images.iter().map(|image| image.unit.is_some()).collect();
    let private = private.map(|private| (private, &*is_unit));
    UnitFile::of(&images.units(), &images.stem(), private, context.temp_files)
}

/// Whether the program is large enough to be cut into partitions.
pub fn may_be_cut(images: &AmdImages<'_>, resources: Resources<'_>) -> bool {
    grain(images, resources).is_some()
}

/// How large partitions are; `None` for a program that is compiled in one piece anyway.
fn grain(images: &AmdImages<'_>, resources: Resources<'_>) -> Option<Grain> {
    if images.options.is_one_piece() || images.has_objects() {
        return None;
    }
    let least = if resources.result_cache.cuts_all() { 0 } else { MIN_PARTITIONED_BYTES };
    match resources.link.request.options.partitioning {
        Partitioning::Usual => (images.bitcode_bytes() >= least).then_some(Grain::Usual),
        Partitioning::Size(size) => Some(Grain::Exactly(size)),
        Partitioning::Whole => None,
    }
}
