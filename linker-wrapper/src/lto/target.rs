//! Reads the code of one target and plans its device link.

use std::sync::{Mutex, PoisonError};

use llvm_passes::OwnedProgram;
use llvm_passes::equal_kernels::Bodies;
use llvm_passes::partition::{Grain, Grouping, Rules};
use llvm_passes::reference_graph::{self, ReferenceGraph};
use llvm_passes::resolve::UnitSymbols;
use llvm_passes::symbols::Symbol;
use llvm_passes::unit::Unit;
use rayon::prelude::*;

use crate::cli::values::{KernelFolding, Partitioning};
use crate::device::targets::TargetImages;
use crate::diag::error::{Errors, collect};
use crate::diag::messages;
use crate::lto::context::LtoContext;
use crate::lto::private_images::PrivateImages;
use crate::lto::unit_file::{self, UnitFile};
use crate::machines::interface::{Machine, NameFacts, Planned};
use crate::plan::target_plan::{References, TargetFacts, TargetPlan};
use crate::profile::span;

/// A program with less bitcode than this, in bytes, is compiled in one piece; its references are not read.
const MIN_PARTITIONED_BYTES: usize = 192 << 10;
/// The same if units are cut by themselves for later links.
const MIN_SHARED_BYTES: usize = 48 << 10;

/// A target whose device link is planned, with what its jobs read.
pub struct PlannedTarget<'a, M: Machine> {
    /// The plan.
    pub planned: Planned<'a, M>,
    /// The open program, if it is compiled in this process. The job that compiles it takes it.
    program: Mutex<Option<OwnedProgram>>,
    /// The file of the units, if workers compile them.
    pub unit_file: Option<UnitFile>,
}

impl<'a, M: Machine> PlannedTarget<'a, M> {
    /// Reads the code and plans its link. `private` is the private copy of the images, if there is one.
    ///
    /// # Errors
    /// Errors in the images or their symbols, or no tool supports the link.
    pub fn new(
        images: &'a TargetImages<'a, M::Arch>,
        private: Option<&PrivateImages>,
        context: &LtoContext<'_, M>,
    ) -> Result<Self, Errors> {
        context.machine.check_images(images)?;
        let not_cut = match rules(images, context) {
            Some(rules) => match Self::cut(images, rules, private, context)? {
                Ok(planned) => return Ok(planned),
                Err(reason) => reason,
            },
            None => context.machine.one_piece(images).and_then(|one| one.reason),
        };
        let is_shown = context.link.request.mode.show && context.only_folded.is_none();
        if let Some(reason) = not_cut.as_ref().filter(|_| is_shown) {
            // Printed as a shell comment, so that the output can be pasted into a shell.
            messages::show(format_args!(" # {}: not cut into jobs: {reason}", images.arch));
        }
        Self::whole(images, not_cut, context)
    }

    /// Plans a link in partitions. The inner error is the reason why the program must be compiled in one piece, if there is one besides
    /// its size.
    fn cut(
        images: &'a TargetImages<'a, M::Arch>,
        rules: Rules,
        private: Option<&PrivateImages>,
        context: &LtoContext<'_, M>,
    ) -> Result<Result<Self, Option<String>>, Errors> {
        let units = images.units();
        let references = references(&units, Some(rules), context)?;
        context.machine.check_units(&units)?;
        let graphs = references.graphs.clone();
        let symbols = all_symbols(images, context, &|unit| Ok(reference_graph::symbols(graphs[unit])))?;
        let planned = plan(images, &symbols, Some(references), context)?;
        if planned.plan.is_whole() {
            return Ok(Err(planned.plan.not_cut));
        }
        save_inputs(images, context)?;
        let unit_file = Some(unit_file(images, private, context)?);
        Ok(Ok(PlannedTarget { planned, program: Mutex::default(), unit_file }))
    }

    /// Plans a link in one piece. `not_cut` is the reason, if there is one besides the size.
    ///
    /// # Errors
    /// As [`PlannedTarget::new`].
    pub fn whole(
        images: &'a TargetImages<'a, M::Arch>,
        not_cut: Option<String>,
        context: &LtoContext<'_, M>,
    ) -> Result<Self, Errors> {
        let (units, machine) = (images.units(), context.machine);
        save_inputs(images, context)?;
        // Read before the units are opened for the compilation.
        let request = context.request();
        let names_dead_kernels = request.is_printed && !request.dead.is_empty();
        let needs_references = context.folding() != KernelFolding::Off || names_dead_kernels;
        let references = needs_references.then(|| references(&units, None, context)).transpose()?;
        let program = {
            let _reading = span::traced("Read symbols", || images.arch.to_string());
            OwnedProgram::load(&units, machine.rules()).map_err(Errors::from_iter)?
        };
        let symbols = match machine.resolves(images) {
            true => all_symbols(images, context, &|unit| Ok(units[unit].used_symbols()?.to_vec()))?,
            false => Vec::new(),
        };
        let mut planned = plan(images, &symbols, references, context)?;
        planned.plan.not_cut = not_cut;
        let is_searched = context.link.request.options.diagnosing && !planned.plan.partitions.is_empty();
        let unit_file = is_searched.then(|| unit_file(images, None, context)).transpose()?;
        Ok(PlannedTarget { planned, program: Mutex::new(Some(program)), unit_file })
    }

    /// Adds the figures of the plan to the statistics.
    pub fn record(&self, context: &LtoContext<'_, M>) {
        let (plan, recorder) = (&self.planned.plan, context.link.recorder);
        let counted = plan.instructions.filter(|_| !plan.is_whole());
        let (distinct, duplicated) = counted.unwrap_or_default();
        recorder.cut(plan.partitions.len(), distinct, duplicated);
        recorder.folded(plan.folding.folded.len());
    }

