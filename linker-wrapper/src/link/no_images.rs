//! Ends a link whose inputs have no device images.

use crate::diag::error::Errors;
use crate::host::{host_linker, registration_object};
use crate::link::inputs::HostInputs;
use crate::link::modes::{LinkMode, Output};
use crate::link::{registration, report, requests};
use crate::plan::link_context::Request;
use crate::plan::report::{self as plan_report, PlanReport};
use crate::profile::recorder::Recorder;
use crate::profile::time_trace;

/// Leaves the link to the host linker, which replaces this process. A device link writes an object that registers nothing: build systems run
/// it for targets without device code, too.
///
/// # Errors
/// There is no host linker, or the object cannot be written.
pub fn end(request: &Request<'_>, mode: LinkMode, inputs: &HostInputs, recorder: &Recorder) -> Result<u8, Errors> {
    let Request { program, options, output, mode: commands, .. } = *request;
    time_trace::write(options, recorder)?;
    if !inputs.are_handled {
        requests::warn_of_unused_arguments(request, &[]);
    }
    report::images(request, None, recorder, false)?;
    if let Some(requested) = options.plan.as_ref().filter(|_| !options.linker_query) {
        let plan = PlanReport { output: output.display().to_string(), ..PlanReport::default() };
        plan_report::print(program, requested, &plan)?;
    }
    if let Output::DeviceObject { .. } = mode.output() {
        let (like, triple) = (inputs.files.first_object(), registration::host_triple(request));
        return registration_object::write_empty(output, like, triple, commands).map(|()| 0);
    }
    host_linker::become_linker(&host_linker::find(options, program)?, options, commands)
}
