//! What device code runs on. Each machine implements [`interface::Machine`]; `lto/` links the code of all of them by it.

pub mod amdgcn;
pub mod error;
pub mod flaw;
pub mod host;
pub mod interface;
pub mod job_code;
pub mod llvm_programs;
pub mod nvptx;
#[cfg(test)]
pub mod samples;
pub mod unknown_input;

use llvm_passes::Module;
use llvm_passes::amdgpu;
use llvm_passes::pipeline::NamedBitcode;

use crate::diag::error::Errors;

/// Rejects units of one target of any machine that cannot be merged.
///
/// # Errors
/// One for each that does not fit the first.
pub fn check_modules(modules: &[Module<'_>], units: &[NamedBitcode<'_>]) -> Result<(), Errors> {
    // Only units for AMD's GPUs have a version.
    let versions: Vec<Option<u64>> = modules.iter().map(amdgpu::code_object_version).collect();
    amdgcn::images::same_version(&versions, &units.iter().map(|unit| unit.name).collect::<Vec<_>>())
}
