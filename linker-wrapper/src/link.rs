//! Runs a link from its command line to the host link, as a list of phases.

mod audit;
mod host_link;
mod inputs;
mod merge;
mod modes;
mod no_images;
mod other_lld;
mod outputs;
mod registration;
mod report;
mod requests;
mod resources;
mod selection;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tracing::span::EnteredSpan;

use crate::cli::environment::Environment;
use crate::cli::options::Options;
use crate::cli::values::Jobs;
use crate::cli::{device_words, other_lines, parse, persona, plugin_options, response_file};
use crate::device::device_files::DeviceCode;
use crate::diag::color;
use crate::diag::error::{Errors, collect};
use crate::diag::messages::{self, warn};
use crate::host::host_linker;
use crate::kinds;
use crate::kinds::interface::{DeviceLink, Setup};
use crate::plan::link_context::Request;
use crate::profile::recorder::Recorder;
use crate::profile::{self, span, time_trace};
use crate::reproduce;
use crate::sys::jobserver;
use crate::sys::process::Mode;
use crate::sys::threads;
use crate::toolchain;
use audit::Added;
use inputs::{Files, HostInputs, LineFiles};
use modes::LinkMode;
use outputs::Planned;
use resources::{Process, Resources};
use selection::Selected;

/// A command line that cannot be carried out.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("input file '{file}' is the same as output file; write the output to another file")]
    OutputIsInput { file: PathBuf },
}

/// Runs the command line and returns the exit code.
///
/// # Errors
/// All errors of the first phase that fails.
pub fn run(arguments: &[OsString]) -> Result<u8, Errors> {
    let persona = persona::of(arguments);
    let program = persona::program_name(arguments);
    let line = response_file::expand(arguments.get(1..).unwrap_or_default())?;
    if let Some(code) = requests::brief_help(&line, &program)? {
        return Ok(code);
    }
    if other_lld::is_needed(&line, &program) {
        return host_linker::become_other_lld(arguments);
    }
    let line = other_lines::translate(line, &program)?;
    let options = with_environment(parse::parse(&line, persona)?);
    color::choose(options.color);
    requests::reject_mistyped(&line, &options, &program)?;
    reproduce::write(&line, &options, persona, &program)?;
    let recorder = profile::begin(&options);
    let whole = span::traced("Execute linker wrapper", || program.clone());
    let outcome = run_options(&options, &program, Process { arguments, recorder: &recorder });
    drop(whole);
    // The trace of a failed link is written, too; the link's own errors come first.
    let traced = time_trace::write(&options, &recorder);
    outcome.and_then(|code| traced.map(|()| code))
}

/// Runs the device link of the command line again after LLVM failed in it, to find the function that LLVM cannot compile.
/// Writes no output and no report. Returns the error that names the function.
pub fn diagnose(arguments: &[OsString]) -> Option<Errors> {
    let recorder = Recorder::default();
    let outcome = repeat(Process { arguments, recorder: &recorder });
    outcome.err().filter(|_| recorder.has_culprit())
}

/// Repeats the device link of the command line, up to the function that LLVM cannot compile.
fn repeat(process: Process<'_>) -> Result<u8, Errors> {
    let arguments = process.arguments;
    let line = response_file::expand(arguments.get(1..).unwrap_or_default())?;
    let line = other_lines::translate(line, &persona::program_name(arguments))?;
    let requested = with_environment(parse::parse(&line, persona::of(arguments))?);
    if LinkMode::of(&requested).is_given_image() {
        // There is no device code that LLVM compiles.
        return Ok(0);
    }
    let options =
        Options { stats: None, report: None, plan: None, time_trace: None, jobs: Jobs::Number(1), ..requested };
    let options = Options { diagnosing: true, verbose: false, dry_run: false, save_temps: false, ..options };
    messages::mute_warnings();
    run_options(&options, &persona::program_name(arguments), process)
}

/// The options, with what the environment says.
fn with_environment(options: Options) -> Options {
    let environment = Environment::read();
    Options { cache: environment.cache(options.cache), environment, ..options }
}

/// Prints the output of options such as `--help`; without one of them, opens the inputs and links them.
fn run_options(options: &Options, program: &str, process: Process<'_>) -> Result<u8, Errors> {
    if let Some(text) = requests::answer(options, program) {
        return messages::answer(&text).map(|()| 0);
    }
    let device = device_words::read(options);
    let show = options.verbose || options.dry_run || (device.verbose && !options.diagnosing);
    let options = &plugin_options::added_to(options, &device);
    toolchain::check_named(&options.parts)?;
    if options.print_toolchain {
        return messages::answer(&requests::toolchain_table(options, &device, program)).map(|()| 0);
    }
    requests::apply_llvm_options(program, &device)?;
    let output = options.output.as_deref().unwrap_or(Path::new("a.out"));
    let request = Request { program, options, device: &device, output, mode: Mode { show, dry: options.dry_run } };
    read_and_link(request, LinkMode::of(options), process)
}

