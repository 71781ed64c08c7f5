//! Runs a link from its command line to the host link, as a list of phases.

mod merge;
mod requests;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use llvm_passes::registration::Registration;
use offload_bundle::host_object::StubAlias;
use rayon::prelude::*;
use tracing::span::EnteredSpan;

use crate::cli::options::Options;
use crate::cli::values::{FatbinSection, Jobs, KernelGc};
use crate::cli::{amd_options, device_words, dlink, parse, persona, response_file};
use crate::crash_report;
use crate::device::archive_selection::{self, Reason};
use crate::device::device_files::DeviceFiles;
use crate::device::{definitions, former_entries, lost_images, rdc_targets, stub_aliases};
use crate::diag::color;
use crate::diag::error::{Errors, both, collect};
use crate::diag::messages::{self, warn};
use crate::host::dead_kernels::KernelLiveness;
use crate::host::embedded_images::FoundImage;
use crate::host::input_files::InputFiles;
use crate::host::registration_object;
use crate::host::{
    dead_kernels, dependency_file, embedded_images, fatbin_section, host_linker, host_lto, host_machine, kept_results,
    linker_kind, relocatable,
};
use crate::image::html;
use crate::image::report::ImageReport;
use crate::lto::{llvm_messages, pass_times};
use crate::plan::link_context::{LinkContext, Request};
use crate::plan::report::{self as plan_report, KernelsReport, LiveKernel, MemberReport, PlanPrinter, PlanReport};
use crate::platform::interface::{Bundle, DeviceLink, Platform, Products, Setup};
use crate::platform::{self, PLATFORMS, override_image};
use crate::profile::recorder::Recorder;
use crate::profile::{self, span, time_trace};
use crate::reproduce;
use crate::sys::cache::{self, ObjectResults};
use crate::sys::jobserver::{self, Limit};
use crate::sys::memory::Budget;
use crate::sys::process::Mode;
use crate::sys::temp_files::{self, FileState, TempFiles};
use crate::sys::threads;
use crate::toolchain::{self, Toolchain, print};
use merge::MergeInputs;

/// Host triple when `--host-triple` is not given: the one this program is built for.
const HOST_TRIPLE: &str = "x86_64-pc-linux-gnu";

/// A command line that cannot be carried out.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("input file '{file}' is the same as output file; write the output to another file")]
    OutputIsInput { file: PathBuf },
    #[error("--emit-fatbin-only: the inputs hold no device code; compile them with --offload-arch=")]
    NothingToEmit,
    #[error("--emit-fatbin-only: the inputs hold CUDA and OpenMP code; link them one at a time")]
    SeveralToEmit,
    #[error(
        "--dlink: the inputs hold device code of {kinds}, and a device link is for one of them; link them one at a time"
    )]
    SeveralToLink { kinds: String },
    #[error(
        "--dlink: there is device code in {file}, and no object with host code that could use it; link it with nvlink, or put it \
         into a fatbin with offload-bundle create"
    )]
    OnlyDeviceFiles { file: String },
}

/// Runs the command line and returns the exit code.
///
/// # Errors
/// All errors of the first phase that fails.
pub fn run(arguments: &[OsString]) -> Result<u8, Errors> {
    let persona = persona::of(arguments);
    let line = response_file::expand(arguments.get(1..).unwrap_or_default())?;
    let program = persona::program_name(arguments);
    if let Some(code) = requests::brief_help(&line, &program)? {
        return Ok(code);
    }
    let line = dlink::translate(&line)?.unwrap_or(line);
    let options = parse::parse(&line, persona)?;
    color::choose(options.color);
    requests::reject_mistyped(&line, &options, &program)?;
    reproduce::write(&line, &options, persona, &program)?;
    profile::begin(&options);
    let whole = span::traced("Execute linker wrapper", || program.clone());
    let outcome = run_options(&options, &program);
    drop(whole);
    // The trace of a failed link is written, too; the link's own errors come first.
    let traced = time_trace::end();
    outcome.and_then(|code| traced.map(|()| code))
}

