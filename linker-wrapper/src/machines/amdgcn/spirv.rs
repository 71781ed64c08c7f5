//! Images that the runtime compiles: SPIR-V.

use llvm_passes::pipeline::{self, NamedBitcode};
use llvm_passes::session::Session;

use crate::diag::error::Errors;
use crate::machines::amdgcn::error::Error;
use crate::machines::amdgcn::images;
use crate::machines::amdgcn::soundness;
use crate::machines::amdgcn::target::{AmdImages, CodeObject};
use crate::machines::error::Error as MachineError;
use crate::machines::interface::Joined;
use crate::machines::llvm_programs;
use crate::plan::link_context::LinkContext;
use crate::profile::span;
use crate::toolchain::llvm_tools;

/// Merges the bitcode and translates it to SPIR-V, without optimizing it: the runtime compiles it for its GPU.
///
/// # Errors
/// Those that LLVM and the translator report.
pub fn link(target: &AmdImages<'_>, triple: &str, context: &LinkContext<'_>) -> Result<Joined<CodeObject>, Errors> {
    let _linking = span::traced("Link device input", || target.arch.name.clone());
    let stem = target.arch.stem();
    let session = Session::new();
    let units = target.units();
    let units: Vec<NamedBitcode<'_>> =
        units.iter().map(|unit| NamedBitcode { name: unit.name(), bitcode: unit.bitcode() }).collect();
    if let Some(other) = images::objects(target).next() {
        let (name, target) = (other.origin.to_string(), target.arch.name.clone());
        return Err(Error::NoAmdCode { name, target }.into());
    }
    let modules = pipeline::read_units(&session, &units).map_err(Errors::from_iter)?;
    let merged = pipeline::merge(&session, modules, &units)?;
    let input = context.temp_files.write(&format!("{stem}.linked.bc"), &pipeline::bitcode_of(&merged))?;
    let output = context.temp_files.file(&format!("{stem}.img"));
    let mode = context.request.mode;
    let (program, bytes) = if target.arch.options.spirv_backend {
        let clang = llvm_tools::clang(mode)?;
        let bytes = llvm_programs::compile_spirv(&clang, triple, input, &output, mode)?;
        (clang, bytes)
    } else {
        let llvm_spirv = llvm_tools::llvm_spirv(mode)?;
        let bytes = llvm_programs::translate(&llvm_spirv, &target.arch.name, input, &output, mode)?;
        (llvm_spirv, bytes)
    };
    if !mode.dry {
        let unusable = |flaw| MachineError::unusable(&program, &target.arch.name, flaw, &output);
        soundness::check_spirv(&bytes).map_err(unusable)?;
    }
    Ok(Joined {
        linked: CodeObject { bytes, ..CodeObject::default() },
        messages: vec![session.take_messages()],
        ..Joined::default()
    })
}
