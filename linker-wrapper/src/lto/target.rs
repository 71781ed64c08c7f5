//! Reads the code of one target and plans its device link.

use std::sync::{Mutex, PoisonError};

use llvm_passes::OwnedProgram;
use llvm_passes::equal_kernels::Bodies;
use llvm_passes::partition::{Grain, Grouping, Rules};
use llvm_passes::program::Machine;
use llvm_passes::reference_graph::{self, ReferenceGraph};
use llvm_passes::resolve::UnitSymbols;
use llvm_passes::symbols::Symbol;
use llvm_passes::unit::Unit;
use offload_bundle::cubin;
use rayon::prelude::*;

use crate::cli::values::{KernelFolding, Partitioning};
use crate::device::lto_definitions::LtoNames;
use crate::device::symbols;
use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::diag::error::{Errors, collect};
use crate::diag::messages;
use crate::lto::context::LtoContext;
use crate::lto::error::Error;
use crate::lto::private_images::PrivateImages;
use crate::lto::unit_file::{self, UnitFile};
use crate::plan::target_link::{References, TargetFacts, TargetLink};
use crate::profile::span;

/// A program with less bitcode than this, in bytes, is compiled in one piece; its references are not read.
const MIN_PARTITIONED_BYTES: usize = 192 << 10;
/// The same if units are cut by themselves for later links.
const MIN_SHARED_BYTES: usize = 48 << 10;

/// A target whose device link is planned.
pub struct PlannedTarget<'a> {
    /// The code.
    pub images: &'a TargetImages<'a>,
    /// The plan of its link.
    pub plan: TargetLink,
    /// The open program, if it is compiled in this process. The job that compiles it takes it.
    program: Mutex<Option<OwnedProgram>>,
    /// The file of the units, if workers compile them.
    pub unit_file: Option<UnitFile>,
}

impl<'a> PlannedTarget<'a> {
    /// Reads the code and plans its link. `private` is the private copy of the images, if there is one.
    ///
    /// # Errors
    /// Errors in the images or their symbols, or no backend supports the link.
    pub fn plan(
        images: &'a TargetImages<'a>,
        private: Option<&PrivateImages>,
        context: &LtoContext<'_>,
    ) -> Result<Self, Errors> {
        let cut = rules(images, context)
            .map(|rules| Self::plan_partitioned(images, rules, private, context))
            .transpose()?
            .flatten();
        cut.map_or_else(|| Self::plan_monolithic(images, context), Ok)
    }

    /// Plans a link in partitions. Returns `None` if the program must be compiled in one piece.
    fn plan_partitioned(
        images: &'a TargetImages<'a>,
        rules: Rules,
        private: Option<&PrivateImages>,
        context: &LtoContext<'_>,
    ) -> Result<Option<Self>, Errors> {
        let units = images.units();
        let references = references(&units, Some(rules), context)?;
        let graphs = references.graphs.clone();
        let symbols = all_symbols(images, context, &|unit| Ok(reference_graph::symbols(graphs[unit])))?;
        let references = Some(references);
        let users = |image: usize, name: &str| {
            let unit = images.unit_of(image);
            unit.map(|unit| reference_graph::users_of(graphs[unit], name)).unwrap_or_default()
        };
        let libraries = context.libraries;
        let lto = LtoNames::of(images, &symbols)?;
        let facts = TargetFacts { target: images, symbols, lto, references, libraries, users: &users };
        let plan = TargetLink::plan(&facts, context.request())?;
        if plan.is_monolithic() {
            let is_shown = context.link.request.mode.show && context.only_folded.is_none();
            if let Some(reason) = plan.not_cut.as_ref().filter(|_| is_shown) {
                // Printed as a shell comment, so that the output can be pasted into a shell.
                let name = reason.unit.map_or_else(String::new, |unit| format!("{}: ", units[unit].name()));
                messages::show(format_args!(" # {}: not cut into jobs: {name}{}", images.arch, reason.reason));
            }
            return Ok(None);
        }
        keep_inputs(images, context)?;
        let unit_file = Some(unit_file(images, private, context)?);
        // Choose the backend now, so that an error is reported before the long compilation.
        context.backends.choose(&plan.needs)?;
        Ok(Some(PlannedTarget { images, plan, program: Mutex::default(), unit_file }))
    }

    /// Plans a link in one piece.
    ///
    /// # Errors
    /// As [`PlannedTarget::plan`].
    pub fn plan_monolithic(images: &'a TargetImages<'a>, context: &LtoContext<'_>) -> Result<Self, Errors> {
        let units = images.units();
        keep_inputs(images, context)?;
        // Read before the units are opened for the compilation.
        let request = context.request();
        let names_kept_kernels = request.is_printed && !request.dead.is_empty();
        let needs_references = finds_equal_kernels(context) || names_kept_kernels;
        let references = needs_references.then(|| references(&units, None, context)).transpose()?;
        let program = {
            let _reading = span::traced("Read symbols", || images.arch.to_string());
            OwnedProgram::load(&units, Machine::Nvptx).map_err(Errors::from_iter)?
        };
        let symbols = all_symbols(images, context, &|unit| Ok(units[unit].used_symbols()?.to_vec()))?;
        let users = |image: usize, name: &str| {
            let graph = images.unit_of(image).and_then(|unit| units[unit].references().ok());
            graph.map(|graph| reference_graph::users_of(graph, name)).unwrap_or_default()
        };
        let libraries = context.libraries;
        let lto = LtoNames::of(images, &symbols)?;
        let facts = TargetFacts { target: images, symbols, lto, references, libraries, users: &users };
        let plan = TargetLink::plan(&facts, context.request())?;
        if !plan.partitions.is_empty() {
            // Chosen before the long work, and in time for the plan to name it.
            context.backends.choose(&plan.needs)?;
        }
        let request = context.link.request;
        let unit_file = if request.options.diagnosing && !plan.partitions.is_empty() {
            Some(unit_file(images, None, context)?)
        } else {
            None
        };
        Ok(PlannedTarget { images, plan, program: Mutex::new(Some(program)), unit_file })
    }

