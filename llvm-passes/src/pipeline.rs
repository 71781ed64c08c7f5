//! From modules to code: merge, internalize, add libdevice, optimize, emit.
//!
//! The example on the front page of the crate calls these functions in their order.

use std::collections::BTreeSet;

use inkwell::OptimizationLevel;
use inkwell::attributes::AttributeLoc;
use inkwell::module::{Linkage, Module};
use inkwell::passes::PassBuilderOptions;
use inkwell::support::LLVMString;
use inkwell::targets::{CodeModel, FileType, RelocMode, Target, TargetMachine};
use inkwell::values::{FunctionValue, GlobalValue};
use offload_bundle::arch::table::KNOWN;
use offload_bundle::arch::{GpuArch, PtxVersion};
use serde::{Deserialize, Serialize};

use crate::error::{BitcodeError, CodegenError, IrError, LlvmError, Stage};
use crate::session::Session;
use crate::symbols::{self, Symbol};
use crate::{crash, reflect, sys};

pub use crate::sys::PassTrace;

/// Bitcode and what messages call it.
#[derive(Debug, Clone, Copy)]
pub struct NamedBitcode<'a> {
    /// Host file, archive member and offset, ready to print.
    pub name: &'a str,
    /// The bitcode, borrowed from the mapped host file.
    pub bitcode: &'a [u8],
}

/// How hard to optimize: the levels of clang's `-O`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OptLevel {
    /// No optimization.
    O0,
    /// A little optimization.
    O1,
    /// The default of a link.
    O2,
    /// Full optimization.
    O3,
    /// Small code.
    Os,
    /// Smallest code.
    Oz,
}

impl OptLevel {
    /// Reads what follows `-O`: "2", "s", "fast", "" (as clang: 1).
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "0" => OptLevel::O0,
            "" | "1" | "g" => OptLevel::O1,
            "2" => OptLevel::O2,
            "3" | "4" | "fast" => OptLevel::O3,
            "s" => OptLevel::Os,
            "z" => OptLevel::Oz,
            _ => return None,
        })
    }

    /// The level as LLVM's linkers take it: they have none for size.
    pub fn number(self) -> u8 {
        match self {
            OptLevel::O0 => 0,
            OptLevel::O1 => 1,
            OptLevel::O2 | OptLevel::Os | OptLevel::Oz => 2,
            OptLevel::O3 => 3,
        }
    }

    /// LLVM's pass pipeline for full LTO. There is none for size: as in LLVM's linkers, the functions' own attributes `optsize`
    /// and `minsize` decide.
    pub(crate) fn pipeline(self) -> &'static str {
        match self {
            OptLevel::O0 => "lto<O0>",
            OptLevel::O1 => "lto<O1>",
            OptLevel::O2 | OptLevel::Os | OptLevel::Oz => "lto<O2>",
            OptLevel::O3 => "lto<O3>",
        }
    }

    pub(crate) fn code_generation(self) -> OptimizationLevel {
        match self {
            OptLevel::O0 => OptimizationLevel::None,
            OptLevel::O1 => OptimizationLevel::Less,
            OptLevel::O2 | OptLevel::Os | OptLevel::Oz => OptimizationLevel::Default,
            OptLevel::O3 => OptimizationLevel::Aggressive,
        }
    }
}

/// What code is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeTarget {
    /// The GPU.
    pub arch: GpuArch,
    /// `.version` of the PTX.
    pub ptx: PtxVersion,
    /// Optimization level.
    pub level: OptLevel,
}

/// The release of LLVM that is linked in.
const LLVM_MAJOR: u32 = if cfg!(feature = "llvm23") { 23 } else { 22 };

/// The newest PTX version that this LLVM emits.
pub const NEWEST_PTX: PtxVersion = match KNOWN.newest_ptx_of_llvm(LLVM_MAJOR) {
    Some(version) => version,
    None => panic!("the table of LLVM releases has no row for the one that is linked in"),
};

