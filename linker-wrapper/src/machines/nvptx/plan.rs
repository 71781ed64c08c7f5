//! What the plan of a target has for NVIDIA's GPUs alone: the targets that its code becomes, NVIDIA's device runtime, and the backend.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::OnceLock;

use llvm_passes::resolve::{self, Duplicate, Resolution, UnitSymbols};
use llvm_passes::symbols::{Strength, Symbol, SymbolKind};
use offload_bundle::arch::GpuArch;
use offload_bundle::{cubin, ptx};

use crate::cli::device_options::DeviceOptions;
use crate::cli::values::LtoIrRule;
use crate::compilers::rdc_image;
use crate::device::cudadevrt::DeviceLibrary;
use crate::device::lto_definitions::LtoNames;
use crate::device::symbol_errors::{self, SourceCompiler};
use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::diag::error::Errors;
use crate::machines::interface::NameFacts;
use crate::machines::nvptx::backend::CodegenNeeds;
use crate::machines::nvptx::codegen::{Backends, Codegen};
use crate::machines::nvptx::cubin_linker::NvlinkOnly;
use crate::machines::nvptx::error::Error;
use crate::machines::nvptx::target::Nvptx;
use crate::plan::target_plan::{Names, TargetPlan};

/// The plan of a target.
pub struct NvptxPlan<'a> {
    /// Targets of the machine code that is generated from this target's code, its own first.
    pub sass: Vec<GpuArch>,
    /// Targets of the PTX that is generated from it.
    pub ptx: Vec<GpuArch>,
    /// The kernels of other images that each image declares as functions, by index.
    pub declared_kernels: BTreeMap<usize, BTreeSet<String>>,
    /// NVIDIA's device runtime, if the code references it.
    pub device_library: Option<DeviceLibrary>,
    /// What the backend has to support.
    pub needs: CodegenNeeds,
    /// Whether ptxas can finish the only partition of a program that was cut: nothing is linked with it or left out.
    pub is_finishable: bool,
    /// The backend, chosen when it is first needed.
    codegen: OnceLock<Result<Codegen<'a>, Errors>>,
}

impl<'a> NvptxPlan<'a> {
    /// Completes the plan of a target.
    pub fn new(machine: &Nvptx<'a>, facts: &NameFacts<'_, Nvptx<'a>>, plan: &TargetPlan, resolved: Resolved) -> Self {
        let NameFacts { target, symbols, .. } = facts;
        let Resolved { device_library, is_complete, lto } = resolved;
        let arch = target.arch;
        let has_library = device_library.is_some();
        let is_finishable = is_complete
            && plan.dead.is_empty()
            && plan.is_one_partition()
            && !needs(target, 1, has_library, machine).joins;
        let needs = needs(target, object_count(plan), has_library, machine);
        let removed = plan.only_kernels().map(|_| NvlinkOnly::RemovedKernels);
        let mut sass = machine.entries.sass_from(arch);
        sass.sort_by_key(|other| *other != arch);
        NvptxPlan {
            sass,
            ptx: machine.entries.ptx_from(arch),
            declared_kernels: declared_kernels(symbols, &lto.kernels),
            needs: CodegenNeeds { nvlink_only: needs.nvlink_only.or(removed), ..needs },
            device_library,
            is_finishable,
            codegen: OnceLock::new(),
        }
    }

    /// The backend.
    ///
    /// # Errors
    /// None that may be used supports the link.
    pub fn codegen(&self, backends: &'a Backends<'a>) -> Result<Codegen<'a>, Errors> {
        self.codegen.get_or_init(|| backends.choose(&self.needs)).clone()
    }

    /// The kernels that these units declare as functions; `None` for all units.
    pub fn kernels_declared_by(&self, units: Option<&[usize]>, images: &TargetImages<'_>) -> BTreeSet<String> {
        let is_taken = |unit: usize| units.is_none_or(|units| units.contains(&unit));
        let of_units = self.declared_kernels.iter().filter(|(image, _)| images.unit_of(**image).is_some_and(is_taken));
        of_units.flat_map(|(_, kernels)| kernels.iter().cloned()).collect()
    }
}

/// What resolving the names of a target leaves for its plan.
pub struct Resolved {
    device_library: Option<DeviceLibrary>,
    /// Whether the code needs nothing else.
    is_complete: bool,
    /// What units of LTO-IR define.
    lto: LtoNames,
}

/// Number of objects for [`needs`]. Even a single partition of a program that was cut may refer to nothing outside but is relocatable.
fn object_count(plan: &TargetPlan) -> usize {
    plan.partitions.len().max(if plan.is_whole() { 0 } else { 2 })
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

/// Resolves the names of a target.
///
/// # Errors
/// Duplicate and undefined symbols.
pub fn resolve<'a>(machine: &Nvptx<'a>, facts: &NameFacts<'_, Nvptx<'a>>) -> Result<(Names, Resolved), Errors> {
    let NameFacts { target, symbols, .. } = facts;
    let lto = LtoNames::of(target, symbols)?;
    let (resolution, device_library, is_complete) = resolve_names(machine, facts, &lto)?;
    let used: HashSet<String> = names_of_others(target, symbols).collect();
    // Names that must stay visible: those that the host registers, and those that other code than bitcode defines or references.
    let mut visible: BTreeSet<String> = machine.link.registered.iter().chain(&used).cloned().collect();
    visible.extend(device_library.iter().flat_map(|library| library.defines.iter().cloned()));
    visible.extend(resolution.prevailing.keys().filter(|name| (machine.looks_up)(name)).cloned());
    Ok((Names { resolution, visible, used }, Resolved { device_library, is_complete, lto }))
}