/// Runs the device link of the command line again after LLVM failed in it, to find the function that LLVM cannot compile.
/// Writes no output and no report.
///
/// # Errors
/// The function that LLVM cannot compile, or any other error of the link.
pub fn diagnose(arguments: &[OsString]) -> Result<u8, Errors> {
    let line = response_file::expand(arguments.get(1..).unwrap_or_default())?;
    let line = dlink::translate(&line)?.unwrap_or(line);
    let requested = parse::parse(&line, persona::of(arguments))?;
    let options =
        Options { stats: None, report: None, plan: None, time_trace: None, jobs: Jobs::Number(1), ..requested };
    let options = Options { diagnosing: true, verbose: false, dry_run: false, save_temps: false, ..options };
    messages::mute_warnings();
    run_options(&options, &persona::program_name(arguments))
}

/// Prints the output of options such as `--help`; without one of them, opens the inputs and links them.
fn run_options(options: &Options, program: &str) -> Result<u8, Errors> {
    if let Some(text) = requests::answer(options, program) {
        return messages::answer(&text).map(|()| 0);
    }
    let mode = Mode { show: options.verbose || options.dry_run, dry: options.dry_run };
    let device = device_words::read(options);
    let mode = Mode { show: mode.show || (device.verbose && !options.diagnosing), ..mode };
    let options = &requests::with_plugin_options(options, &device);
    toolchain::check_named(&options.parts)?;
    if options.print_toolchain {
        let toolchain = Toolchain::find(options.cuda_path.as_deref().or(device.cuda_path.as_deref()), &options.parts);
        let host_linker = host_linker::find_with_source(options, program);
        return messages::answer(&print::table(&toolchain, host_linker)).map(|()| 0);
    }
    requests::apply_llvm_options(program, &device)?;

    // LLVM may crash before the temporary folder exists: it reads host files of bitcode first.
    llvm_passes::crash::prepare(program, "");
    llvm_passes::crash::before_report(jobserver::give_all_back_in_signal);
    threads::set_number(options.jobs);
    let extraction = span::traced("ExtractDeviceCode", String::new);
    let finished = options.override_image.as_ref().map(|(kind, file)| override_image::read(kind, file)).transpose()?;
    let (finished, inputs) = match finished {
        // With a finished image, only the host linker reads the inputs.
        Some((finished, stamp)) => (Some(finished), InputFiles::of_image(stamp)),
        None => (None, InputFiles::open(options)?),
    };
    inputs.warnings().iter().for_each(|text| warn(program, text));
    let output = options.output.as_deref().unwrap_or(Path::new("a.out"));
    let request = Request { program, options, device: &device, output, mode };
    link_inputs(request, &inputs, finished, extraction).map_err(|errors| {
        // If a file was changed during the link, that may be the cause of the other errors: it comes first.
        let mut all = inputs.check_unchanged(output).err().unwrap_or_default();
        all.extend(errors);
        all
    })
}

