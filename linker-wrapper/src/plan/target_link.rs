//! The device link of one target, decided before any of it runs. Pure: symbols and references in, a plan out.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use llvm_passes::equal_kernels::Bodies;
use llvm_passes::extract::UnitPart;
use llvm_passes::partition::{self, Cut, LeftOut, Partition, Rules};
use llvm_passes::program::{Monolithic, Program};
use llvm_passes::reference_graph::{ReferenceGraph, referenced_kernels};
use llvm_passes::resolve::{self, Duplicate, Resolution, UnitSymbols};
use llvm_passes::symbols::{Strength, Symbol, SymbolKind};
use offload_bundle::arch::GpuArch;
use offload_bundle::{cubin, ptx};

use crate::cli::device_options::DeviceOptions;
use crate::cli::values::KernelFolding;
use crate::compilers::rdc_image;
use crate::device::cudadevrt::DeviceLibrary;
use crate::device::lto_definitions::LtoNames;
use crate::device::symbol_errors::{self, Maker};
use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::diag::error::Errors;
use crate::plan::backend::CodegenNeeds;
use crate::plan::equal_kernels::{self, Folding, FoldingRequest};
use crate::plan::error::Error;
use crate::plan::image_policy::ImageEntries;
use crate::plan::kept_kernels;
use crate::profile::span;

/// The facts about a target's code that the plan is made from.
pub struct TargetFacts<'f> {
    /// The images.
    pub target: &'f TargetImages<'f>,
    /// The symbols of each image.
    pub symbols: Vec<UnitSymbols>,
    /// What units of LTO-IR define.
    pub lto: LtoNames,
    /// The references within each unit, if the program may be cut.
    pub references: Option<References<'f>>,
    /// Libraries that define device functions.
    pub libraries: &'f dyn Libraries,
    /// Finds the functions of an image, by its index, that reference a name; for error messages.
    pub users: &'f dyn Fn(usize, &str) -> Vec<String>,
}

/// The references that a program is cut into partitions by.
pub struct References<'f> {
    /// The reference graph of each bitcode unit.
    pub graphs: Vec<&'f ReferenceGraph>,
    /// Unique names of the units, derived only from their content.
    pub tags: Vec<String>,
    /// The bodies of each unit, if equal kernels are to be found.
    pub bodies: Option<Vec<&'f Bodies>>,
    /// How the program is cut; `None` if it is not.
    pub rules: Option<Rules>,
}

/// The CUDA libraries that define device functions.
pub trait Libraries {
    /// Whether libdevice defines the function.
    fn libdevice_defines(&self, name: &str) -> bool;

    /// Reads the device runtime's code for a target.
    fn device_runtime(&self, arch: GpuArch) -> Option<DeviceLibrary>;
}

/// The options of a target's link, and names from the host side.
#[derive(Clone, Copy)]
pub struct LinkRequest<'r> {
    /// The entries of the image, of all targets.
    pub entries: &'r ImageEntries,
    /// Names that the host program registers with the runtime.
    pub registered: &'r HashSet<String>,
    /// Kernels that the host program cannot launch.
    pub dead: &'r BTreeSet<String>,
    /// What is done with equal kernels.
    pub folding: KernelFolding,
    /// Why the host program cannot be told which kernel stands for another, if that is so.
    pub unregistered: Option<&'static str>,
    /// The only kernels that may be left out as equal to others, if other targets of the link limit them.
    pub only_folded: Option<&'r BTreeMap<String, String>>,
    /// The kernels in results of the inputs, if any may be folded.
    pub finished: &'r BTreeSet<String>,
    /// Options of the device link.
    pub options: &'r DeviceOptions,
    /// The code is that of a relocatable object: the link of the program defines what is undefined.
    pub is_partial: bool,
    /// The plan will be printed.
    pub is_printed: bool,
}