    /// Takes the open program. Returns `None` if workers compile it, or if a job has taken it already.
    pub fn take_program(&self) -> Option<OwnedProgram> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Resolves the names of a target, and plans its link.
fn plan<'a, M: Machine>(
    images: &'a TargetImages<'a, M::Arch>,
    symbols: &[UnitSymbols],
    references: Option<References<'_>>,
    context: &LtoContext<'_, M>,
) -> Result<Planned<'a, M>, Errors> {
    let (machine, request) = (context.machine, context.request());
    let users = |image: usize, name: &str| {
        let unit = images.images.get(image).and_then(|image| image.unit);
        let graph = unit.and_then(|unit| unit.graph(machine.rules()).ok());
        graph.map(|graph| reference_graph::users_of(graph, name)).unwrap_or_default()
    };
    let may_be_cut = references.as_ref().is_some_and(|references| references.rules.is_some());
    let facts = NameFacts { target: images, symbols, may_be_cut, users: &users };
    let (names, resolved) = machine.resolve(&facts)?;
    let also_visible =
        request.is_printed.then(|| machine.also_visible(images, symbols)).transpose()?.unwrap_or_default();
    let why_not_folded = |bodies: &[&Bodies]| machine.why_not_folded(images, bodies);
    let plan = TargetPlan::new(
        TargetFacts {
            target: images,
            names,
            references,
            also_visible,
            why_not_folded: &why_not_folded,
            other_code: machine.other_code(),
        },
        request,
    );
    // Of a program that must be compiled in one piece, this plan is only the reason.
    let own = machine.plan(&facts, &plan, resolved)?;
    Ok(Planned { images, plan, own })
}

/// Whether the program is large enough to be cut into partitions.
pub fn may_be_cut<M: Machine>(images: &TargetImages<'_, M::Arch>, context: &LtoContext<'_, M>) -> bool {
    rules(images, context).is_some()
}

/// Returns how the program is cut, or `None` if it is compiled in one piece.
fn rules<M: Machine>(images: &TargetImages<'_, M::Arch>, context: &LtoContext<'_, M>) -> Option<Rules> {
    if context.machine.one_piece(images).is_some() {
        return None;
    }
    let grouping = context.result_cache.grouping();
    let least = match grouping {
        Grouping::AlwaysUnits => 0,
        Grouping::Units => MIN_SHARED_BYTES,
        Grouping::Program => MIN_PARTITIONED_BYTES,
    };
    let grain = match context.link.request.options.partitioning {
        Partitioning::Usual => (images.bitcode_bytes() >= least).then_some(Grain::Usual),
        Partitioning::Size(size) => Some(Grain::Exactly(size)),
        Partitioning::Whole => None,
    };
    grain.map(|grain| Rules { grain, grouping })
}

/// Reads the references of all units, and what equal kernels are found by.
fn references<'u, M: Machine>(
    units: &[&'u Unit<'_>],
    rules: Option<Rules>,
    context: &LtoContext<'_, M>,
) -> Result<References<'u>, Errors> {
    let compared = context.folding() != KernelFolding::Off;
    let read = |unit: &&'u Unit<'_>| {
        let _reading = span::traced("Read symbols", || unit.name().to_owned());
        // The bodies first: their reading fills in the references.
        let bodies = compared.then(|| unit.bodies(context.machine.rules())).transpose()?;
        Ok::<_, Errors>((unit.graph(context.machine.rules())?, bodies))
    };
    let all = collect(units.par_iter().map(read).collect::<Vec<_>>())?;
    let (graphs, bodies): (Vec<&ReferenceGraph>, Vec<Option<&Bodies>>) = all.into_iter().unzip();
    let machine = context.machine.rules();
    Ok(References { graphs, bodies: bodies.into_iter().collect(), tags: unit_file::tags(units), rules, machine })
}

/// Returns the symbols of every image, in link order. `of_unit` reads those of a bitcode unit, by its index among the units.
///
/// # Errors
/// A damaged image, or one that cannot be linked with others.
fn all_symbols<M: Machine>(
    images: &TargetImages<'_, M::Arch>,
    context: &LtoContext<'_, M>,
    of_unit: &dyn Fn(usize) -> Result<Vec<Symbol>, Errors>,
) -> Result<Vec<UnitSymbols>, Errors> {
    let mut units = 0..;
    collect(images.images.iter().map(|image| match image.unit {
        Some(_) => {
            let symbols = units.next().map(of_unit).transpose()?;
            Ok(UnitSymbols { symbols: symbols.unwrap_or_default() })
        }
        None => context.machine.symbols(image, images),
    }))
}

/// Writes the file that holds the bitcode units of a target for the workers, unless the private copy is one.
fn unit_file<M: Machine>(
    images: &TargetImages<'_, M::Arch>,
    private: Option<&PrivateImages>,
    context: &LtoContext<'_, M>,
) -> Result<UnitFile, Errors> {
    let is_unit: Vec<bool> = images.images.iter().map(|image| image.unit.is_some()).collect();
    let private = private.map(|private| (private, &*is_unit));
    UnitFile::of(&images.units(), &context.machine.stem(&images.arch), private, context.temp_files())
}

/// Keeps the device images of the inputs (`--save-temps`).
fn save_inputs<M: Machine>(images: &TargetImages<'_, M::Arch>, context: &LtoContext<'_, M>) -> Result<(), Errors> {
    let stem = context.machine.stem(&images.arch);
    for (index, image) in images.images.iter().enumerate() {
        context.temp_files().keep(&image.file_name(&stem, index), || image.bytes.to_vec())?;
    }
    Ok(())
}
