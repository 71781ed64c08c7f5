//! From modules to an object for an AMD GPU, as ld.lld's own LTO does it.
//!
//! ld.lld turns the object into a code object. Its result for one module is the same as if it had compiled the bitcode itself:
//! the same symbols stay visible, and the pipeline and the options of code generation are the same.

use std::collections::BTreeSet;

use inkwell::GlobalVisibility;
use inkwell::module::{Linkage, Module};
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, RelocMode, Target, TargetMachine, TargetTriple};
use inkwell::values::{FunctionValue, GlobalValue, UnnamedAddress};
use offload_bundle::amdgpu::PointerCalls;
use serde::{Deserialize, Serialize};

use crate::error::{BitcodeError, CodegenError, IrError, LlvmError, Stage};
use crate::pipeline::{self, NamedBitcode, OptLevel};
use crate::reference_graph::{self, ReferenceGraph};
use crate::session::Session;
use crate::{crash, symbols, sys};

/// The triple of HIP's code.
pub const TRIPLE: &str = "amdgcn-amd-amdhsa";

/// The module flag with the version of the code object, times 100.
const VERSION_FLAG: &str = "amdhsa_code_object_version";

/// What code is compiled for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmdTarget {
    /// `gfx90a`; empty for code whose functions name their processors.
    pub processor: String,
    /// The target id's features: `-sramecc,+xnack`.
    pub features: String,
    /// Optimization level.
    pub level: OptLevel,
    /// Level of code generation.
    pub generation: OptLevel,
    /// The passes that run instead of those of the level, as `opt -passes=` takes them.
    pub passes: Option<String>,
    /// Each pass is printed when it runs.
    pub prints_passes: bool,
}

impl AmdTarget {
    /// A target whose code is optimized as the level says.
    pub fn new(processor: String, features: String, level: OptLevel) -> Self {
        let generation = Self::usual_generation(level);
        AmdTarget { processor, features, level, generation, passes: None, prints_passes: false }
    }

    /// The level of code generation that goes with an optimization level alone: ld.lld takes none below the default.
    pub fn usual_generation(level: OptLevel) -> OptLevel {
        if level == OptLevel::O3 { OptLevel::O3 } else { OptLevel::O2 }
    }

    /// The name in messages.
    pub fn name(&self) -> &str {
        if self.processor.is_empty() { TRIPLE } else { &self.processor }
    }
}

/// Whether LLVM generates code for this processor.
pub fn knows_processor(name: &str) -> bool {
    sys::is_amd_processor(name)
}

/// Reads all units into the session.
///
/// # Errors
/// One [`IrError`] for every unit that cannot be read or whose code is not for AMD GPUs.
pub fn read_units<'s>(session: &'s Session, units: &[NamedBitcode<'_>]) -> Result<Vec<Module<'s>>, Vec<IrError>> {
    let modules = pipeline::read_units(session, units)?;
    let wrong = modules.iter().zip(units).filter_map(|(module, unit)| require_amdgcn(module, unit.name).err());
    let wrong: Vec<_> = wrong.collect();
    if wrong.is_empty() { Ok(modules) } else { Err(wrong) }
}

pub(crate) fn require_amdgcn(module: &Module<'_>, unit: &str) -> Result<(), IrError> {
    let triple = module.get_triple().as_str().to_string_lossy().into_owned();
    if triple.is_empty() || triple.starts_with("amdgcn") {
        return Ok(());
    }
    let cause = BitcodeError::Triple { triple, wanted: "amdgcn" };
    Err(IrError::Bitcode { unit: unit.to_owned(), cause })
}

/// What a program is cut by, of one unit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmdFacts {
    /// The references within the unit.
    pub graph: ReferenceGraph,
    /// The names of the definitions that the code object exports.
    pub exported: BTreeSet<String>,
    /// The version of the code object that the unit was compiled for, times 100, if it names one.
    pub version: Option<u64>,
}