/// Runs the phases after the inputs are open. `finished` is the image of `--override-image=`.
fn link_inputs(
    request: Request<'_>,
    inputs: &InputFiles,
    finished: Option<Box<dyn Products>>,
    extraction: EnteredSpan,
) -> Result<u8, Errors> {
    let Request { program, options, device, output, mode } = request;
    // Find the device images in the inputs. A link without any is left to the host linker.
    let handled = options.linker_query || inputs.already_registered(options);
    let mut images = if handled { Vec::new() } else { embedded_images::find(inputs)? };
    if options.relocatable && !options.dlink {
        // The output of a relocatable link still holds nvcc's units, for the link of the program.
        let stay = options.merges_device_code() || images.iter().all(|found| found.rdc.is_some());
        images.retain(|found| found.rdc.is_none() || !stay);
    }
    // A bundle alone, and the input of a later link, need no registration code.
    if !(options.emit_fatbin_only || options.merges_device_code()) && (finished.is_some() || !images.is_empty()) {
        host_machine::check(inputs, &images, options)?;
    }
    if !handled && finished.is_none() && !options.emit_fatbin_only {
        former_entries::check(inputs, &options.roots)?;
    }
    // The output of a relocatable link (-r) is not a program yet: its final link checks this.
    if !handled && finished.is_none() && !options.relocatable && !options.emit_fatbin_only {
        lost_images::check(inputs, &images, &options.roots)?;
        lost_images::libraries(inputs).iter().for_each(|text| warn(program, text));
    }
    if images.is_empty() && finished.is_none() && !options.emit_fatbin_only {
        if let Some(file) = device.inputs.first().filter(|_| options.dlink) {
            return Err(Error::OnlyDeviceFiles { file: file.to_string() }.into());
        }
        drop(extraction);
        time_trace::end()?;
        if !handled {
            requests::warn_of_unused_arguments(&request, &[]);
        }
        report(&request, None, None)?;
        if let Some(requested) = options.plan.as_ref().filter(|_| !options.linker_query) {
            let plan = PlanReport { output: output.display().to_string(), ..PlanReport::default() };
            plan_report::print(program, requested, &plan)?;
        }
        if options.dlink {
            // Build systems run a device link for targets without device code, too.
            let triple = options.host_triple.as_deref().unwrap_or(HOST_TRIPLE);
            return registration_object::write_empty(output, inputs.first_object(), triple, mode).map(|()| 0);
        }
        return host_linker::become_linker(&host_linker::find(options, program)?, &options.host_line, mode);
    }
    threads::start()?;

    // Read the device files that the command line names, and select the archive members that belong to the link.
    let targets = |platform: &&dyn Platform| platform.line_targets(&images, options);
    let line_targets = PLATFORMS.iter().flat_map(targets).collect::<BTreeSet<_>>();
    let line_inputs = if line_targets.is_empty() { &[][..] } else { &device.inputs };
    let line_files = DeviceFiles::open(line_inputs, &device.library_paths)?;
    let line_code = line_files.code_for(line_targets)?;
    let selection = archive_selection::select(inputs, &images, &options.roots, &line_code)?;
    let members = members(inputs, &images, &selection.device);
    let stub_aliases = match stub_aliases::are_mixed(&images) {
        true => stub_aliases::find(inputs, &selection.host)?,
        false => Vec::new(),
    };
    let mut host_words: Vec<OsString> = stub_aliases::linker_words(&stub_aliases).collect();
    host_words.extend(rdc_targets::words_for_members(&images, &selection));
    let mut liveness = dead_kernels::find(inputs, &images, options)?;
    liveness.dead.retain(|name| !device.roots.contains(name));
    if let Some(why) = liveness.keeps_all.as_ref().filter(|_| mode.show) {
        // As a shell comment, so that the output can be pasted into a shell.
        messages::show(format_args!(" # --offload-gc=host keeps all kernels: {why}"));
    }
    let selected: Vec<_> = images.into_iter().filter(|found| selection.device[found.input].is_some()).collect();

    // Let each platform plan the device links of its images.
    let setup = |images| Setup { images, line_code: &line_code, inputs, request };
    let links = platform::assign(&selected)?.into_iter().map(|(platform, images)| platform.plan(&setup(images)));
    let links = collect(links)?;
    links.iter().flat_map(|link| link.warnings()).for_each(|text| warn(program, text));
    requests::reject_unsupported(options, device)?;
    let overwritten = inputs.overwritten_by(output).or_else(|| line_files.overwritten_by(output));
    if let Some(input) = overwritten {
        return Err(Error::OutputIsInput { file: input.to_owned() }.into());
    }
    requests::warn_of_unused_arguments(&request, &links);
    drop(extraction);

    // From here on there are temporary files to remove.
    llvm_passes::on_fatal_error(if options.diagnosing { exit_with_fatal_error } else { restart_to_diagnose });
    let kept = requests::kept_files(options, output).filter(|_| !mode.dry);
    let temp_files = TempFiles::new(kept.as_deref())?;
    llvm_passes::crash::prepare(program, &temp_files.folder().unwrap_or(Path::new("")).to_string_lossy());
    if !options.diagnosing {
        llvm_passes::crash::remember_line(&std::env::args_os().collect::<Vec<_>>());
        llvm_messages::check_records(request)?;
    }
    let recorder = Recorder::new();
    let mut registered = embedded_images::registered_names(inputs, &selection.host)?;
    registered.retain(|name| !liveness.dead.contains(name));
    registered.extend(device.roots.iter().cloned());
    recorder.kernels(liveness.alive.len(), liveness.dead.len());
    let host_linker = host_linker::find(options, program);
    let (limit, warning) = Limit::new(options.jobs);
    warning.into_iter().for_each(|text| warn(program, text));
    let plan = PlanReport {
        output: output.display().to_string(),
        members,
        kernels: kernels_report(options, &liveness),
        targets: Vec::new(),
    };
    if let Some(requested) = options.plan.as_ref().filter(|_| finished.is_some()) {
        // A finished image has no device links, whose plans would be waited for.
        plan_report::print(program, requested, &plan)?;
    }
    let plan = PlanPrinter::new(program, options.plan.as_ref(), plan, links.len());
    let remote = if request.may_use_results() { cache::open_remote(&options.remote_cache)? } else { None };
    let found = kept_results::find(inputs, &selected, program)?;
    let results = ObjectResults::new(found, request.may_use_results(), options.merges_device_code() && !mode.dry);
    let context = LinkContext {
        request,
        temp_files: &temp_files,
        host_linker: &host_linker,
        limit: &limit,
        budget: &Budget::new(options.memory),
        remote_cache: remote.as_ref(),
        object_results: &results,
        registered: &registered,
        dead_kernels: &liveness.dead,
        recorder: &recorder,
        plan: &plan,
    };
    let link = Link {
        context: &context,
        inputs,
        line_files: &line_files,
        host_words: &host_words,
        stub_aliases: &stub_aliases,
    };
    let outcome = recorder.phase("the whole link", || match finished {
        Some(finished) => link.wrap(&*finished),
        None if options.diagnosing => {
            collect(links.iter().map(|link| link.diagnose(&context))).map(|_| Outcome::default())
        }
        None if options.emit_fatbin_only => link.emit_bundle(&links),
        None if options.dlink => link.emit_object(&links),
        None if options.merges_device_code() => {
            link.merge(MergeInputs { images: &selected, line_code: &line_code, inputs }, &links)
        }
        None => link.all(&links),
    });
    pass_times::print(&amd_options::all_llvm_options(options, device));
    // What a failed link has compiled is of use to the next one, too.
    let shared = remote.map(|remote| {
        recorder.phase("sending results", || remote.finish()).iter().for_each(|text| warn(program, text));
        if outcome.is_err() {
            let folder = cache::of(options.cache.as_ref(), None).ok().flatten();
            cache::distrust(&remote, folder.as_ref()).iter().for_each(|text| warn(program, text));
        }
        remote.counts()
    });
    let outcome = outcome.map_err(|errors| definitions::explain(errors, inputs))?;
    if outcome.code == 0 && !options.diagnosing {
        llvm_messages::write_records(request)?;
        if !options.relocatable {
            definitions::differing_units(inputs, &selected).iter().for_each(|text| warn(program, text));
        }
    }
    if let Some(format) = options.stats {
        messages::report(program, &recorder.stats(outcome.cached, results.counts(), shared).render(format));
    }
    // There is no program to report on if the host link failed.
    if outcome.code == 0 { report(&request, outcome.report, Some(&recorder)).map(|()| 0) } else { Ok(outcome.code) }
}