/// The plan of one target's device link.
pub struct TargetLink {
    /// The target.
    pub arch: GpuArch,
    /// Targets of the machine code that is generated from this target's code, its own first.
    pub sass: Vec<GpuArch>,
    /// Targets of the PTX that is generated from it.
    pub ptx: Vec<GpuArch>,
    /// The image, by index, whose definition of a name prevails.
    pub prevailing: BTreeMap<String, usize>,
    /// Linkonce definitions that prevail over later weak ones, with their bitcode unit: LLVM's merge would prefer the weak one,
    /// so they become weak.
    pub promoted: Vec<(usize, String)>,
    /// Names that stay visible after the merge; all others become internal.
    pub visible: BTreeSet<String>,
    /// Kernels that are left out if no other code refers to them.
    pub dead: BTreeSet<String>,
    /// The kernels that the program cannot launch and that are compiled all the same, each with the reason; empty unless the plan is
    /// printed.
    pub dead_but_kept: BTreeMap<String, String>,
    /// Dead kernels that are compiled with live ones, and that nothing refers to: the image can do without their code. So it can without
    /// that of kernels that others stand for.
    pub removable: BTreeSet<String>,
    /// Kernels that others stand for, which are among the dead ones.
    pub folding: Folding,
    /// The kernels of other images that each image declares as functions, by index.
    pub declared_kernels: BTreeMap<usize, BTreeSet<String>>,
    /// The kernels, which stay visible, too; empty unless the plan is printed.
    pub kernels: BTreeSet<String>,
    /// NVIDIA's device runtime, if the code references it.
    pub device_library: Option<DeviceLibrary>,
    /// What the backend has to support.
    pub needs: CodegenNeeds,
    /// The partitions to compile. Empty without bitcode; a single partition without parts stands for a monolithic link.
    pub partitions: Vec<Partition>,
    /// Whether ptxas can finish the only partition of a program that was cut: nothing is linked with it or left out.
    pub is_finishable: bool,
    /// Why the program is compiled in one piece, if there is a reason beside its size.
    pub not_cut: Option<Monolithic>,
    /// Number of instructions that the kernels reach, and of those that more than one partition compiles.
    pub instructions: Option<(u64, u64)>,
}

impl TargetLink {
    /// Resolves the symbols and divides the code into partitions.
    ///
    /// # Errors
    /// Duplicate and undefined symbols.
    pub fn plan(facts: &TargetFacts<'_>, request: LinkRequest<'_>) -> Result<Self, Errors> {
        let (target, arch) = (facts.target, facts.target.arch);
        let (resolution, device_library, is_complete) = resolve_names(facts, request)?;
        let mut visible = visible_names(target, &facts.symbols, request.registered);
        visible.extend(device_library.iter().flat_map(|library| library.defines.iter().cloned()));
        let promoted = resolution.linkonce_over_weak.iter();
        let promoted = promoted.filter_map(|(name, image)| Some((target.unit_of(*image)?, name.clone()))).collect();
        let mut dead: BTreeSet<String> = request.dead.difference(&visible).cloned().collect();
        let folding = folding(facts, request, &resolution, &visible, &dead);
        visible.retain(|name| !folding.folded.contains_key(name));
        let folded: BTreeSet<String> = folding.folded.keys().cloned().collect();
        let left_out = LeftOut { dead: &dead, folded: &folded, finished: request.finished };
        let mut kept_by_code = BTreeMap::new();
        let cut = facts.references.as_ref().and_then(|references| {
            let program = references.program(target, &resolution, &visible);
            let _cutting = span::traced("Partition", || arch.to_string());
            if request.is_printed {
                kept_by_code = program.kept_by_code(&dead);
            }
            Some(partition::cut_without(&program, references.rules?, left_out))
        });
        dead.extend(folded);
        let removable = removable(&cut, &dead, facts.references.as_ref());
        let instructions = cut.as_ref().map(|cut| (cut.distinct, cut.duplicated()));
        let cut = cut.unwrap_or_default();
        let partitions = match cut.partitions {
            none if none.is_empty() => whole(target, &visible),
            partitions => partitions,
        };
        let dead_but_kept = if request.is_printed {
            kept_kernels::reasons(request.dead, &visible, kept_by_code, &partitions)
        } else {
            BTreeMap::new()
        };
        let has_library = device_library.is_some();
        let is_finishable = is_complete
            && dead.is_empty()
            && matches!(&partitions[..], [only] if !only.parts.is_empty())
            && !needs(target, 1, has_library, request.options).joins;
        let needs = needs(target, object_count(&partitions), has_library, request.options);
        let mut sass = request.entries.sass_from(arch);
        sass.sort_by_key(|other| *other != arch);
        let ptx = request.entries.ptx_from(arch);
        let prevailing = resolution.prevailing;
        let declared_kernels = declared_kernels(&facts.symbols, &facts.lto.kernels);
        let kernels = if request.is_printed { kernels(&facts.symbols) } else { BTreeSet::new() };
        let not_cut = cut.monolithic;
        Ok(TargetLink {
            arch,
            sass,
            ptx,
            prevailing,
            promoted,
            visible,
            dead,
            removable,
            dead_but_kept,
            folding,
            declared_kernels,
            kernels,
            device_library,
            needs,
            partitions,
            is_finishable,
            not_cut,
            instructions,
        })
    }

