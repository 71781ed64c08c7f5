//! The steps of jobs for AMD's GPUs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use llvm_passes::amdgpu::{self, PartitionCode, TrappingUse};
use llvm_passes::pipeline::{self, NamedBitcode};
use llvm_passes::session::Session;
use llvm_passes::{IrError, Module};

use crate::device::symbol_errors;
use crate::diag::error::Errors;
use crate::machines::amdgcn::error::Error as AmdError;
use crate::machines::amdgcn::job_code::{AmdCode, AmdMade, Hides};
use crate::machines::amdgcn::soundness;
use crate::machines::error::Error;
use crate::machines::job_code::{Emitted, Generate, JobCode, Library, Made, Place, PutTool, Written};
use crate::profile::span;
use crate::sys::temp_files;

/// Who writes objects.
const FATLINK: &str = "fatlink";

impl AmdCode {
    /// Rejects functions in which LLVM compiled the use of local memory to a trap.
    fn reject_traps(&self, uses: &[TrappingUse]) -> Result<(), Errors> {
        let error = |TrappingUse { function, variables }: &TrappingUse| {
            let names: Vec<String> =
                variables.iter().map(|name| format!("the variable {}", symbol_errors::named(name))).collect();
            let variables = if names.is_empty() { "a variable".to_owned() } else { names.join(" and ") };
            let function = format!("the function {}", symbol_errors::named(function));
            AmdError::LocalMemory { function, variables, target: self.target() }
        };
        uses.iter().map(error).collect::<Errors>().or(())
    }
}

impl Generate for AmdCode {
    fn target(&self) -> String {
        self.target.name().to_owned()
    }

    fn read_units<'s>(
        &self,
        session: &'s Session,
        units: &[NamedBitcode<'_>],
    ) -> Result<Vec<Module<'s>>, Vec<IrError>> {
        amdgpu::read_units(session, units)
    }

    fn internalize<'s>(
        &self,
        _session: &'s Session,
        module: &Module<'s>,
        keep: &BTreeSet<String>,
        whole: bool,
        _library: Library<'_, 's>,
    ) -> Result<(), Errors> {
        match whole {
            true if self.hides == Hides::Nothing => {}
            true => amdgpu::internalize(module, keep, self.hides == Hides::Functions),
            false => pipeline::internalize(module, keep),
        }
        Ok(())
    }

    fn optimize(&self, session: &Session, module: &Module<'_>, whole: bool) -> Result<(), IrError> {
        match whole {
            true => amdgpu::optimize(session, module, &self.target),
            false => amdgpu::optimize_partition(session, module, &self.target),
        }
    }

    fn try_to_emit(&self, session: &Session, module: &Module<'_>) -> Result<(), IrError> {
        amdgpu::expose_functions(module);
        amdgpu::emit_object(session, module, &self.target).map(drop)
    }

    fn emit(&self, session: &Session, module: Module<'_>, whole: bool) -> Result<Emitted, Errors> {
        if self.object.as_os_str().is_empty() {
            return Ok(Emitted::Nothing);
        }
        let _emitting = span::traced_passes("Generate code", || self.target());
        let code = match whole {
            true => {
                let (object, calls) = amdgpu::emit_object(session, &module, &self.target)?;
                PartitionCode::Object(object, calls)
            }
            false => amdgpu::emit_partition(session, &module, &self.target)?,
        };
        self.reject_traps(&amdgpu::trapping_uses(session, &module))?;
        Ok(Emitted::Amdgpu(code))
    }

    fn without_outputs(&self) -> JobCode {
        JobCode::Amdgpu(AmdCode { object: PathBuf::new(), ..self.clone() })
    }

    /// Registers of a partition's functions depend on all of its kernels, so that none is left out.
    fn without_kernels(&self, _dead: BTreeSet<String>) -> JobCode {
        JobCode::Amdgpu(self.clone())
    }

    fn write(&self, emitted: Emitted) -> Result<(Written, Vec<u64>), Errors> {
        let made = match emitted {
            Emitted::Amdgpu(PartitionCode::Object(object, pointer_calls)) => {
                temp_files::write_file(&self.object, &object)?;
                AmdMade { pointer_calls, calls: Vec::new() }
            }
            Emitted::Amdgpu(PartitionCode::Calls(calls)) => AmdMade { calls, ..AmdMade::default() },
            Emitted::Nvptx(_) | Emitted::Host(_) | Emitted::Nothing => AmdMade::default(),
        };
        Ok((Written::Amdgpu(made), Vec::new()))
    }

    fn run_tools(&self, _name: &str, written: Written, _show: &dyn Fn(String)) -> Result<Made, Errors> {
        Ok(match written {
            Written::Amdgpu(made) => Made::Amdgpu(made),
            Written::Nvptx(_) | Written::Host | Written::Nothing => Made::Nothing,
        })
    }

    fn files(&self, made: &Made) -> Vec<PathBuf> {
        match made {
            // Without what the code calls, there is no object.
            Made::Amdgpu(AmdMade { calls, .. }) if !calls.is_empty() => Vec::new(),
            _ => vec![self.object.clone()],
        }
    }

    fn check(&self, made: &Made, _texts: usize, files: &[Vec<u8>], kernels: &[String]) -> Result<(), Errors> {
        if !matches!(made, Made::Amdgpu(_)) || files.len() != self.files(made).len() {
            return Err(Error::NoCode { name: self.target() }.into());
        }
        let Some(object) = files.first() else { return Ok(()) };
        let checked = soundness::check(object, &self.target.processor, false, kernels);
        Ok(checked.map_err(|flaw| Error::unusable(Path::new(FATLINK), self.target(), flaw, &self.object))?)
    }

    fn portable(&self, _put: PutTool<'_>) -> Result<JobCode, Errors> {
        Ok(JobCode::Amdgpu(AmdCode { object: "object.o".into(), ..self.clone() }))
    }

    fn placed(&self, place: Place<'_>) -> JobCode {
        JobCode::Amdgpu(AmdCode { object: place.work.join(&self.object), ..self.clone() })
    }
}