/// Lists the selected archive members with device code for the plan.
fn members(inputs: &InputFiles, images: &[FoundImage<'_>], reasons: &[Option<Reason>]) -> Vec<MemberReport> {
    let carriers = images.chunk_by(|one, next| one.input == next.input).filter_map(|images| images.first());
    let member = |found: &FoundImage<'_>| {
        let (symbol, of) = match reasons[found.input].as_ref()? {
            Reason::OnLine => return None,
            Reason::HostSymbol(symbol) => (Some(symbol.clone()), "host"),
            Reason::DeviceSymbol(symbol) => (Some(symbol.clone()), "device"),
            Reason::UnreadableSymbols => (None, "device"),
        };
        let file = inputs.files()[found.input].name.clone();
        Some(MemberReport { file, symbol, of })
    };
    carriers.filter_map(member).collect()
}

/// Describes for the plan which kernels the program can launch, if that decides what is compiled.
fn kernels_report(options: &Options, liveness: &KernelLiveness) -> Option<KernelsReport> {
    let KernelLiveness { keeps_all, dead, alive } = liveness;
    let alive = alive.iter().map(|(kernel, path)| LiveKernel { kernel: kernel.clone(), path: path.clone() });
    (options.kernel_gc == KernelGc::Host).then(|| KernelsReport {
        keeps_all: keeps_all.clone(),
        dead: dead.iter().cloned().collect(),
        alive: alive.collect(),
    })
}

