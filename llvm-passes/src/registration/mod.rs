//! The host object that hands the finished device image to the runtime at start-up.
//!
//! LLVM makes only the code and the tables. The image itself stays out of the IR: its section is
//! left empty here and filled in the written object, because hundreds of megabytes must not become
//! an LLVM constant.

mod common;
mod cuda;
mod openmp;

use std::ops::Range;

use inkwell::OptimizationLevel;
use inkwell::module::Module;
use inkwell::targets::{CodeModel, FileType, RelocMode, Target, TargetTriple};

use crate::IrError;
use crate::session::Session;
use crate::structors;

/// What is registered, and with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration<'a> {
    /// One fatbin, with the CUDA runtime.
    Cuda,
    /// Offload binaries back to back, with libomptarget.
    OpenMp {
        /// Where in them the images proper lie, in bytes.
        images: &'a [Range<u64>],
        /// The host link is a relocatable one (`-r`).
        relocatable: bool,
    },
}

/// The empty place in the object that the image is to fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Name of its section.
    pub section: &'static str,
    /// The symbol that stands for it.
    pub symbol: &'static str,
}

impl Registration<'_> {
    /// The offload kind, as file names and traces have it.
    pub fn name(&self) -> &'static str {
        match self {
            Registration::Cuda => "cuda",
            Registration::OpenMp { .. } => "openmp",
        }
    }

    /// Where the image goes.
    pub fn slot(&self) -> Slot {
        match self {
            Registration::Cuda => cuda::SLOT,
            Registration::OpenMp { relocatable: false, .. } => openmp::SLOT,
            Registration::OpenMp { relocatable: true, .. } => openmp::RELOCATABLE_SLOT,
        }
    }
}

/// Builds the registration module for a host.
///
/// # Errors
/// [`IrError::Backend`] if LLVM's builder refuses (it never should).
pub fn build<'s>(
    session: &'s Session,
    host_triple: &str,
    registration: &Registration<'_>,
) -> Result<Module<'s>, IrError> {
    let module = session.context().create_module("offload.wrapper.module");
    module.set_triple(&TargetTriple::create(host_triple));
    let built = match registration {
        Registration::Cuda => cuda::build(&module),
        Registration::OpenMp { images, .. } => openmp::build(&module, registration.slot(), images),
    };
    built.map_err(|error| failed(host_triple, error.to_string()))?;
    Ok(module)
}

/// The module as text, for `--print-wrapped-module`.
pub fn print(module: &Module<'_>) -> String {
    module.print_to_string().to_string_lossy().into_owned()
}

/// Compiles a registration module to a position-independent object for the host.
///
/// # Errors
/// [`IrError::Backend`]: a host that this program has no code generator for.
pub fn compile(session: &Session, module: &Module<'_>, host_triple: &str) -> Result<Vec<u8>, IrError> {
    let triple = TargetTriple::create(host_triple);
    let target =
        Target::from_triple(&triple).map_err(|error| failed(host_triple, error.to_string_lossy().into_owned()))?;
    // It runs once when a program starts: compiling it well takes 7 ms, compiling it fast 2.
    let machine = target
        .create_target_machine(&triple, "", "", OptimizationLevel::None, RelocMode::PIC, CodeModel::Default)
        .ok_or_else(|| failed(host_triple, "no code generator for this host".to_owned()))?;
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    structors::use_init_array(module);
    let object = machine
        .write_to_memory_buffer(module, FileType::Object)
        .map_err(|error| failed(host_triple, error.to_string_lossy().into_owned()))?;
    match session.take_errors() {
        errors if errors.is_empty() => Ok(object.as_slice().to_vec()),
        errors => Err(failed(host_triple, errors)),
    }
}

fn failed(host_triple: &str, message: String) -> IrError {
    IrError::Backend { stage: "registration code", target: host_triple.to_owned(), message }
}