/// Opens the inputs and links them.
fn read_and_link(request: Request<'_>, mode: LinkMode, process: Process<'_>) -> Result<u8, Errors> {
    // LLVM may crash before the temporary folder exists: it reads host files of bitcode first.
    llvm_passes::crash::prepare(request.program, "");
    llvm_passes::crash::before_report(jobserver::give_all_back_in_signal);
    threads::set_number(request.options.jobs);
    let extraction = span::traced("ExtractDeviceCode", String::new);
    let inputs = HostInputs::open(&request)?;
    link(request, mode, &inputs, extraction, process).map_err(|errors| {
        // If a file was changed during the link, that may be the cause of the other errors: it comes first.
        let mut all = inputs.files.check_unchanged(request.output).err().unwrap_or_default();
        all.extend(errors);
        all
    })
}

/// Links, and again with the archive members that the host linker turns out to have linked although nothing seemed to need it.
fn link(
    request: Request<'_>,
    mode: LinkMode,
    inputs: &HostInputs,
    extraction: EnteredSpan,
    process: Process<'_>,
) -> Result<u8, Errors> {
    let (mut added, mut extraction) = (Added::default(), extraction);
    loop {
        match link_once(request, mode, inputs, &added, extraction, process)? {
            Linked::Ended(code) => return Ok(code),
            Linked::Without(members) => added.extend(members),
        }
        extraction = span::traced("ExtractDeviceCode", String::new);
    }
}

/// How a link ended.
enum Linked {
    /// With this exit code.
    Ended(u8),
    /// Without the device code of these archive members, which the program registers.
    Without(Vec<usize>),
}

/// Runs the phases of a link whose inputs are open. `added` are archive members that earlier links lacked.
fn link_once(
    request: Request<'_>,
    mode: LinkMode,
    inputs: &HostInputs,
    added: &Added,
    extraction: EnteredSpan,
    process: Process<'_>,
) -> Result<Linked, Errors> {
    // Read the device code. A link without any is left to the host linker.
    let unit_facts = resources::unit_facts(&request);
    let (images, host_code) = inputs.images(&request, mode, unit_facts.cached())?;
    if images.is_empty() && mode.may_lack_images() && !request.links_line_code_alone() {
        drop(extraction);
        return no_images::end(&request, mode, inputs, process.recorder).map(Linked::Ended);
    }
    threads::start()?;
    let line_files = LineFiles::open(&request, &images)?;
    let line_code = line_files.code(unit_facts.cached())?;
    let files = Files { host: &inputs.files, line: &line_files };

    // Select the archive members and the kernels that belong to the link.
    let selected = Selected::of(&request, files.host, (images, host_code), &added.members, &line_code, &unit_facts)?;

    // Let each kind plan the device links of its images.
    let links = plan(&request, files, &selected, &line_code)?;
    line_code.units().for_each(|unit| unit_facts.keep(unit));
    report::reject_differing_units(&request, mode, files.host, &selected)?;
    drop(extraction);

    // Compile, bundle and register the device code, and link the host code with it.
    let plans = links.iter().map(|link| link.plans()).sum();
    let resources = Resources::new(request, mode, files.host, &selected, &unit_facts, plans, &process)?;
    let finished = inputs.finished.as_deref();
    let planned = Planned {
        context: &resources.context(),
        files,
        line_code: &line_code,
        selected: &selected,
        links: &links,
        finished,
    };
    let outcome = resources.recorder.phase("the whole link", || planned.run(mode));

    // Read the program: what it registers has to be in its images.
    let outcome = match outcome {
        Ok(outcome) if !outcome.missing.is_empty() => {
            let missing = audit::Missing { symbols: &outcome.missing, inputs: files.host, linked: &selected.images };
            return missing.members(&request, added).map(Linked::Without);
        }
        outcome => outcome,
    };
    report::outcome(&request, mode, outcome, files.host, &selected, &resources).map(Linked::Ended)
}

/// Plans the device links, and rejects what no link can carry out.
fn plan<'a>(
    request: &Request<'a>,
    files: Files<'a>,
    selected: &'a Selected<'a>,
    line_code: &'a DeviceCode<'a>,
) -> Result<Vec<Box<dyn DeviceLink + 'a>>, Errors> {
    let Request { program, options, device, .. } = *request;
    let setup = |images| Setup { images, line_code, inputs: files.host, request: *request };
    let links = kinds::assign(&selected.images, selected.images.is_empty() && request.links_line_code_alone())?
        .into_iter()
        .map(|(kind, images)| kind.plan(&setup(images)));
    let links = collect(links)?;
    links.iter().flat_map(|link| link.warnings()).for_each(|text| warn(program, text));
    requests::reject_unsupported(options, device)?;
    if let Some(file) = files.overwritten_by(request) {
        return Err(Error::OutputIsInput { file }.into());
    }
    requests::warn_of_unused_arguments(request, &links);
    Ok(links)
}