/// Writes the report of `--offload-report`. `report` is `None` for a link without CUDA code, `recorder` for one without device code.
fn report(request: &Request<'_>, report: Option<ImageReport>, recorder: Option<&Recorder>) -> Result<(), Errors> {
    let Request { program, options, output, .. } = request;
    let Some(requested) = options.report.as_ref().filter(|_| !options.linker_query) else { return Ok(()) };
    html::emit(&report.unwrap_or_else(|| ImageReport::empty(output, options)), requested, program, recorder)
}

/// Handles a fatal error of LLVM such as "Cannot select": replaces the process by a copy that looks for the cause.
fn restart_to_diagnose(reason: &str) {
    temp_files::clean_up();
    crash_report::restart(reason);
    exit_with_fatal_error(reason);
}

/// Handles a fatal error of LLVM: prints it and removes the temporary files.
#[expect(clippy::exit, reason = "LLVM does not return from its error handler")]
fn exit_with_fatal_error(reason: &str) {
    messages::print_errors("fatlink", &crash_report::fatal_error(reason));
    temp_files::clean_up();
    std::process::exit(1);
}

/// The size of these files.
fn sizes(files: &[PathBuf]) -> u64 {
    files.iter().filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum()
}

/// The results of a link that its final messages report.
#[derive(Default)]
struct Outcome {
    /// Exit code of the host linker.
    code: u8,
    /// The report on the fatbin.
    report: Option<ImageReport>,
    /// Numbers of cache hits and misses.
    cached: Option<(u64, u64)>,
}

/// Adds numbers of cache hits and misses.
fn sum(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (one, other) {
        (Some((hits, misses)), Some((more_hits, more_misses))) => Some((hits + more_hits, misses + more_misses)),
        (one, other) => one.or(other),
    }
}

/// The registration object of one platform, with its images inside.
struct Registered {
    object: PathBuf,
    archive: Option<PathBuf>,
    report: Option<ImageReport>,
    cached: Option<(u64, u64)>,
}

impl Registered {
    /// The files that the host linker links. It extracts members of an archive that stands behind what references them.
    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.object).chain(&self.archive)
    }
}

/// A link whose inputs are open and whose device links are planned.
struct Link<'a> {
    context: &'a LinkContext<'a>,
    inputs: &'a InputFiles,
    line_files: &'a DeviceFiles,
    /// Options that the units of nvcc require of the host linker.
    host_words: &'a [OsString],
    /// Names of kernels that these options define.
    stub_aliases: &'a [StubAlias],
}

