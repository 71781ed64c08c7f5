//! Code for processors of the host: an object, which the host linker links.

use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, FileType, RelocMode, Target, TargetMachine, TargetTriple};

use crate::error::{CodegenError, IrError, LlvmError, Stage};
use crate::pipeline::OptLevel;
use crate::session::Session;
use crate::{crash, structors, sys};

/// Optimizes a program for the processor of a triple.
///
/// # Errors
/// [`IrError::Codegen`].
pub fn optimize(module: &Module<'_>, triple: &str, level: OptLevel) -> Result<(), IrError> {
    let machine = machine(triple, level)?;
    crash::during(&format!("{} {triple}", crash::OPTIMIZING), || {
        let failed = |stage| move |error| IrError::codegen(stage, triple, error);
        module.verify().map_err(failed(Stage::MergedIr))?;
        module.run_passes(level.pipeline(), &machine, PassBuilderOptions::create()).map_err(failed(Stage::Optimization))
    })
}

/// Compiles an optimized program to a position-independent object.
///
/// # Errors
/// [`IrError::Codegen`].
pub fn emit_object(session: &Session, module: &Module<'_>, triple: &str, level: OptLevel) -> Result<Vec<u8>, IrError> {
    let machine = machine(triple, level)?;
    let failed = |error: CodegenError| IrError::codegen(Stage::CodeGeneration, triple, error);
    crash::during(&format!("compiling device code for {triple}"), || {
        structors::use_init_array(module);
        let object = machine.write_to_memory_buffer(module, FileType::Object);
        let object = object.map_err(|error| failed(error.into()))?;
        match session.take_errors() {
            errors if errors.is_empty() => Ok(object.as_slice().to_vec()),
            errors => Err(failed(LlvmError(errors).into())),
        }
    })
}

/// Functions have their own processor and features as attributes.
fn machine(triple: &str, level: OptLevel) -> Result<TargetMachine, IrError> {
    let failed = |error: CodegenError| IrError::codegen(Stage::CodeGeneration, triple, error);
    sys::initialize_host(triple);
    let target_triple = TargetTriple::create(triple);
    let target = Target::from_triple(&target_triple).map_err(|error| failed(error.into()))?;
    let (reloc, code) = (RelocMode::PIC, CodeModel::Default);
    target
        .create_target_machine(&target_triple, processor(triple), "", level.code_generation(), reloc, code)
        .ok_or_else(|| failed(CodegenError::NoCodeGenerator("processor")))
}

/// The processor of functions that name none: the oldest of the machine.
fn processor(triple: &str) -> &'static str {
    if triple.starts_with("x86_64") || triple.starts_with("amd64") { "x86-64" } else { "generic" }
}