/// Reads all units into the session.
///
/// # Errors
/// One [`IrError`] for every unit that cannot be read.
pub fn read_units<'s>(session: &'s Session, units: &[NamedBitcode<'_>]) -> Result<Vec<Module<'s>>, Vec<IrError>> {
    let mut modules = Vec::with_capacity(units.len());
    let mut errors = Vec::new();
    for unit in units {
        match session.read(unit.name, unit.bitcode) {
            Ok(module) => modules.push(module),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(modules) } else { Err(errors) }
}

/// Rejects modules whose code is not for NVIDIA GPUs, whatever target their offload binary names.
///
/// # Errors
/// One for every such module.
pub fn require_nvptx(modules: &[Module<'_>], units: &[NamedBitcode<'_>]) -> Result<(), Vec<IrError>> {
    let wrong = modules.iter().zip(units).filter_map(|(module, unit)| require_nvptx_module(module, unit.name).err());
    let wrong: Vec<_> = wrong.collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

pub(crate) fn require_nvptx_module(module: &Module<'_>, unit: &str) -> Result<(), IrError> {
    let triple = module.get_triple().as_str().to_string_lossy().into_owned();
    // Some front ends omit the triple; the offload binary names the target.
    if triple.is_empty() || triple.starts_with("nvptx") {
        return Ok(());
    }
    Err(IrError::Bitcode { unit: unit.to_owned(), cause: BitcodeError::Triple { triple, wanted: "nvptx64" } })
}

/// The visible symbols of a module whose bodies are loaded.
pub fn symbols_of(module: &Module<'_>) -> Vec<Symbol> {
    symbols::of_module(module)
}

/// Merges the modules in link order. The units name them in errors.
///
/// # Errors
/// [`IrError::Merge`].
pub fn merge<'s>(
    session: &'s Session,
    modules: Vec<Module<'s>>,
    units: &[NamedBitcode<'_>],
) -> Result<Module<'s>, IrError> {
    let mut rest = modules.into_iter().zip(units);
    let Some((merged, _)) = rest.next() else { return Ok(session.context().create_module("empty")) };
    for (module, unit) in rest {
        adopt_flags(&merged, &module);
        session.merge(&merged, module, unit.name)?;
    }
    Ok(merged)
}

/// Flags in which units may differ although LLVM rejects their merge. The denormal mode only selects the code in libdevice: every function
/// keeps its own mode as an attribute. How units are split matters to ThinLTO alone, which full LTO of all of them replaces; clang marks
/// those of `-flto=thin` otherwise than those of `-flto`.
const ADOPTED_FLAGS: [&str; 2] = [reflect::FLUSH_FLAG, "EnableSplitLTOUnit"];

/// Gives a module those flags of the merged one in which it may differ.
pub(crate) fn adopt_flags(merged: &Module<'_>, module: &Module<'_>) {
    for flag in ADOPTED_FLAGS {
        let first = sys::integer_module_flag(merged, flag);
        let own = sys::integer_module_flag(module, flag);
        if let (Some(first), Some(own)) = (first, own)
            && first != own
        {
            sys::set_module_flag(module, flag, u32::from(first != 0));
        }
    }
}

/// Makes a linkonce definition weak, of the same kind.
pub fn make_weak(module: &Module<'_>, name: &str) {
    let stronger = |linkage| match linkage {
        Linkage::LinkOnceODR | Linkage::LinkOnceODRAutoHide => Linkage::WeakODR,
        Linkage::LinkOnceAny => Linkage::WeakAny,
        other => other,
    };
    if let Some(function) = module.get_function(name) {
        function.set_linkage(stronger(function.get_linkage()));
    }
    if let Some(variable) = module.get_global(name) {
        variable.set_linkage(stronger(variable.get_linkage()));
    }
}

/// Makes every definition internal that is neither a kernel nor in `keep` (variables that the host registers, names that cubins
/// define or reference), so that the optimizer may change or remove it.
pub fn internalize(module: &Module<'_>, keep: &BTreeSet<String>) {
    let kept = |name: &str| name.starts_with("llvm.") || keep.contains(name);
    for function in module.get_functions() {
        let name = function.get_name().to_string_lossy();
        if function.count_basic_blocks() > 0 && !symbols::is_kernel(function) && !kept(&name) {
            make_internal(function.as_global_value(), function.get_linkage());
        }
    }
    for variable in module.get_globals() {
        let name = variable.get_name().to_string_lossy();
        if !variable.is_declaration() && !kept(&name) {
            make_internal(variable, variable.get_linkage());
        }
    }
    for indirect in sys::indirects(module) {
        if !kept(&indirect.name()) {
            indirect.make_internal();
        }
    }
}

/// Declares as kernels the functions of these names that the module does not define. clang declares a kernel of another unit as an ordinary
/// function; the address of such a function is not what NVIDIA's device runtime launches.
pub fn declare_kernels(module: &Module<'_>, names: &BTreeSet<String>) {
    let functions = names.iter().filter_map(|name| module.get_function(name));
    for function in functions.filter(|function| function.as_global_value().is_declaration()) {
        function.set_call_conventions(symbols::PTX_KERNEL);
    }
}

/// Removes those of these kernels that nothing in the module refers to. The others stay as they are.
///
/// # Errors
/// [`IrError::Codegen`].
pub fn remove_kernels(
    session: &Session,
    module: &Module<'_>,
    target: CodeTarget,
    names: &BTreeSet<String>,
) -> Result<(), IrError> {
    let mut hidden = Vec::new();
    for function in module.get_functions().filter(|function| symbols::is_kernel(*function)) {
        let name = function.get_name().to_string_lossy().into_owned();
        if function.count_basic_blocks() > 0 && names.contains(&name) {
            hidden.push((name, function.get_linkage()));
            make_internal(function.as_global_value(), function.get_linkage());
        }
    }
    if hidden.is_empty() {
        return Ok(());
    }
    let removed = module.run_passes("globaldce", &machine(target)?, PassBuilderOptions::create());
    check(session, Stage::Optimization, target, removed)?;
    for (name, linkage) in hidden {
        if let Some(function) = module.get_function(&name) {
            function.set_linkage(linkage);
        }
    }
    Ok(())
}

fn make_internal(global: GlobalValue<'_>, linkage: Linkage) {
    let already = matches!(
        linkage,
        Linkage::Internal
            | Linkage::Private
            | Linkage::Appending
            | Linkage::AvailableExternally
            | Linkage::ExternalWeak
    );
    if !already {
        sys::leave_comdat(global);
        global.set_linkage(Linkage::Internal);
    }
}

/// Whether the module references functions of libdevice.
pub fn needs_libdevice(module: &Module<'_>) -> bool {
    module.get_functions().any(|function| {
        function.count_basic_blocks() == 0
            && function.get_name().to_bytes().starts_with(b"__nv_")
            && sys::is_used(function)
    })
}

/// Adds the functions of libdevice that the module references. The bodies of all others are never loaded.
///
/// # Errors
/// Unreadable bitcode, or a merge that fails.
pub fn add_libdevice<'s>(
    session: &'s Session,
    module: &Module<'s>,
    libdevice: NamedBitcode<'s>,
) -> Result<(), IrError> {
    let library = session.read_lazily(libdevice.name, libdevice.bitcode)?;
    // LLVM's linker adds a linkonce definition only if it is referenced.
    for function in library.get_functions().filter(|function| function.count_basic_blocks() > 0 || is_public(*function))
    {
        function.set_linkage(if function.get_name().to_bytes().starts_with(b"llvm.") {
            function.get_linkage()
        } else {
            Linkage::LinkOnceODR
        });
    }
    library.set_triple(&module.get_triple());
    sys::copy_data_layout(module, &library);
    session.merge(module, library, libdevice.name)
}

/// Whether a function of a lazily read module is a visible definition; it has no basic blocks yet.
fn is_public(function: FunctionValue<'_>) -> bool {
    !function.as_global_value().is_declaration() && function.get_linkage() == Linkage::External
}

/// Replaces the calls of `__nvvm_reflect` and optimizes.
///
/// # Errors
/// [`IrError::Codegen`].
pub fn optimize(session: &Session, module: &Module<'_>, target: CodeTarget) -> Result<(), IrError> {
    let activity = format!("{} {}", crash::OPTIMIZING, target.arch);
    crash::during(&activity, || optimize_by(session, module, target, target.level.pipeline()))
}

/// As [`optimize`], for one of several partitions. The optimizer uses the bodies of functions that other partitions own, which
/// become declarations at the end.
///
/// # Errors
/// [`IrError::Codegen`].
pub fn optimize_partition(session: &Session, module: &Module<'_>, target: CodeTarget) -> Result<(), IrError> {
    sys::begin_copies(module);
    optimize_by(session, module, target, target.level.pipeline())?;
    sys::end_copies(module);
    let rest = module.run_passes("elim-avail-extern,globaldce", &machine(target)?, PassBuilderOptions::create());
    check(session, Stage::Optimization, target, rest)
}

fn optimize_by(session: &Session, module: &Module<'_>, target: CodeTarget, passes: &str) -> Result<(), IrError> {
    let machine = machine(target)?;
    reflect::replace_calls(module, target.arch);
    unify_attributes(session, module, target);
    check(session, Stage::MergedIr, target, module.verify())?;
    let passes = module.run_passes(passes, &machine, PassBuilderOptions::create());
    check(session, Stage::Optimization, target, passes)
}

/// Emits PTX.
///
/// # Errors
/// [`IrError::Codegen`].
pub fn emit_ptx(session: &Session, module: &Module<'_>, target: CodeTarget) -> Result<Vec<u8>, IrError> {
    let machine = machine(target)?;
    let activity = format!("{} {}", crash::GENERATING, target.arch);
    sys::move_used_last(module);
    let text = crash::during(&activity, || machine.write_to_memory_buffer(module, FileType::Assembly));
    let text = check(session, Stage::CodeGeneration, target, text)?;
    let bytes = text.as_slice();
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    Ok(bytes[..end].to_vec())
}

/// Whether the module defines a function of that name.
pub fn defines_function(module: &Module<'_>, name: &str) -> bool {
    module.get_function(name).is_some_and(|function| !function.as_global_value().is_declaration())
}

/// Turns all functions into declarations but these.
pub fn keep_bodies(module: &Module<'_>, names: &BTreeSet<String>) {
    let others = module.get_functions().filter(|function| {
        function.count_basic_blocks() > 0 && !names.contains(&*function.get_name().to_string_lossy())
    });
    others.collect::<Vec<_>>().into_iter().for_each(sys::delete_body);
}

/// Hashes a module: whatever LLVM makes of two modules with the same hash is the same.
pub fn hash_of(module: &Module<'_>) -> blake3::Hash {
    sys::hash(module)
}

/// Writes the module as bitcode, for `--save-temps`.
pub fn bitcode_of(module: &Module<'_>) -> Vec<u8> {
    module.write_bitcode_to_memory().as_slice().to_vec()
}

fn check<T>(session: &Session, stage: Stage, target: CodeTarget, result: Result<T, LLVMString>) -> Result<T, IrError> {
    joined(session, result).map_err(|message| IrError::codegen(stage, target.arch, LlvmError(message)))
}

/// Joins LLVM's result and the session's diagnostics into one result. LLVM reports some errors by one of the two alone, and an
/// error that is overlooked would mean wrong code.
pub(crate) fn joined<T>(session: &Session, result: Result<T, LLVMString>) -> Result<T, String> {
    let diagnosed = session.take_errors();
    match result {
        Ok(value) if diagnosed.is_empty() => Ok(value),
        Ok(_) => Err(diagnosed),
        Err(message) if diagnosed.is_empty() => Err(message.to_string_lossy().into_owned()),
        Err(message) => Err(format!("{}: {diagnosed}", message.to_string_lossy())),
    }
}

fn machine(target: CodeTarget) -> Result<TargetMachine, IrError> {
    let failed = |cause: CodegenError| IrError::codegen(Stage::Target, target.arch, cause);
    let triple = inkwell::targets::TargetTriple::create("nvptx64-nvidia-cuda");
    let nvptx = Target::from_triple(&triple).map_err(|error| failed(error.into()))?;
    nvptx
        .create_target_machine(
            &triple,
            &target.arch.to_string(),
            &target.ptx.llvm_feature(),
            target.level.code_generation(),
            RelocMode::Default,
            CodeModel::Default,
        )
        .ok_or_else(|| failed(CodegenError::NoSuchTarget))
}

/// Gives all functions the same processor and features. Units that were compiled for different PTX versions differ in them, and
/// LLVM inlines only between functions with the same.
fn unify_attributes(session: &Session, module: &Module<'_>, target: CodeTarget) {
    let arch = target.arch.to_string();
    let cpu = session.context().create_string_attribute("target-cpu", &arch);
    let features = format!("{},+{arch}", target.ptx.llvm_feature());
    let features = session.context().create_string_attribute("target-features", &features);
    for function in module.get_functions() {
        if !function.get_name().to_bytes().starts_with(b"llvm.") {
            function.add_attribute(AttributeLoc::Function, cpu);
            function.add_attribute(AttributeLoc::Function, features);
        }
    }
}

#[cfg(test)]
mod tests {
    use offload_bundle::arch::ArchFeature;

    use super::*;

    #[test]
    fn llvm_knows_every_target_of_its_ptx() {
        assert_eq!(inkwell::support::get_llvm_version().0, LLVM_MAJOR);
        crate::initialize();
        let session = Session::new();
        for gpu in KNOWN.gpus {
            let features = [
                Some(ArchFeature::Plain),
                gpu.family.map(|_| ArchFeature::Family),
                gpu.accelerated.map(|_| ArchFeature::Accelerated),
            ];
            for feature in features.into_iter().flatten() {
                let arch = GpuArch { number: gpu.number, feature };
                if arch.min_ptx() > NEWEST_PTX {
                    continue;
                }
                let target = CodeTarget { arch, ptx: arch.min_ptx(), level: OptLevel::O2 };
                let text = emit_ptx(&session, &session.context().create_module("m"), target).unwrap();
                let text = String::from_utf8(text).unwrap();
                // For an unknown target, LLVM emits code for another one.
                assert!(text.contains(&format!(".version {}\n.target {arch}\n", arch.min_ptx())), "{arch}: {text}");
            }
        }
    }
}