    /// The kernels that the units of these parts declare as functions; without parts, those of all units.
    pub fn kernels_declared_by(&self, parts: &[UnitPart], images: &TargetImages<'_>) -> BTreeSet<String> {
        let is_taken = |unit: usize| parts.is_empty() || parts.iter().any(|part| part.unit == unit);
        let of_units = self.declared_kernels.iter().filter(|(image, _)| images.unit_of(**image).is_some_and(is_taken));
        of_units.flat_map(|(_, kernels)| kernels.iter().cloned()).collect()
    }

    /// The only kernels of the image, of those in partitions; `None` if all of them are in it.
    pub fn only_kernels(&self) -> Option<Vec<&str>> {
        let kernels = self.partitions.iter().flat_map(|partition| &partition.kernels);
        let wanted = || kernels.filter(|kernel| !self.removable.contains(*kernel)).map(String::as_str);
        (!self.removable.is_empty()).then(|| wanted().collect())
    }

    /// Whether the program is compiled in one piece, in this process.
    pub fn is_monolithic(&self) -> bool {
        self.partitions.iter().all(|partition| partition.parts.is_empty())
    }
}

/// Finds the kernels for [`TargetLink::removable`].
fn removable(cut: &Option<Cut>, dead: &BTreeSet<String>, references: Option<&References<'_>>) -> BTreeSet<String> {
    let (Some(cut), Some(references)) = (cut, references) else { return BTreeSet::new() };
    let kernels = cut.partitions.iter().flat_map(|partition| &partition.kernels);
    let mut removable: BTreeSet<String> = kernels.filter(|kernel| dead.contains(*kernel)).cloned().collect();
    if !removable.is_empty() {
        let referenced = referenced_kernels(&references.graphs);
        removable.retain(|kernel| !referenced.contains(kernel.as_str()));
    }
    removable
}

/// Decides which kernels are not compiled because another one is equal.
fn folding(
    facts: &TargetFacts<'_>,
    request: LinkRequest<'_>,
    resolution: &Resolution,
    visible: &BTreeSet<String>,
    dead: &BTreeSet<String>,
) -> Folding {
    let Some(references) = &facts.references else { return Folding::default() };
    let Some(bodies) = references.bodies.as_ref().filter(|_| request.folding != KernelFolding::Off) else {
        return Folding::default();
    };
    let _comparing = span::traced("Compare kernels", || facts.target.arch.to_string());
    let program = references.program(facts.target, resolution, visible);
    let used: HashSet<String> = names_of_others(facts.target, &facts.symbols).collect();
    let is_candidate = |name: &str| {
        !dead.contains(name)
            && !used.contains(name)
            && (request.folding == KernelFolding::Safe || request.registered.contains(name))
    };
    let sass = request.entries.sass_from(facts.target.arch);
    let has_units = facts.target.images.iter().any(|image| image.rdc.is_some());
    let of_units = has_units.then_some("units of nvcc register their kernels themselves");
    let request = FoldingRequest {
        folding: request.folding,
        sass: &sass,
        options: request.options,
        unregistered: request.unregistered.or(of_units),
        only: request.only_folded,
        finished: request.finished,
    };
    equal_kernels::fold(&program, &references.graphs, bodies, request, &is_candidate)
}

impl<'f> References<'f> {
    /// The program, of which these names stay visible.
    pub fn program(
        &self,
        target: &TargetImages<'_>,
        resolution: &Resolution,
        visible: &'f BTreeSet<String>,
    ) -> Program<'f> {
        let prevailing = |name: &str| target.unit_of(*resolution.prevailing.get(name)?);
        Program::new(self.graphs.clone(), self.tags.clone(), &prevailing, visible)
    }
}

/// Number of partitions for [`needs`]. Even a single one of a program that was cut may refer to nothing outside but is relocatable.
fn object_count(partitions: &[Partition]) -> usize {
    let is_cut = partitions.iter().any(|partition| !partition.parts.is_empty());
    partitions.len().max(if is_cut { 2 } else { 0 })
}

