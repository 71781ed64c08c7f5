//! From modules to an object for an AMD GPU, as ld.lld's own LTO does it.
//!
//! ld.lld turns the object into a code object. Its result for one module is the same as if it had compiled the bitcode itself:
//! the same symbols stay visible, and the pipeline and the options of code generation are the same.

use std::collections::BTreeSet;

use inkwell::module::{Linkage, Module};
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, FileType, RelocMode, Target, TargetMachine, TargetTriple};
use inkwell::values::{FunctionValue, GlobalValue, UnnamedAddress};
use inkwell::{GlobalVisibility, OptimizationLevel};

use crate::pipeline::{self, NamedBitcode, OptLevel};
use crate::session::Session;
use crate::{BitcodeError, CodegenError, IrError, LlvmError, Stage, crash, sys};

/// The triple of HIP's code.
pub const TRIPLE: &str = "amdgcn-amd-amdhsa";

/// The module flag with the version of the code object, times 100.
const VERSION_FLAG: &str = "amdhsa_code_object_version";

/// What code is compiled for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmdTarget {
    /// `gfx90a`; empty for code whose functions name their processors.
    pub processor: String,
    /// The target id's features: `-sramecc,+xnack`.
    pub features: String,
    /// Optimization level.
    pub level: OptLevel,
}

impl AmdTarget {
    /// The name in messages.
    fn name(&self) -> &str {
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

fn require_amdgcn(module: &Module<'_>, unit: &str) -> Result<(), IrError> {
    let triple = module.get_triple().as_str().to_string_lossy().into_owned();
    if triple.is_empty() || triple.starts_with("amdgcn") {
        return Ok(());
    }
    let cause = BitcodeError::Triple { triple, wanted: "amdgcn" };
    Err(IrError::Bitcode { unit: unit.to_owned(), cause })
}

/// The version of the code object that the unit was compiled for, times 100, if it names one.
pub fn code_object_version(module: &Module<'_>) -> Option<u64> {
    sys::integer_module_flag(module, VERSION_FLAG)
}

/// Makes every definition internal that the code object does not export, as ld.lld decides it for a shared library: kernels, what is not
/// hidden, and `keep`, the names that other objects define or reference, stay.
pub fn internalize(module: &Module<'_>, keep: &BTreeSet<String>) {
    let functions = module.get_functions().map(FunctionValue::as_global_value);
    let exported = functions.chain(module.get_globals()).filter(|value| is_exported(*value));
    let mut visible = keep.clone();
    visible.extend(exported.map(|value| value.get_name().to_string_lossy().into_owned()));
    // The optimizer may drop linkonce definitions; those of exported names must stay.
    visible.iter().for_each(|name| pipeline::make_weak(module, name));
    pipeline::internalize(module, &visible);
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
    let activity = format!("{} {}", crash::OPTIMIZING, target.name());
    crash::during(&activity, || {
        check(session, Stage::MergedIr, target, module.verify())?;
        check(session, Stage::Optimization, target, module.run_passes(target.level.pipeline(), &machine, options))
    })
}

/// Emits a relocatable object.
///
/// # Errors
/// [`IrError::Codegen`].
pub fn emit_object(session: &Session, module: &Module<'_>, target: &AmdTarget) -> Result<Vec<u8>, IrError> {
    let machine = machine(target)?;
    sys::use_sections(&machine);
    let activity = format!("{} {}", crash::GENERATING, target.name());
    let object = crash::during(&activity, || machine.write_to_memory_buffer(module, FileType::Object));
    Ok(check(session, Stage::CodeGeneration, target, object)?.as_slice().to_vec())
}

fn machine(target: &AmdTarget) -> Result<TargetMachine, IrError> {
    let failed = |cause: CodegenError| IrError::codegen(Stage::Target, target.name(), cause);
    sys::initialize_amdgpu();
    let triple = TargetTriple::create(TRIPLE);
    let amdgpu = Target::from_triple(&triple).map_err(|error| failed(error.into()))?;
    // ld.lld generates code at no lower level than the default.
    let level = match target.level {
        OptLevel::O3 => OptimizationLevel::Aggressive,
        _ => OptimizationLevel::Default,
    };
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
