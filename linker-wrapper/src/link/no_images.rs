//! Ends a link whose inputs have no device images.

use crate::device::host_hints;
use crate::diag::error::Errors;
use crate::diag::messages::warn;
use crate::host::{host_linker, registration_object};
use crate::link::inputs::HostInputs;
use crate::link::modes::{LinkMode, Output};
use crate::link::{audit, registration, report, requests};
use crate::plan::link_context::Request;
use crate::plan::report::{self as plan_report, PlanReport};
use crate::profile::recorder::Recorder;
use crate::profile::span;
use crate::profile::time_trace;

/// Leaves the link to the host linker, and reads the program: libraries that this program does not read may have brought kernels. Where no
/// program is linked, the host linker replaces this process. A device link writes an object that registers nothing: build systems run it for
/// targets without device code, too.
///
/// # Errors
/// There is no host linker, or the object cannot be written. The program registers kernels.
pub fn end(request: &Request<'_>, mode: LinkMode, inputs: &HostInputs, recorder: &Recorder) -> Result<u8, Errors> {
    let Request { program, options, output, mode: commands, .. } = *request;
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
    let linker = host_linker::find(options, program)?;
    if inputs.are_handled || mode.output() != Output::Program {
        time_trace::write(options, recorder)?;
        return host_linker::become_linker(&linker, options, commands);
    }
    let _linking = span::traced("Execute host linker", || linker.display().to_string());
    let code = host_linker::run_unchanged(&linker, options, commands)?;
    if code != 0 {
        host_hints::after_failure(&inputs.files, options, &[]).iter().for_each(|hint| warn(program, hint));
    }
    if code == 0 && !commands.dry {
        audit::require_nothing_missing(request, &inputs.files)?;
    }
    Ok(code)
}