/// The kernels that each image declares as functions, by index. clang does so with kernels of other units.
fn declared_kernels(symbols: &[UnitSymbols], lto_kernels: &HashSet<String>) -> BTreeMap<usize, BTreeSet<String>> {
    let all = || symbols.iter().enumerate().flat_map(|(image, unit)| unit.symbols.iter().map(move |one| (image, one)));
    let kernels = all().filter(|(_, symbol)| symbol.kind == SymbolKind::Kernel && symbol.strength.is_definition());
    let mut kernels: HashSet<&str> = kernels.map(|(_, symbol)| symbol.name.as_str()).collect();
    kernels.extend(lto_kernels.iter().map(String::as_str));
    let is_declared = |symbol: &Symbol| {
        symbol.kind == SymbolKind::Function
            && !symbol.strength.is_definition()
            && kernels.contains(symbol.name.as_str())
    };
    let mut declared: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for (image, symbol) in all().filter(|(_, symbol)| is_declared(symbol)) {
        declared.entry(image).or_default().insert(symbol.name.clone());
    }
    declared
}

/// The names of all kernels.
fn kernels(symbols: &[UnitSymbols]) -> BTreeSet<String> {
    let kernels = symbols.iter().flat_map(|unit| &unit.symbols).filter(|symbol| symbol.kind == SymbolKind::Kernel);
    kernels.map(|symbol| symbol.name.clone()).collect()
}

/// The single partition of a program that is compiled in one piece.
fn whole(target: &TargetImages<'_>, visible: &BTreeSet<String>) -> Vec<Partition> {
    let bytes: u64 = target.of_code(Code::Bitcode).map(|(_, image)| image.bytes.len() as u64).sum();
    let has_bitcode = target.of_code(Code::Bitcode).next().is_some();
    // An instruction takes about eight bytes of bitcode.
    let instructions = bytes / 8;
    let (parts, kernels) = (Vec::new(), Vec::new());
    let whole = Partition { parts, keep: visible.clone(), kernels, instructions, largest: instructions };
    has_bitcode.then_some(whole).into_iter().collect()
}

/// The definitions that prevail, NVIDIA's device runtime if it is needed, and whether the code needs nothing else.
fn resolve_names(
    facts: &TargetFacts<'_>,
    request: LinkRequest<'_>,
) -> Result<(Resolution, Option<DeviceLibrary>, bool), Errors> {
    let (target, arch) = (facts.target, facts.target.arch);
    let provided = |name: &str| resolve::is_provided(name) || facts.libraries.libdevice_defines(name);
    let mut resolution = resolve::resolve(&facts.symbols, &provided);
    if request.options.relocatable {
        // The link of the program defines them, and adds the device runtime.
        resolution.undefined.clear();
    }
    let library = device_library(&mut resolution, arch, facts.libraries);
    let is_complete = resolution.undefined.is_empty();
    if request.is_partial {
        resolution.undefined.clear();
    }
    if target.of_code(Code::LtoIr).next().is_some() {
        // Only NVIDIA's linkers can read the symbols of LTO-IR; they report undefined ones.
        resolution.undefined.clear();
    }
    add_duplicates(&mut resolution, facts);
    let maker = |image: &DeviceImage<'_>| if image.rdc.is_some() { Maker::Nvcc } else { Maker::Clang };
    let origins: Vec<_> = target.images.iter().map(|image| (&image.origin, maker(image))).collect();
    symbol_errors::unresolved(&resolution, &arch, &origins, facts.users)?;
    // The driver links PTX with the device runtime only in programs with units of nvcc, of which the runtime is one.
    let links_ptx = target.images.iter().any(|image| image.rdc.is_some());
    let has_lone_ptx = !links_ptx && !request.entries.ptx_from(arch).is_empty();
    if library.is_some() && (has_lone_ptx || request.entries.has_other_sass(arch)) {
        return Err(Error::DeviceRuntime { arch }.into());
    }
    Ok((resolution, library, is_complete))
}

