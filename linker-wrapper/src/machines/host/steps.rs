//! The steps of jobs for processors of the host.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use llvm_passes::pipeline::{self, NamedBitcode};
use llvm_passes::session::Session;
use llvm_passes::{IrError, Module, host};

use crate::diag::error::Errors;
use crate::machines::error::Error;
use crate::machines::host::job_code::HostJob;
use crate::machines::host::soundness;
use crate::machines::job_code::{Emitted, Generate, JobCode, Library, Made, Place, PutTool, Written};
use crate::profile::span;
use crate::sys::temp_files;

/// Who writes objects.
const FATLINK: &str = "fatlink";

impl Generate for HostJob {
    fn target(&self) -> String {
        self.triple.clone()
    }

    fn read_units<'s>(
        &self,
        session: &'s Session,
        units: &[NamedBitcode<'_>],
    ) -> Result<Vec<Module<'s>>, Vec<IrError>> {
        pipeline::read_units(session, units)
    }

    /// The image is a shared library: it exports what its units do.
    fn internalize<'s>(
        &self,
        _session: &'s Session,
        _module: &Module<'s>,
        _keep: &BTreeSet<String>,
        _whole: bool,
        _library: Library<'_, 's>,
    ) -> Result<(), Errors> {
        Ok(())
    }

    fn optimize(&self, _session: &Session, module: &Module<'_>, _whole: bool) -> Result<(), IrError> {
        host::optimize(module, &self.triple, self.level)
    }

    fn try_to_emit(&self, session: &Session, module: &Module<'_>) -> Result<(), IrError> {
        host::emit_object(session, module, &self.triple, self.level).map(drop)
    }

    fn emit(&self, session: &Session, module: Module<'_>, _whole: bool) -> Result<Emitted, Errors> {
        if self.object.as_os_str().is_empty() {
            return Ok(Emitted::Nothing);
        }
        let _emitting = span::traced_passes("Generate code", || self.target());
        Ok(Emitted::Host(host::emit_object(session, &module, &self.triple, self.level)?))
    }

    fn without_outputs(&self) -> JobCode {
        JobCode::Host(HostJob { object: PathBuf::new(), ..self.clone() })
    }

    fn without_kernels(&self, _dead: BTreeSet<String>) -> JobCode {
        JobCode::Host(self.clone())
    }

    fn write(&self, emitted: Emitted) -> Result<(Written, Vec<u64>), Errors> {
        if let Emitted::Host(object) = emitted {
            temp_files::write_file(&self.object, &object)?;
        }
        Ok((Written::Host, Vec::new()))
    }

    fn run_tools(&self, _name: &str, _written: Written, _show: &dyn Fn(String)) -> Result<Made, Errors> {
        Ok(Made::Host)
    }

    fn files(&self, _made: &Made) -> Vec<PathBuf> {
        vec![self.object.clone()]
    }

    fn check(&self, made: &Made, _texts: usize, files: &[Vec<u8>], _kernels: &[String]) -> Result<(), Errors> {
        let (Made::Host, [object]) = (made, files) else { return Err(Error::NoCode { name: self.target() }.into()) };
        let unusable = |flaw| Error::unusable(Path::new(FATLINK), self.target(), flaw, &self.object);
        Ok(soundness::check(object, &self.triple, false).map_err(unusable)?)
    }

    fn portable(&self, _put: PutTool<'_>) -> Result<JobCode, Errors> {
        Ok(JobCode::Host(HostJob { object: "object.o".into(), ..self.clone() }))
    }

    fn placed(&self, place: Place<'_>) -> JobCode {
        JobCode::Host(HostJob { object: place.work.join(&self.object), ..self.clone() })
    }
}