impl AmdFacts {
    /// Reads a module whose bodies are loaded.
    pub(crate) fn of_module(module: &Module<'_>) -> Self {
        AmdFacts {
            graph: reference_graph::of_module(module),
            exported: exported(module),
            version: code_object_version(module),
        }
    }
}

/// The version of the code object that the unit was compiled for, times 100, if it names one.
pub fn code_object_version(module: &Module<'_>) -> Option<u64> {
    sys::integer_module_flag(module, VERSION_FLAG)
}

/// Makes every definition internal that the code object does not export, as ld.lld decides it for a shared library: kernels, what is not
/// hidden, what `llvm.used` and `llvm.compiler.used` list, and `keep`, the names that other objects define or reference, stay. With
/// `hides_functions`, no other functions than kernels are exported.
pub fn internalize(module: &Module<'_>, keep: &BTreeSet<String>, hides_functions: bool) {
    let mut visible = exported(module);
    visible.extend(sys::used_names(module));
    if hides_functions {
        // As in LLVM, a sanitizer's functions stay: instructions that call them may still be added.
        let may_be_called = |name: &str| name.starts_with("__asan_") || name.starts_with("__sanitizer_");
        let is_hidden = |name: &str| module.get_function(name).is_some_and(|function| !symbols::is_kernel(function));
        visible.retain(|name| may_be_called(name) || !is_hidden(name));
    }
    visible.extend(keep.iter().cloned());
    // The optimizer may drop linkonce definitions; those of exported names must stay.
    visible.iter().for_each(|name| pipeline::make_weak(module, name));
    pipeline::internalize(module, &visible);
}

/// The names of the definitions that the code object exports.
pub fn exported(module: &Module<'_>) -> BTreeSet<String> {
    let functions = module.get_functions().map(FunctionValue::as_global_value);
    let exported = functions.chain(module.get_globals()).filter(|value| is_exported(*value));
    let names = exported.map(|value| value.get_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with("llvm.")).collect()
}

fn is_exported(value: GlobalValue<'_>) -> bool {
    if value.is_declaration() || value.get_visibility() == GlobalVisibility::Hidden {
        return false;
    }
    match value.get_linkage() {
        Linkage::External | Linkage::WeakAny | Linkage::WeakODR | Linkage::LinkOnceAny | Linkage::Common => true,
        // Every unit has the definition, and nobody compares its address: the symbol table can omit it.
        Linkage::LinkOnceODR => value.get_unnamed_address() != UnnamedAddress::Global,
        _ => false,
    }
}

/// Optimizes a merged program.
///
/// # Errors
/// [`IrError::Codegen`].
pub fn optimize(session: &Session, module: &Module<'_>, target: &AmdTarget) -> Result<(), IrError> {
    let machine = machine(target)?;
    let vectorizes = !matches!(target.level, OptLevel::O0 | OptLevel::O1);
    let options = PassBuilderOptions::create();
    options.set_loop_vectorization(vectorizes);
    options.set_loop_slp_vectorization(vectorizes);
    options.set_debug_logging(target.prints_passes);
    let passes = target.passes.as_deref().unwrap_or(target.level.pipeline());
    let activity = format!("{} {}", crash::OPTIMIZING, target.name());
    crash::during(&activity, || {
        check(session, Stage::MergedIr, target, module.verify())?;
        check(session, Stage::Optimization, target, module.run_passes(passes, &machine, options))
    })
}

/// The code of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionCode {
    /// A relocatable object, with what calls through pointers mean for its kernels and for those of other partitions.
    Object(Vec<u8>, PointerCalls),
    /// The optimized code calls these functions of other partitions by name, so that LLVM cannot know what their kernels need.
    Calls(Vec<String>),
}

/// Optimizes one of several partitions. The optimizer uses the bodies of functions that other partitions own, which become
/// declarations at the end.
///
/// # Errors
/// [`IrError::Codegen`].
pub fn optimize_partition(session: &Session, module: &Module<'_>, target: &AmdTarget) -> Result<(), IrError> {
    sys::begin_copies(module);
    optimize(session, module, target)?;
    sys::end_copies(module);
    let cleaned = module.run_passes("elim-avail-extern,globaldce", &machine(target)?, PassBuilderOptions::create());
    check(session, Stage::Optimization, target, cleaned)
}