/// Adds the duplicates of which LTO-IR holds a definition.
fn add_duplicates(resolution: &mut Resolution, facts: &TargetFacts<'_>) {
    let mut units: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (image, names) in facts.lto.definitions.iter().enumerate() {
        for name in names {
            units.entry(name).or_default().insert(image);
        }
    }
    for (image, symbols) in facts.symbols.iter().enumerate() {
        for symbol in symbols.symbols.iter().filter(|symbol| symbol.strength == Strength::Strong) {
            if let Some(units) = units.get_mut(symbol.name.as_str()) {
                units.insert(image);
            }
        }
    }
    let known: HashSet<String> = resolution.duplicates.iter().map(|duplicate| duplicate.name.clone()).collect();
    resolution.duplicates.retain(|duplicate| !units.contains_key(duplicate.name.as_str()));
    let of_lto = units.into_iter().filter(|(name, units)| units.len() > 1 || known.contains(*name));
    let of_lto = of_lto.map(|(name, units)| Duplicate { name: name.to_owned(), units: units.into_iter().collect() });
    resolution.duplicates.extend(of_lto);
    resolution.duplicates.sort_by(|one, other| one.name.cmp(&other.name));
}

/// Returns NVIDIA's device runtime if it defines undefined symbols, and removes these from the resolution's undefined ones.
fn device_library(resolution: &mut Resolution, arch: GpuArch, libraries: &dyn Libraries) -> Option<DeviceLibrary> {
    if resolution.undefined.is_empty() {
        return None;
    }
    let library = libraries.device_runtime(arch)?;
    let before = resolution.undefined.len();
    resolution.undefined.retain(|symbol| !library.defines.contains(&symbol.name));
    (resolution.undefined.len() < before).then_some(library)
}

/// Names that must stay visible after the merge: those that the host registers, and those that other code than bitcode
/// defines or references. LTO-IR may reference any name.
fn visible_names(target: &TargetImages<'_>, symbols: &[UnitSymbols], registered: &HashSet<String>) -> BTreeSet<String> {
    registered.iter().cloned().chain(names_of_others(target, symbols)).collect()
}

/// Names that other code than bitcode defines or references. LTO-IR may reference any name.
fn names_of_others<'s>(target: &'s TargetImages<'_>, symbols: &'s [UnitSymbols]) -> impl Iterator<Item = String> + 's {
    let opaque = target.of_code(Code::LtoIr).next().is_some();
    let others = target.images.iter().zip(symbols).filter(move |(image, _)| opaque || image.code != Code::Bitcode);
    others.flat_map(|(_, unit)| unit.symbols.iter().map(|symbol| symbol.name.clone()))
}

/// Determines what the backend has to support. `partitions` is the number of partitions compiled from bitcode, and `library` is
/// whether the device runtime is linked. Only nvlink can validate its own options, so with any of them it runs even for an object
/// that needs no linking.
pub fn needs(target: &TargetImages<'_>, partitions: usize, library: bool, options: &DeviceOptions) -> CodegenNeeds {
    let others = target.images.iter().filter(|image| image.code != Code::Bitcode).count();
    let unlinked =
        |(_, image): (usize, &DeviceImage<'_>)| cubin::parse(image.bytes).is_ok_and(|cubin| cubin.unlinked().is_some());
    let lto_ir = || target.of_code(Code::LtoIr).filter_map(|(_, image)| rdc_image::lto_ir_version(image.bytes));
    CodegenNeeds {
        bitcode: partitions > 0,
        ptx: target.of_code(Code::Ptx).filter_map(|(_, image)| ptx::version(image.bytes)).max(),
        lto_ir: lto_ir().max(),
        oldest_lto_ir: lto_ir().min(),
        partial_lto: target.of_code(Code::LtoIr).next().is_some()
            && (partitions > 0 || target.images.iter().any(|image| image.code != Code::LtoIr)),
        joins: others + partitions + usize::from(library) > 1
            || options.relocatable
            || !options.nvlink_arguments.is_empty()
            // The driver does not run a relocatable cubin.
            || target.of_code(Code::Cubin).any(unlinked),
        lto: options.lto,
        relocatable: options.relocatable,
        ..CodegenNeeds::none(target.arch)
    }
}

/// The upper bound of what the backend has to support, judged only by the forms of the code.
pub fn most_needs(target: &TargetImages<'_>, options: &DeviceOptions) -> CodegenNeeds {
    let bitcode = target.of_code(Code::Bitcode).next().is_some();
    CodegenNeeds { joins: true, ..needs(target, usize::from(bitcode), true, options) }
}
