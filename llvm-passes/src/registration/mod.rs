//! The host object that hands the finished device images to a runtime at start-up.
//!
//! Every offload kind has a file here with one type that implements [`Registration`]: the name of the kind, the [`Slot`] that the
//! images fill, and the code. [`build`], [`print()`] and [`compile`] are the same for all. A new kind is a new file, declared and
//! exported below.
//!
//! LLVM compiles only the code and the tables. The images stay out of the IR: their section is empty here and is filled in the
//! written object, because hundreds of megabytes must not become an LLVM constant.
//!
//! ```
//! use llvm_passes::registration::{self, Cuda, EntryTables, Registration};
//! use llvm_passes::session::Session;
//!
//! let session = Session::new();
//! let host = "x86_64-pc-linux-gnu";
//! let module = registration::build(&session, host, &Cuda, EntryTables::Current)?;
//! let object = registration::compile(&session, &module, host)?;
//! assert_eq!(Cuda.slot().section, ".nv_fatbin");
//! assert!(object.starts_with(b"\x7fELF"));
//! # Ok::<(), llvm_passes::IrError>(())
//! ```

mod common;
mod cuda;
mod entries;
mod entry_tables;
mod folded;
mod hip;
mod openmp;

use std::collections::BTreeMap;

use inkwell::OptimizationLevel;
use inkwell::builder::BuilderError;
use inkwell::module::{Linkage, Module};
use inkwell::targets::{CodeModel, FileType, RelocMode, Target, TargetTriple};

use crate::error::{CodegenError, IrError, LlvmError, Stage};
use crate::session::Session;
use crate::structors;
use crate::sys;

pub use cuda::{ClangUnits, Cuda, CudaFolded, CudaPrelinked, CudaUnits};
pub use hip::{Hip, HipFolded};
pub use openmp::OpenMp;

/// How the images of one offload kind are registered.
pub trait Registration: Send + Sync {
    /// The offload kind, as file names and traces have it.
    fn name(&self) -> &'static str;

    /// Where the images go.
    fn slot(&self) -> Slot;

    /// A second image, which the program hands to the runtime beside the first, and where it goes.
    fn second_image(&self) -> Option<(Slot, &[u8])> {
        None
    }

    /// The kernels that are not in the images, each with the kernel that is launched in its place.
    fn folded(&self) -> Option<&BTreeMap<String, String>> {
        None
    }

    /// Adds the tables and the start-up code to an empty module.
    ///
    /// # Errors
    /// LLVM's builder rejects what it is given, which never should happen.
    fn build(&self, module: &Module<'_>, tables: EntryTables) -> Result<(), BuilderError>;
}

/// The tables of offload entries that a program has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EntryTables {
    /// The one of clang 21 and later.
    #[default]
    Current,
    /// That, and those of clang 15 to 20.
    WithFormer,
    /// The same, where libomptarget reads OpenMP's entries of clang 15 to 20 itself, and there are no later ones of OpenMP.
    WithFormerOfOpenMp,
}

/// The empty place in the object that the images are to fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Name of its section.
    pub section: &'static str,
    /// The symbol that stands for it.
    pub symbol: &'static str,
}

/// Builds the registration module for a host.
///
/// # Errors
/// [`IrError::Codegen`] if LLVM's builder rejects the code, which never should happen.
pub fn build<'s>(
    session: &'s Session,
    host_triple: &str,
    registration: &dyn Registration,
    tables: EntryTables,
) -> Result<Module<'s>, IrError> {
    let module = session.context().create_module("offload.wrapper.module");
    module.set_triple(&TargetTriple::create(host_triple));
    registration.build(&module, tables).map_err(|error| failed(host_triple, error))?;
    Ok(module)
}

/// Adds an ELF note, whose name and type its bytes have, in a section whose name starts with `.note`.
pub fn add_note(module: &Module<'_>, section: &str, note: &[u8]) {
    let bytes = module.get_context().const_string(note, false);
    let global = module.add_global(bytes.get_type(), None, ".fatlink.note");
    global.set_initializer(&bytes);
    global.set_linkage(Linkage::Internal);
    global.set_constant(true);
    global.set_alignment(4);
    global.set_section(Some(section));
}

/// Marks the wrapper record as one that sanitizers leave alone, as LLVM 23 does: the runtime reads it by its layout. No sanitizer runs on
/// this module, so only its text differs.
pub fn exclude_from_sanitizers(module: &Module<'_>) {
    module.get_global(common::WRAPPER).into_iter().for_each(sys::exclude_from_sanitizers);
}

/// The module as text, for `--print-wrapped-module`.
pub fn print(module: &Module<'_>) -> String {
    module.print_to_string().to_string_lossy().into_owned()
}

/// Compiles a registration module to a position-independent object for the host.
///
/// # Errors
/// [`IrError::Codegen`]: this program has no code generator for the host.
pub fn compile(session: &Session, module: &Module<'_>, host_triple: &str) -> Result<Vec<u8>, IrError> {
    sys::initialize_host(host_triple);
    let triple = TargetTriple::create(host_triple);
    let target = Target::from_triple(&triple).map_err(|error| failed(host_triple, error))?;
    // It runs once when a program starts: compiling it well takes 7 ms, compiling it fast 2.
    let machine = target
        .create_target_machine(&triple, "", "", OptimizationLevel::None, RelocMode::PIC, CodeModel::Default)
        .ok_or_else(|| failed(host_triple, CodegenError::NoCodeGenerator("host")))?;
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    structors::use_init_array(module);
    let object =
        machine.write_to_memory_buffer(module, FileType::Object).map_err(|error| failed(host_triple, error))?;
    match session.take_errors() {
        errors if errors.is_empty() => Ok(object.as_slice().to_vec()),
        errors => Err(failed(host_triple, LlvmError(errors))),
    }
}

fn failed(host_triple: &str, cause: impl Into<CodegenError>) -> IrError {
    IrError::codegen(Stage::RegistrationCode, host_triple, cause)
}