/// The definitions that prevail, NVIDIA's device runtime if it is needed, and whether the code needs nothing else.
fn resolve_names<'a>(
    machine: &Nvptx<'a>,
    facts: &NameFacts<'_, Nvptx<'a>>,
    lto: &LtoNames,
) -> Result<(Resolution, Option<DeviceLibrary>, bool), Errors> {
    let (target, arch) = (facts.target, facts.target.arch);
    let provided = |name: &str| resolve::is_provided(name) || machine.libraries.libdevice_defines(name);
    let mut resolution = resolve::resolve(facts.symbols, &provided);
    if machine.options().relocatable {
        // The link of the program defines them, and adds the device runtime.
        resolution.undefined.clear();
    }
    let library = device_library(&mut resolution, machine, arch);
    let is_complete = resolution.undefined.is_empty();
    if machine.link.request.options.merges_device_code() {
        resolution.undefined.clear();
    }
    if target.of_code(Code::LtoIr).next().is_some() {
        // Only NVIDIA's linkers can read the symbols of LTO-IR; they report undefined ones.
        resolution.undefined.clear();
    }
    add_duplicates(&mut resolution, facts.symbols, lto);
    let maker =
        |image: &DeviceImage<'_>| if image.rdc.is_some() { SourceCompiler::Nvcc } else { SourceCompiler::Clang };
    let origins: Vec<_> = target.images.iter().map(|image| (&image.origin, maker(image))).collect();
    symbol_errors::unresolved(&resolution, &arch, &origins, facts.users)?;
    // The driver links PTX with the device runtime only in programs with units of nvcc, because the runtime is such a unit.
    let links_ptx = target.images.iter().any(|image| image.rdc.is_some());
    let has_lone_ptx = !links_ptx && !machine.entries.ptx_from(arch).is_empty();
    if library.is_some() && (has_lone_ptx || machine.entries.has_other_sass(arch)) {
        return Err(Error::DeviceRuntime { arch }.into());
    }
    Ok((resolution, library, is_complete))
}

/// Adds the duplicates that LTO-IR defines.
fn add_duplicates(resolution: &mut Resolution, symbols: &[UnitSymbols], lto: &LtoNames) {
    let mut units: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (image, names) in lto.definitions.iter().enumerate() {
        for name in names {
            units.entry(name).or_default().insert(image);
        }
    }
    for (image, symbols) in symbols.iter().enumerate() {
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
fn device_library(resolution: &mut Resolution, machine: &Nvptx<'_>, arch: GpuArch) -> Option<DeviceLibrary> {
    if resolution.undefined.is_empty() {
        return None;
    }
    let library = machine.libraries.device_runtime(arch)?;
    let before = resolution.undefined.len();
    resolution.undefined.retain(|symbol| !library.defines.contains(&symbol.name));
    (resolution.undefined.len() < before).then_some(library)
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
pub fn needs(target: &TargetImages<'_>, partitions: usize, library: bool, machine: &Nvptx<'_>) -> CodegenNeeds {
    let options = machine.options();
    let others = target.images.iter().filter(|image| image.code != Code::Bitcode).count();
    let needs_link = |(_, image): (usize, &DeviceImage<'_>)| {
        cubin::parse(image.bytes).is_ok_and(|cubin| cubin.is_relocatable() && !cubin.has_kernels_alone())
    };
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
            // A device link computes the registers and the stack of kernels from those of the functions that they call.
            || target.of_code(Code::Cubin).any(needs_link),
        lto: options.lto_ir != LtoIrRule::Never,
        relocatable: options.relocatable,
        linker: machine.link.request.options.cubin_linker,
        nvlink_only: nvlink_only(target, options),
        ..CodegenNeeds::none(target.arch)
    }
}

/// What only nvlink does, as far as inputs and options tell.
fn nvlink_only(target: &TargetImages<'_>, options: &DeviceOptions) -> Option<NvlinkOnly> {
    let all = [
        (target.of_code(Code::LtoIr).next().is_some(), NvlinkOnly::LtoIr),
        (options.relocatable, NvlinkOnly::Relocatable),
        (options.debug, NvlinkOnly::Debug),
        (!options.nvlink_arguments.is_empty(), NvlinkOnly::Arguments),
    ];
    all.into_iter().find_map(|(is_needed, what)| is_needed.then_some(what))
}

/// The upper bound of what the backend has to support, judged only by the forms of the code.
pub fn most_needs(target: &TargetImages<'_>, machine: &Nvptx<'_>) -> CodegenNeeds {
    let bitcode = target.of_code(Code::Bitcode).next().is_some();
    CodegenNeeds { joins: true, ..needs(target, usize::from(bitcode), true, machine) }
}