impl Link<'_> {
    /// Links the device code of all platforms, then the host's code with it. This is the usual link.
    fn all(&self, links: &[Box<dyn DeviceLink + '_>]) -> Result<Outcome, Errors> {
        let host_linker = self.context.host_linker()?;
        let device = span::traced("Handle all device input", String::new);
        let registered = collect(links.par_iter().map(|link| self.link_platform(&**link)).collect::<Vec<_>>())?;
        drop(device);
        let objects: Vec<PathBuf> = registered.iter().flat_map(Registered::files).cloned().collect();
        let code = self.host(host_linker, &objects)?;
        let (mut report, mut cached) = (None, None);
        for one in registered {
            report = match (report, one.report) {
                (Some(report), Some(other)) => Some(ImageReport::and(report, other)),
                (report, other) => report.or(other),
            };
            cached = sum(cached, one.cached);
        }
        Ok(Outcome { code, report, cached })
    }

    /// Links the device code of one platform and writes its registration object.
    fn link_platform(&self, link: &dyn DeviceLink) -> Result<Registered, Errors> {
        let early = || link.early_registration().map(|registration| self.template(registration)).transpose();
        let (products, template) = rayon::join(|| link.link(self.context), early);
        self.register(&*products?, template?)
    }

    /// Bundles the images and writes the object that registers them. `template` is the object's code, if already compiled.
    fn register(
        &self,
        products: &dyn Products,
        template: Option<registration_object::Template>,
    ) -> Result<Registered, Errors> {
        let Bundle { image, registration, section, kept_as, report } = products.bundle(self.context)?;
        let _wrapping = span::traced("Wrap bundled images", || registration.name().to_owned());
        let mut template = template.map_or_else(|| self.template(&*registration), Ok)?;
        if let Some(section) = section {
            fatbin_section::warn_of_size(section, self.context.request.program, image.size());
        }
        if section == Some(FatbinSection::Large) {
            template.make_large()?;
        }
        if let Some(name) = kept_as {
            self.context.temp_files.keep_file(name, |mut file| image.write_to(&mut file))?;
        }
        let object = registration_object::path(self.context.temp_files, &*registration);
        template.write(&object, &*image)?;
        let archive = products.archive().map(Path::to_owned);
        Ok(Registered { object, archive, report, cached: products.cache_counts() })
    }

    /// Bundles, registers and links the finished image of `--override-image=`.
    fn wrap(&self, finished: &dyn Products) -> Result<Outcome, Errors> {
        if self.context.request.options.emit_fatbin_only {
            return self.write_bundle(finished);
        }
        let Registered { object, report, .. } = self.register(finished, None)?;
        let code = self.host(self.context.host_linker()?, &[object])?;
        Ok(Outcome { code, report, cached: None })
    }

    /// Writes the bundle itself as the output (`--emit-fatbin-only`).
    fn emit_bundle(&self, links: &[Box<dyn DeviceLink + '_>]) -> Result<Outcome, Errors> {
        match links {
            [] => Err(Error::NothingToEmit.into()),
            [only] => self.write_bundle(&*only.link(self.context)?),
            _ => Err(Error::SeveralToEmit.into()),
        }
    }

    /// Writes the registration object as the output (`--dlink`).
    fn emit_object(&self, links: &[Box<dyn DeviceLink + '_>]) -> Result<Outcome, Errors> {
        let [only] = links else {
            let kinds = links.iter().flat_map(|link| link.triples()).collect::<Vec<_>>().join(" and ");
            return Err(Error::SeveralToLink { kinds }.into());
        };
        // The archive is an input of the link of the program, as it is after nvcc's device link.
        let Registered { object, report, cached, .. } = self.link_platform(&**only)?;
        if !self.context.request.mode.dry {
            self.check_unchanged()?;
            let bytes = temp_files::read_file(&object)?;
            temp_files::write_output_by(self.context.request.output, |file| file.write_all(&bytes))?;
        }
        Ok(Outcome { code: 0, report, cached })
    }

    /// Merges the device code for later links, and links the host's code with it.
    fn merge(&self, code: MergeInputs<'_>, links: &[Box<dyn DeviceLink + '_>]) -> Result<Outcome, Errors> {
        let host_linker = self.context.host_linker()?;
        let triple = self.context.request.options.host_triple.as_deref().unwrap_or(HOST_TRIPLE);
        let object = merge::run(code, links, self.context, triple)?;
        let code = self.host(host_linker, &[object])?;
        Ok(Outcome { code, ..Outcome::default() })
    }

    fn write_bundle(&self, products: &dyn Products) -> Result<Outcome, Errors> {
        let Bundle { image, report, .. } = products.bundle(self.context)?;
        if !self.context.request.mode.dry {
            self.check_unchanged()?;
            temp_files::write_output_by(self.context.request.output, |mut file| image.write_to(&mut file))?;
        }
        Ok(Outcome { code: 0, report, cached: products.cache_counts() })
    }

    /// Checks that no file of the link has changed since it was opened.
    fn check_unchanged(&self) -> Result<(), Errors> {
        let output = self.context.request.output;
        both(self.inputs.check_unchanged(output), self.line_files.check_unchanged(output)).map(drop)
    }

    /// Compiles registration code.
    fn template(&self, registration: &dyn Registration) -> Result<registration_object::Template, Errors> {
        let _compiling = span::traced("Compile module", || format!("{:?}", registration.slot().section));
        let options = self.context.request.options;
        let triple = options.host_triple.as_deref().unwrap_or(HOST_TRIPLE);
        let show = |text: &str| messages::show(text.trim_end());
        let show = options.print_wrapped_module.then_some(&show as &dyn Fn(&str));
        registration_object::template(triple, registration, options.llvm_rules, show)
    }

    /// Runs the host linker, with the registration objects among its inputs. A relocatable link (`-r`) is a final device link:
    /// its output must link with other such objects, and without a wrapper.
    fn host(&self, linker: &Path, objects: &[PathBuf]) -> Result<u8, Errors> {
        let LinkContext { request: Request { program, options, output, mode, .. }, temp_files, .. } = *self.context;
        let raw = temp_files.file("relocatable.o");
        let replaced = options.relocatable.then_some(&*raw);
        let mut line = host_linker::line_with(options, objects, replaced);
        line.extend(host_linker::keeping_entries(linker, &line));
        if options.merges_device_code() {
            line.extend(relocatable::keeping_units_apart(linker_kind::of(linker, mode)));
        }
        line.extend_from_slice(self.host_words);
        let arguments = fatbin_section::linker_words(linker, options, temp_files, mode, program)?;
        line.extend(arguments.iter().cloned());
        let _linking = span::traced("Execute host linker", || linker.display().to_string());
        let written = replaced.unwrap_or(output);
        self.check_unchanged()?;
        let before = FileState::of(output);
        let size = self.inputs.size().saturating_add(sizes(objects));
        let code = host_linker::run(linker, &line, written, size, temp_files, mode)?;
        if let Some(hint) = (code != 0).then(|| host_lto::hint(self.inputs)).flatten() {
            warn(program, hint);
        }
        // The host linker has read the inputs again.
        if let Err(changed) = self.check_unchanged() {
            temp_files::remove_if_changed(output, &before);
            return Err(changed);
        }
        if code == 0
            && !mode.dry
            && let Some(file) = dependency_file::of_line(&line)
        {
            let ours: Vec<PathBuf> = objects.iter().cloned().chain(arguments.iter().map(PathBuf::from)).collect();
            dependency_file::clean(&file, &ours, (written, output))?;
        }
        if code == 0 && options.relocatable && !mode.dry {
            match options.merges_device_code() {
                true => relocatable::seal_merged(&raw, output, linker)?,
                false => relocatable::seal(&raw, output, linker, self.stub_aliases)?,
            }
        }
        Ok(code)
    }
}