/// Generates the code of an optimized partition.
///
/// # Errors
/// [`IrError::Codegen`].
pub fn emit_partition(session: &Session, module: &Module<'_>, target: &AmdTarget) -> Result<PartitionCode, IrError> {
    let called = sys::called_declarations(module);
    if !called.is_empty() {
        return Ok(PartitionCode::Calls(called));
    }
    let (object, calls) = emit(session, module, target, true)?;
    Ok(PartitionCode::Object(object, calls))
}

/// A function that uses local memory (LDS) although no kernel of its program is known to call it, which LLVM compiles to a trap.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrappingUse {
    /// The function.
    pub function: String,
    /// The variables in local memory that it uses.
    pub variables: Vec<String>,
}

/// What LLVM says, as a warning, of a use of local memory that it compiles to a trap.
pub const TRAP_WARNING: &str = "local memory global used by non-kernel function";

/// The uses of local memory that LLVM has compiled to traps in a module whose code was emitted, sorted.
pub fn trapping_uses(session: &Session, module: &Module<'_>) -> Vec<TrappingUse> {
    let warnings = session.take_messages_with(TRAP_WARNING);
    let functions: BTreeSet<String> =
        warnings.into_iter().map(|warning| warning.function.unwrap_or_default()).collect();
    let variables = |function: String| TrappingUse { variables: sys::local_memory_of(module, &function), function };
    functions.into_iter().map(variables).collect()
}

/// Makes every function visible, so that code generation does not leave out those that nothing calls.
pub fn expose_functions(module: &Module<'_>) {
    let local = module.get_functions().filter(|function| {
        function.count_basic_blocks() > 0 && matches!(function.get_linkage(), Linkage::Internal | Linkage::Private)
    });
    local.for_each(|function| function.set_linkage(Linkage::External));
}

/// Emits a relocatable object, and tells what calls through pointers mean for its kernels.
///
/// # Errors
/// [`IrError::Codegen`].
pub fn emit_object(
    session: &Session,
    module: &Module<'_>,
    target: &AmdTarget,
) -> Result<(Vec<u8>, PointerCalls), IrError> {
    emit(session, module, target, false)
}

fn emit(
    session: &Session,
    module: &Module<'_>,
    target: &AmdTarget,
    is_part: bool,
) -> Result<(Vec<u8>, PointerCalls), IrError> {
    let machine = machine(target)?;
    sys::use_sections(&machine);
    let activity = format!("{} {}", crash::GENERATING, target.name());
    let emitted = crash::during(&activity, || sys::emit_amd_object(module, &machine, is_part));
    check(session, Stage::CodeGeneration, target, Ok(()))?;
    emitted.map_err(|message| IrError::codegen(Stage::CodeGeneration, target.name(), LlvmError(message)))
}

fn machine(target: &AmdTarget) -> Result<TargetMachine, IrError> {
    let failed = |cause: CodegenError| IrError::codegen(Stage::Target, target.name(), cause);
    sys::initialize_amdgpu();
    let triple = TargetTriple::create(TRIPLE);
    let amdgpu = Target::from_triple(&triple).map_err(|error| failed(error.into()))?;
    let level = target.generation.code_generation();
    amdgpu
        .create_target_machine(&triple, &target.processor, &target.features, level, RelocMode::PIC, CodeModel::Default)
        .ok_or_else(|| failed(CodegenError::NoCodeGenerator("processor")))
}

/// Joins LLVM's result and the session's diagnostics into one result: LLVM reports some errors by one of the two alone.
fn check<T>(
    session: &Session,
    stage: Stage,
    target: &AmdTarget,
    result: Result<T, inkwell::support::LLVMString>,
) -> Result<T, IrError> {
    pipeline::joined(session, result).map_err(|message| IrError::codegen(stage, target.name(), LlvmError(message)))
}
