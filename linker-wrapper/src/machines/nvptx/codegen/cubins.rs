//! Links relocatable cubins in this process.

use cubin_link::{Input, LinkError, Linked};
use offload_bundle::arch::GpuArch;

use crate::diag::error::Errors;
use crate::diag::messages;
use crate::machines::nvptx::backend::BackendDecision;
use crate::machines::nvptx::codegen::decisions::Decisions;
use crate::machines::nvptx::codegen::device_object::{DeviceObject, Form};
use crate::machines::nvptx::codegen::error::Error;
use crate::machines::nvptx::codegen::host_references::HostReferences;
use crate::machines::nvptx::codegen::symbol_messages;
use crate::machines::nvptx::cubin_linker::{self, Linker};
use crate::plan::link_context::Request;
use crate::sys::process::quoted;

/// The link of the cubins of one target.
#[derive(Clone, Copy)]
pub struct CubinLink<'b> {
    /// The user selected this linker, and no other may replace it.
    pub is_selected: bool,
    /// The target of the decision. Its code may become machine code for another one, too.
    target: GpuArch,
    request: Request<'b>,
    decisions: &'b Decisions,
}

impl<'b> CubinLink<'b> {
    /// The link that was decided on; `None` if nvlink links.
    pub fn of(decision: &BackendDecision, request: Request<'b>, decisions: &'b Decisions) -> Option<Self> {
        let is_selected = match &decision.linker {
            Some(Linker::Fatlink) => true,
            Some(Linker::FatlinkIfKnown) => false,
            Some(Linker::Nvlink(_)) | None => return None,
        };
        Some(CubinLink { is_selected, target: decision.target, request, decisions })
    }

    /// Links the objects to a finished cubin, in order. Returns `None` if nvlink has to do it, with the reason on record.
    ///
    /// # Errors
    /// Damaged cubins, undefined and duplicate symbols, and, if the user selected this linker, code that it does not know.
    pub fn link(self, arch: GpuArch, objects: &[DeviceObject]) -> Result<Option<Vec<u8>>, Errors> {
        let Request { program, mode, .. } = self.request;
        if mode.show {
            let paths: Vec<String> = objects.iter().map(|object| quoted(object.path.as_os_str())).collect();
            messages::show(format_args!(" # in this process: fatlink -arch={arch} {}", paths.join(" ")));
        }
        if mode.dry {
            return Ok(Some(Vec::new()));
        }
        let references = HostReferences::of_all(objects);
        let unknown = match self.unknown_form(arch, objects) {
            Some(what) => what,
            None => match linked(arch, objects, references.as_ref()) {
                Ok(linked) => match linked.unused_constants.first().filter(|_| references.is_some()) {
                    Some(name) => format!("nvcc's units: no code uses the constant {name}, and nvlink may remove it"),
                    None => {
                        warn_about_stacks(program, &linked);
                        return Ok(Some(linked.cubin));
                    }
                },
                Err(LinkError::Unsupported(what)) => what.to_string(),
                Err(error) => return Err(errors(error, arch, objects)),
            },
        };
        if self.is_selected {
            return Err(Error::UnknownCode { arch, what: unknown }.into());
        }
        self.decisions.record_unknown(self.target, &unknown);
        Ok(None)
    }

    /// What of the link can be seen to be unknown before any cubin is read.
    fn unknown_form(self, arch: GpuArch, objects: &[DeviceObject]) -> Option<String> {
        let other = objects.iter().find(|object| object.form != Form::Cubin);
        let other = other.map(|object| format!("{}, which is no cubin", object.name));
        other.or_else(|| (!self.is_selected && !cubin_linker::is_proven(arch)).then(|| format!("code for {arch}")))
    }
}

fn linked(arch: GpuArch, objects: &[DeviceObject], host: Option<&HostReferences>) -> Result<Linked, LinkError> {
    let inputs = objects.iter().map(|object| Input { file: &object.name, data: &object.bytes });
    let inputs: Vec<Input<'_>> = inputs.collect();
    match host.and_then(HostReferences::kernels) {
        Some(kernels) => cubin_link::link_kernels(&inputs, arch, &|name| kernels.have(name)),
        None => cubin_link::link(&inputs, arch),
    }
}

/// nvlink's warning.
fn warn_about_stacks(program: &str, linked: &Linked) {
    for kernel in &linked.endless_stacks {
        let text = "cannot be statically determined";
        messages::warn(program, format_args!("Stack size for entry function '{kernel}' {text}"));
    }
}

fn errors(error: LinkError, arch: GpuArch, objects: &[DeviceObject]) -> Errors {
    match error {
        LinkError::Format { file: name, error: source } => Error::DamagedCubin { name, source }.into(),
        LinkError::Undefined(references) => {
            let one = |reference: &cubin_link::Reference| {
                symbol_messages::undefined_in(&reference.name, &[&reference.file], &arch, objects)
            };
            references.iter().map(one).collect()
        }
        LinkError::MultipleDefinition { name, first, second } => {
            symbol_messages::duplicate_in(&name, [first, second], &arch, objects).into()
        }
        error => Error::Cubins { arch, text: error.to_string() }.into(),
    }
}
