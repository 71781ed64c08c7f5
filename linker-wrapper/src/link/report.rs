//! Reports what a link did: messages of LLVM, statistics, and the report on the images.

use crate::cli::plugin_options;
use crate::cli::values::{Check, Level};
use crate::device::definitions;
use crate::diag::error::Errors;
use crate::diag::messages::{self, warn};
use crate::host::input_files::InputFiles;
use crate::image::html;
use crate::image::report::ImageReport;
use crate::link::modes::LinkMode;
use crate::link::outputs::Outcome;
use crate::link::resources::Resources;
use crate::link::selection::Selected;
use crate::lto::{llvm_messages, pass_times};
use crate::plan::link_context::Request;
use crate::profile::recorder::Recorder;

/// A difference between units that the user wants to be an error.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{0}")]
    DifferingUnits(String),
}

/// Reports the outcome of a link, and returns its exit code.
///
/// # Errors
/// Those of the link. Reports that cannot be written.
pub fn outcome(
    request: &Request<'_>,
    mode: LinkMode,
    outcome: Result<Outcome, Errors>,
    inputs: &InputFiles,
    selected: &Selected<'_>,
    resources: &Resources<'_>,
) -> Result<u8, Errors> {
    let Request { program, options, device, .. } = *request;
    pass_times::print(&plugin_options::of_llvm(options, device), resources.recorder);
    let shared = resources.share_results(outcome.is_err());
    let outcome = outcome.map_err(|errors| definitions::explain(errors, inputs))?;
    if outcome.code == 0 && !mode.is_diagnosis() {
        llvm_messages::write_records(*request, resources.recorder)?;
        differing_units(request, mode, inputs, selected, Level::Warn).iter().for_each(|text| warn(program, text));
    }
    if let Some(format) = options.stats {
        let stats = resources.recorder.stats(outcome.cached, resources.object_results.counts(), shared);
        messages::report(program, &stats.render(format));
    }
    // There is no program to report on if the host link failed.
    if outcome.code == 0 {
        images(request, outcome.report, resources.recorder, true).map(|()| 0)
    } else {
        Ok(outcome.code)
    }
}

/// Rejects units without relocatable device code among those with it, if their check is an error.
///
/// # Errors
/// There are such units.
pub fn reject_differing_units(
    request: &Request<'_>,
    mode: LinkMode,
    inputs: &InputFiles,
    selected: &Selected<'_>,
) -> Result<(), Errors> {
    match differing_units(request, mode, inputs, selected, Level::Error) {
        Some(text) => Err(Error::DifferingUnits(text).into()),
        None => Ok(()),
    }
}

/// The sentence on such units, if their check has this level.
fn differing_units(
    request: &Request<'_>,
    mode: LinkMode,
    inputs: &InputFiles,
    selected: &Selected<'_>,
    level: Level,
) -> Option<String> {
    let is_due = mode.compares_units() && request.options.checks.of(Check::RelocatableCode) == level;
    is_due.then(|| definitions::differing_units(inputs, &selected.images)).flatten()
}

/// Writes the report of `--offload-report`. `report` is `None` for a link without images to report on.
///
/// # Errors
/// The report cannot be written.
pub fn images(
    request: &Request<'_>,
    report: Option<ImageReport>,
    recorder: &Recorder,
    has_device_code: bool,
) -> Result<(), Errors> {
    let Request { program, options, output, .. } = request;
    let Some(requested) = options.report.as_ref().filter(|_| !options.linker_query) else { return Ok(()) };
    let report = report.unwrap_or_else(|| ImageReport::empty(output, options));
    html::emit(&report, requested, program, html::Measured { recorder, has_device_code })
}