    /// Adds the figures of the plan to the statistics.
    pub fn record(&self, context: &LtoContext<'_>) {
        let (plan, recorder) = (&self.plan, context.link.recorder);
        let counted = plan.instructions.filter(|_| !plan.is_monolithic());
        let (distinct, duplicated) = counted.unwrap_or_default();
        recorder.cut(plan.partitions.len(), distinct, duplicated);
        recorder.folded(plan.folding.folded.len());
    }

    /// Takes the open program. Returns `None` if workers compile it, or if a job has taken it already.
    pub fn take_program(&self) -> Option<OwnedProgram> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Whether the program is large enough to be cut into partitions.
pub fn may_be_cut(images: &TargetImages<'_>, context: &LtoContext<'_>) -> bool {
    rules(images, context).is_some()
}

/// Returns how the program is cut, or `None` if it is compiled in one piece.
fn rules(images: &TargetImages<'_>, context: &LtoContext<'_>) -> Option<Rules> {
    let bytes: usize = images.of_code(Code::Bitcode).map(|(_, image)| image.bytes.len()).sum();
    let grouping = context.result_cache.grouping();
    let least = match grouping {
        Grouping::AlwaysUnits => 0,
        Grouping::Units => MIN_SHARED_BYTES,
        Grouping::Program => MIN_PARTITIONED_BYTES,
    };
    let grain = match context.link.request.options.partitioning {
        Partitioning::Usual => (bytes >= least).then_some(Grain::Usual),
        Partitioning::Size(size) => Some(Grain::Exactly(size)),
        Partitioning::Whole => None,
    };
    grain.map(|grain| Rules { grain, grouping })
}

/// Reads the references of all units, and what equal kernels are found by.
fn references<'u>(
    units: &[&'u Unit<'_>],
    rules: Option<Rules>,
    context: &LtoContext<'_>,
) -> Result<References<'u>, Errors> {
    let compared = finds_equal_kernels(context);
    let read = |unit: &&'u Unit<'_>| {
        let _reading = span::traced("Read symbols", || unit.name().to_owned());
        // The bodies first: their reading fills in the references.
        let bodies = compared.then(|| unit.bodies()).transpose()?;
        Ok::<_, Errors>((unit.references()?, bodies))
    };
    let all = collect(units.par_iter().map(read).collect::<Vec<_>>())?;
    let (graphs, bodies): (Vec<&ReferenceGraph>, Vec<Option<&Bodies>>) = all.into_iter().unzip();
    Ok(References { graphs, bodies: bodies.into_iter().collect(), tags: unit_file::tags(units), rules })
}

fn finds_equal_kernels(context: &LtoContext<'_>) -> bool {
    context.request().folding != KernelFolding::Off
}

/// Returns the symbols of every image, in link order. `of_unit` reads those of a bitcode unit, by its index among the units.
///
/// # Errors
/// A damaged cubin, or one that cannot be linked with others.
fn all_symbols(
    images: &TargetImages<'_>,
    context: &LtoContext<'_>,
    of_unit: &dyn Fn(usize) -> Result<Vec<Symbol>, Errors>,
) -> Result<Vec<UnitSymbols>, Errors> {
    let mut units = 0..;
    collect(images.images.iter().map(|image| match image.code {
        Code::Bitcode => {
            let symbols = units.next().map(of_unit).transpose()?;
            Ok(UnitSymbols { symbols: symbols.unwrap_or_default() })
        }
        // Tests of compilers give a dry run objects of the host in place of cubins, which nothing will link.
        Code::Cubin if context.is_dry_run() => {
            Ok(UnitSymbols { symbols: symbols::of_image(None, &image.origin, image.bytes)?.into_owned() })
        }
        Code::Cubin => cubin_symbols(image, images),
        Code::Ptx => Ok(symbols::of_ptx(image.bytes)),
        Code::LtoIr => Ok(UnitSymbols::default()),
    }))
}

/// Returns the symbols of a cubin, which must be relocatable unless it is the only image.
fn cubin_symbols(image: &DeviceImage<'_>, target: &TargetImages<'_>) -> Result<UnitSymbols, Errors> {
    let symbols = symbols::of_cubin(&image.origin, image.bytes)?;
    let relocatable = cubin::parse(image.bytes).is_ok_and(|cubin| cubin.is_relocatable());
    if !relocatable && target.images.len() > 1 {
        return Err(Error::FinishedCubin { name: image.origin.to_string(), arch: target.arch }.into());
    }
    Ok(symbols)
}

/// Writes the file that holds the bitcode units of a target for the workers, unless the private copy is one.
fn unit_file(
    images: &TargetImages<'_>,
    private: Option<&PrivateImages>,
    context: &LtoContext<'_>,
) -> Result<UnitFile, Errors> {
    let is_unit: Vec<bool> = images.images.iter().map(|image| image.code == Code::Bitcode).collect();
    let private = private.map(|private| (private, &*is_unit));
    UnitFile::of(&images.units(), &images.arch, private, context.temp_files())
}

/// Keeps the device images of the inputs (`--save-temps`).
fn keep_inputs(images: &TargetImages<'_>, context: &LtoContext<'_>) -> Result<(), Errors> {
    for (index, image) in images.images.iter().enumerate() {
        context.temp_files().keep(&image.file_name(images.arch, index), || image.bytes.to_vec())?;
    }
    Ok(())
}
