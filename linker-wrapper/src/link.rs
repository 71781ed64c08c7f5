//! The story of a link, as a list of phases.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use llvm_passes::registration::Registration;
use offload_bundle::fatbin::FatbinWriter;

use crate::cli::device_options::{self, DeviceOptions};
use crate::cli::options::{self, Options};
use crate::cli::persona;
use crate::cli::response_file;
use crate::codegen::{BackendDecision, Backends};
use crate::crash_report;
use crate::device::device_files::{self, DeviceFiles};
use crate::device::recorded_ptx_flags::FileWishes;
use crate::device::targets::{self, HostTargetPlan, Plan, TargetPlan};
use crate::device::{archive_selection, compat_checks, cudadevrt, lost_images, recorded_ptx_flags};
use crate::diag::error::{Errors, collect};
use crate::diag::messages::{self, warn};
use crate::host::fatbin_section::FatbinSection;
use crate::host::input_files::Inputs;
use crate::host::registration_object::Image;
use crate::host::{coff, dependency_file, embedded_images, host_linker, registration_object, relocatable};
use crate::image::compression;
use crate::image::fatbin::{self, Parts};
use crate::image::report::{ImageReport, Linked};
use crate::lto::device_link::{self, LinkedTarget, Surroundings};
use crate::lto::result_cache::Results;
use crate::plan::image_policy::{self, Entry, PtxPolicy};
use crate::platform::override_image::Overriding;
use crate::platform::{openmp_host, override_image};
use crate::profile::recorder::Recorder;
use crate::profile::time_trace;
use crate::sys::jobserver::{self, Limit};
use crate::sys::memory::Budget;
use crate::sys::memory::estimates::Estimates;
use crate::sys::process::Mode;
use crate::sys::stamp::Stamp;
use crate::sys::temp_files::{self, FileState, Scratch};
use crate::sys::{cache, threads};
use crate::toolchain::{Part, Toolchain, print};

/// Host triple when `--host-triple` is not given: the one this program is built for.
const HOST_TRIPLE: &str = "x86_64-pc-linux-gnu";

/// Does what the command line asks; the exit code comes back.
///
/// # Errors
/// Everything that was found wrong.
pub fn run(words: &[OsString]) -> Result<u8, Errors> {
    let persona = persona::of(words);
    let line = response_file::expand(words.get(1..).unwrap_or_default())?;
    let options = options::parse(&line, persona)?;
    let program = persona::program_name(words);
    if let Some(file) = &options.time_trace {
        time_trace::begin(file.clone(), options.time_trace_granularity.unwrap_or(time_trace::DEFAULT_GRANULARITY));
    }
    let whole = time_trace::scope("Execute linker wrapper", || program.clone());
    let outcome = run_options(&options, &program);
    drop(whole);
    // A failed link's own errors come first; its trace is written all the same.
    let traced = time_trace::end();
    outcome.and_then(|code| traced.map(|()| code))
}

/// Runs the device link of the command line again, after LLVM failed in it, to see which function it cannot compile. Nothing is
/// written or reported.
///
/// # Errors
/// What was found.
pub fn diagnose(words: &[OsString]) -> Result<u8, Errors> {
    let line = response_file::expand(words.get(1..).unwrap_or_default())?;
    let asked = options::parse(&line, persona::of(words))?;
    let options = Options { stats: None, report: None, time_trace: None, jobs: jobserver::Jobs::Number(1), ..asked };
    let options = Options { diagnosing: true, verbose: false, dry_run: false, save_temps: false, ..options };
    messages::mute_warnings();
    run_options(&options, &persona::program_name(words))
}

/// The phases, with everything that was asked in `options`.
fn run_options(options: &Options, program: &str) -> Result<u8, Errors> {
    if let Some(answer) = answer(options, program) {
        return messages::answer(&answer).map(|()| 0);
    }
    let mode = Mode { show: options.verbose || options.dry_run, dry: options.dry_run };
    let device = device_options::read(options);
    let mode = Mode { show: mode.show || (device.verbose && !options.diagnosing), ..mode };
    options.parts.check()?;
    if options.print_toolchain {
        return messages::answer(&print::toolchain(options, device.cuda_path.as_deref(), program)).map(|()| 0);
    }
    ask_llvm(program, &device)?;

    // Hosts of bitcode are read by LLVM even before there is a folder to clean up.
    llvm_passes::crash::prepare(program, "");
    llvm_passes::crash::before_report(jobserver::give_all_back_in_signal);
    threads::set_number(options.jobs);
    let extraction = time_trace::scope("ExtractDeviceCode", String::new);
    let overriding =
        options.override_image.as_ref().map(|(kind, file)| override_image::read(kind, file)).transpose()?;
    let (overriding, inputs) = match overriding {
        // With an image given, the inputs are the host linker's alone.
        Some((overriding, stamp)) => (Some(overriding), Inputs::of_image(stamp)),
        None => (None, Inputs::open(options)?),
    };
    inputs.warnings().iter().for_each(|text| warn(program, text));
    run_inputs(options, program, &device, mode, &inputs, overriding, extraction).map_err(|errors| {
        // What goes wrong with a file that somebody writes to is best explained by that.
        let mut all = inputs.check_unchanged(output(options)).err().unwrap_or_default();
        all.extend(errors);
        all
    })
}

/// The phases that follow when the files are open.
fn run_inputs(
    options: &Options,
    program: &str,
    device: &DeviceOptions,
    mode: Mode,
    inputs: &Inputs,
    overriding: Option<Overriding>,
    extraction: Option<time_trace::Scope>,
) -> Result<u8, Errors> {
    let handled = options.linker_query || inputs.already_registered(options);
    let images = if handled { Vec::new() } else { embedded_images::find(inputs)? };
    // What -r makes is no program yet.
    if !handled && overriding.is_none() && !options.relocatable && !options.emit_fatbin_only {
        lost_images::check(inputs, &images, &options.roots)?;
        lost_images::libraries(inputs).iter().for_each(|text| warn(program, text));
    }
    if images.is_empty() && overriding.is_none() && !options.emit_fatbin_only {
        drop(extraction);
        time_trace::end()?;
        if !handled {
            warn_of_useless_words(program, options, &Plan::default());
        }
        report(program, options, &OnceLock::new())?;
        return host_linker::become_linker(&host_linker::find(options, program)?, &options.host_line, mode);
    }
    threads::start()?;
    let archs = device_files::archs_of(&images);
    let device_files = DeviceFiles::open(if archs.is_empty() { &[] } else { &device.inputs }, &device.library_paths)?;
    let code = device_files.code_for(archs)?;
    let selection = archive_selection::select(inputs, &images, &options.roots, &code)?;
    let linked: Vec<_> = images.into_iter().filter(|found| selection.device[found.piece]).collect();
    let (plan, warnings) = code.add_to(targets::make(&linked)?, &device.roots)?;
    warnings.iter().for_each(|text| warn(program, text));
    reject_unsupported(options)?;
    let overwritten = inputs.overwritten_by(output(options)).or_else(|| device_files.overwritten_by(output(options)));
    if let Some(input) = overwritten {
        return Err(Errors::one(format_args!(
            "input file '{}' is the same as output file; write the output to another file",
            input.display()
        )));
    }
    if !plan.cuda.is_empty() {
        device.unknown.iter().for_each(|word| warn(program, format_args!("{word} has no effect on this device link")));
    }
    warn_of_useless_words(program, options, &plan);

    drop(extraction);

    llvm_passes::on_fatal_error(if options.diagnosing { give_up_for_good } else { give_up });
    let output = output(options);
    let scratch = Scratch::new((options.save_temps && !mode.dry).then_some(output))?;
    llvm_passes::crash::prepare(program, &scratch.folder().unwrap_or(Path::new("")).to_string_lossy());
    if !options.diagnosing {
        llvm_passes::crash::remember_line(&std::env::args_os().collect::<Vec<_>>());
    }
    let mut registered = embedded_images::registered_names(inputs, &selection.host)?;
    registered.extend(device.roots.iter().cloned());
    let linker = host_linker::find(options, program);
    let (limit, warning) = Limit::new(options.jobs);
    warning.into_iter().for_each(|text| warn(program, text));
    let wishes = match options.ptx_policy {
        PtxPolicy::Line => recorded_ptx_flags::of_line(&options.include_ptx),
        _ => recorded_ptx_flags::read(inputs, &linked),
    };
    let link = Link {
        program,
        options,
        device,
        inputs,
        device_files: &device_files,
        output,
        scratch: &scratch,
        mode,
        linker: &linker,
        limit: &limit,
        wishes: &wishes,
        registered: &registered,
        recorder: Recorder::new(options.stats.is_some()),
        cached: OnceLock::new(),
        choices: OnceLock::new(),
        report: OnceLock::new(),
    };
    let code = link.recorder.phase("the whole link", || match overriding {
        Some(overriding) => link.wrap(overriding),
        None if options.diagnosing => link.targets(&plan.cuda).map(|_| 0),
        None if options.emit_fatbin_only => link.emit_bundle(&plan),
        None => link.all(&plan),
    })?;
    link.print_stats();
    // What a link that failed would have made is of no use.
    if code == 0 { report(program, options, &link.report).map(|()| 0) } else { Ok(code) }
}

/// `--offload-report`; `made` is empty where there was no CUDA code.
fn report(program: &str, options: &Options, made: &OnceLock<ImageReport>) -> Result<(), Errors> {
    let Some(request) = options.report.as_ref().filter(|_| !options.linker_query) else { return Ok(()) };
    request.answer(program, made.get_or_init(|| ImageReport::empty(output(options), options)))
}

/// The output's name; linkers have a default.
fn output(options: &Options) -> &Path {
    options.output.as_deref().unwrap_or(Path::new("a.out"))
}

/// `--help` and `--version` under the wrapper's name.
fn answer(options: &Options, program: &str) -> Option<String> {
    let version = || {
        // clang -Wl,--version: a build system asks for the linker.
        let linkers = options.linker_path.as_ref().and_then(|_| host_linker::version(options, program));
        format!(
            "{}{program} version {} (fatlink, LLVM {})\n",
            linkers.unwrap_or_default(),
            env!("CARGO_PKG_VERSION"),
            llvm_passes::bitcode::our_version()
        )
    };
    options.help.clone().or_else(|| options.version.then(version))
}

/// LLVM's own options; `-mllvm --help` is answered by LLVM itself, and so is an option that it does not know.
fn ask_llvm(program: &str, device: &DeviceOptions) -> Result<(), Errors> {
    if device.llvm_options.is_empty() {
        return Ok(());
    }
    llvm_passes::initialize();
    if llvm_passes::parse_llvm_options(program, &device.llvm_options) {
        return Ok(());
    }
    let options = device.llvm_options.join(" ");
    Err(Errors::one(format_args!(
        "LLVM does not take these options of -mllvm, --offload-opt and --plugin-opt: {options}"
    )))
}

/// Names the words of `--device-linker=` that are for no target of this link. Libraries are for whoever wants them.
fn warn_of_useless_words(program: &str, options: &Options, plan: &Plan<'_>) {
    let openmp = plan.openmp.iter().map(|target| target.triple);
    let triples: Vec<&str> = openmp.chain((!plan.cuda.is_empty()).then_some(device_options::CUDA_TRIPLE)).collect();
    for (triple, word) in &options.device_linker {
        let is_library = word.starts_with("-l") || word.starts_with("-L");
        let is_useful = match triple {
            Some(triple) => triples.contains(&triple.as_str()),
            None => !triples.is_empty(),
        };
        if !is_useful && !is_library {
            let of = triple.as_ref().map_or_else(String::new, |triple| format!("{triple}="));
            let what = triple.as_ref().map_or_else(String::new, |triple| format!(" for {triple}"));
            warn(program, format_args!("--device-linker={of}{word} has no effect: this link has no device code{what}"));
        }
    }
}

/// What this version cannot do is said before any work is done.
fn reject_unsupported(options: &Options) -> Result<(), Errors> {
    let mut errors = Errors::default();
    if options.embed_bitcode {
        errors.push(
            "--embed-bitcode (-fopenmp-target-jit) keeps bitcode for a compiler at run time, and neither the CUDA runtime \
             nor OpenMP on x86-64 has one: leave it out",
        );
    }
    if let Some(triple) = options.host_triple.as_deref().filter(|triple| coff::is_host(triple))
        && !options.emit_fatbin_only
    {
        errors.extend(coff::refused(&format!("--host-triple={triple}")));
    }
    errors.or(())
}

/// LLVM cannot go on ("Cannot select", say): a fresh copy of this program looks for the reason.
fn give_up(reason: &str) {
    temp_files::clean_up();
    crash_report::take_over(reason);
    give_up_for_good(reason);
}

/// LLVM cannot go on: say so, leave nothing behind.
fn give_up_for_good(reason: &str) {
    messages::print_errors("fatlink", &crash_report::gave_up(reason));
    temp_files::clean_up();
    std::process::exit(1);
}

/// Two results as one, with the errors of both.
fn both<A, B>(first: Result<A, Errors>, second: Result<B, Errors>) -> Result<(A, B), Errors> {
    match (first, second) {
        (Ok(first), Ok(second)) => Ok((first, second)),
        (Err(mut errors), Err(more)) => {
            errors.extend(more);
            Err(errors)
        }
        (Err(errors), _) | (_, Err(errors)) => Err(errors),
    }
}

/// What the image gets: machine code and PTX, and what there is to say about that.
#[derive(Default)]
struct Decision {
    sass: Vec<Entry>,
    ptx: Vec<Entry>,
    notes: Vec<String>,
}

/// A link under way.
struct Link<'a> {
    program: &'a str,
    options: &'a Options,
    device: &'a DeviceOptions,
    inputs: &'a Inputs,
    device_files: &'a DeviceFiles,
    output: &'a Path,
    scratch: &'a Scratch,
    mode: Mode,
    linker: &'a Result<PathBuf, Errors>,
    limit: &'a Limit,
    /// Who wishes for which PTX.
    wishes: &'a [FileWishes],
    /// Names that the host registers.
    registered: &'a HashSet<String>,
    /// What made the machine code, once that is chosen.
    choices: OnceLock<Vec<BackendDecision>>,
    /// What there is to say of the CUDA image, once it is made.
    report: OnceLock<ImageReport>,
    /// Notes for `--offload-stats`.
    recorder: Recorder,
    /// Entries that the cache had, and had not.
    cached: OnceLock<(u64, u64)>,
}

impl Link<'_> {
    /// The usual link: device code of all kinds, and the host's with it.
    fn all(&self, plan: &Plan<'_>) -> Result<u8, Errors> {
        let host_linker = self.linker.as_ref().map_err(Clone::clone)?;
        let device = time_trace::scope("Handle all device input", String::new);
        let (openmp, cuda) = rayon::join(|| self.openmp_object(&plan.openmp), || self.cuda_object(&plan.cuda));
        let objects = collect([openmp, cuda])?.into_iter().flatten().collect::<Vec<_>>();
        drop(device);
        self.host(host_linker, &objects)
    }

    /// What the image gets.
    fn decide(&self, targets: &[TargetPlan<'_>]) -> Result<Decision, Errors> {
        let sass = image_policy::sass(&self.options.sass_policy, targets);
        let (sass, (ptx, notes)) = both(sass, image_policy::ptx(&self.options.ptx_policy, targets, self.wishes))?;
        Ok(Decision { sass, ptx, notes })
    }

    /// All device links, in parallel; their order is the plan's.
    fn targets(&self, targets: &[TargetPlan<'_>]) -> Result<Vec<LinkedTarget>, Errors> {
        let cuda_path = self.options.cuda_path.as_deref().or(self.device.cuda_path.as_deref());
        let toolchain = Toolchain::find(cuda_path, &self.options.parts);
        let backends = Backends::new(&toolchain, self.options.backend, self.device, self.mode, self.program);
        let Decision { sass, ptx, notes } = self.decide(targets)?;
        notes.iter().for_each(|text| warn(self.program, text));
        if sass.is_empty() && ptx.is_empty() {
            return Err(Errors::one("--offload-sass=none without PTX leaves the image empty; say --offload-ptx= too"));
        }
        // What is to be looked at must be made, and a dry run makes nothing.
        let unused = self.options.save_temps || self.options.diagnosing || self.mode.dry;
        let library = cudadevrt::path(self.options, &toolchain);
        let results = Results::new(if unused { None } else { cache::of(self.options)? }, {
            let parts = [Part::Ptxas, Part::Nvlink, Part::Libdevice].map(|part| toolchain.path(part));
            parts.iter().chain([&library]).flatten().filter_map(|path| Stamp::of(path).ok()).collect()
        });
        let linked = std::thread::scope(|scope| {
            // ptxas needs 2 ms to say its version: ask while LLVM reads and optimizes. Without a thread it is asked later.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || backends.probe_early());
            let around = Surroundings {
                backends: &backends,
                program: self.program,
                scratch: self.scratch,
                options: self.device,
                mode: self.mode,
                diagnosing: self.options.diagnosing,
                libdevice: toolchain.path(Part::Libdevice),
                device_library: library.clone(),
                sass: &sass,
                ptx: &ptx,
                ptx_version: self.options.ptx_version,
                registered: self.registered,
                partitioning: self.options.partitioning,
                limit: self.limit,
                results: &results,
                budget: &Budget::new(self.options.memory),
                estimates: &Estimates::default(),
                recorder: &self.recorder,
            };
            let link = || device_link::link_all(targets, &around);
            let (linked, agreed) = rayon::join(link, || self.agree(targets));
            let (linked, warnings) = both(linked, agreed)?;
            warnings.iter().for_each(|text| warn(self.program, text));
            Ok(linked)
        });
        if self.mode.show {
            // Comments to the shell that the commands are pasted into.
            backends.decisions().iter().for_each(|choice| messages::show(format_args!(" # {choice}")));
            let notes = results.notes();
            notes
                .iter()
                .for_each(|why| messages::show(format_args!(" # the cache is not used for all of this link: {why}")));
        }
        // One link has one set of targets.
        let _ = self.choices.set(backends.decisions());
        if let Some(cache) = results.cache() {
            // One link has one set of targets.
            let _ = self.cached.set(cache.hits_and_misses());
            cache.warning().into_iter().for_each(|text| warn(self.program, text));
            cache.trim();
        }
        // What goes wrong with a tool or library that is being exchanged is best explained by that.
        both(results.check_tools(), linked).map(|((), linked)| linked)
    }

    /// `--offload-stats`.
    fn print_stats(&self) {
        if let Some(format) = self.options.stats {
            messages::report(self.program, &self.recorder.stats(self.cached.get().copied()).render(format));
        }
    }

    /// Whether the files agree about how they were compiled: the warnings, while others read and optimize.
    fn agree(&self, targets: &[TargetPlan<'_>]) -> Result<Vec<String>, Errors> {
        let _checking = time_trace::scope("Compare translation units", String::new);
        compat_checks::check(targets, &self.options.checks)
    }

    /// The object that carries and registers the fatbin; none where there is no CUDA code.
    fn cuda_object(&self, targets: &[TargetPlan<'_>]) -> Result<Option<PathBuf>, Errors> {
        if targets.is_empty() {
            return Ok(None);
        }
        // The registration code does not depend on the image: both are made at once.
        let (linked, template) = rayon::join(|| self.targets(targets), || self.template(&Registration::Cuda));
        self.cuda_registration(targets, &Parts::of_targets(&linked?), template?).map(Some)
    }

    fn cuda_registration(
        &self,
        targets: &[TargetPlan<'_>],
        parts: &Parts<'_>,
        mut template: registration_object::Template,
    ) -> Result<PathBuf, Errors> {
        let _wrapping = time_trace::scope("Wrap bundled images", || "cuda".to_owned());
        let fatbin = self.bundle(targets, parts)?;
        self.options.fatbin_section.warn_of_size(self.program, fatbin.size());
        if self.options.fatbin_section == FatbinSection::Large {
            template.make_large()?;
        }
        self.scratch.keep_file("fatbin", |mut file| fatbin.write_to(&mut file))?;
        let path = self.scratch.file("cuda.registration.o");
        template.write(&path, &fatbin)?;
        Ok(path)
    }

    /// The object that carries and registers the OpenMP images; none where there are none.
    fn openmp_object(&self, targets: &[HostTargetPlan<'_>]) -> Result<Option<PathBuf>, Errors> {
        if targets.is_empty() {
            return Ok(None);
        }
        self.openmp_registration(&self.openmp_bundle(targets)?).map(Some)
    }

    fn openmp_registration(&self, bundle: &openmp_host::Bundle) -> Result<PathBuf, Errors> {
        let registration = Registration::OpenMp { images: &bundle.images, relocatable: self.options.relocatable };
        let path = self.scratch.file("openmp.registration.o");
        self.template(&registration)?.write(&path, &bundle.blobs[..])?;
        Ok(path)
    }

    /// `--override-image`: bundle, register and link an image that is finished.
    fn wrap(&self, overriding: Overriding) -> Result<u8, Errors> {
        let object = match &overriding {
            Overriding::Cuda(arch, cubin) => {
                let parts = Parts::of_cubin(*arch, cubin.bytes());
                if self.options.emit_fatbin_only {
                    return self.write_bundle(&self.bundle(&[], &parts)?);
                }
                self.cuda_registration(&[], &parts, self.template(&Registration::Cuda)?)?
            }
            Overriding::OpenMp(bundle) if self.options.emit_fatbin_only => return self.write_bundle(&bundle.blobs[..]),
            Overriding::OpenMp(bundle) => self.openmp_registration(bundle)?,
        };
        self.host(self.linker.as_ref().map_err(Clone::clone)?, &[object])
    }

    /// Checks that no file of the link has changed since it was opened.
    fn check_unchanged(&self) -> Result<(), Errors> {
        both(self.inputs.check_unchanged(self.output), self.device_files.check_unchanged(self.output)).map(drop)
    }

    fn write_bundle<I: Image + ?Sized>(&self, image: &I) -> Result<u8, Errors> {
        if !self.mode.dry {
            self.check_unchanged()?;
            temp_files::write_output_by(self.output, |mut file| image.write_to(&mut file))?;
        }
        Ok(0)
    }

    fn openmp_bundle(&self, targets: &[HostTargetPlan<'_>]) -> Result<openmp_host::Bundle, Errors> {
        let linker = self.linker.as_ref().map_err(Clone::clone)?;
        openmp_host::link(targets, linker, self.options, self.scratch, self.mode)
    }

    fn template(&self, registration: &Registration<'_>) -> Result<registration_object::Template, Errors> {
        let _compiling = time_trace::scope("Compile module", || format!("{:?}", registration.slot().section));
        let triple = self.options.host_triple.as_deref().unwrap_or(HOST_TRIPLE);
        let show = |text: &str| messages::show(text.trim_end());
        let show = self.options.print_wrapped_module.then_some(&show as &dyn Fn(&str));
        registration_object::template(triple, registration, show)
    }

    /// The fatbin, checked, of the parts that were made of `targets`.
    fn bundle<'l>(&self, targets: &[TargetPlan<'_>], parts: &Parts<'l>) -> Result<FatbinWriter<'l>, Errors> {
        let _bundling = time_trace::scope("Bundle linked output", || "cuda".to_owned());
        // What the user gave ptxas counts for the driver's compiler too.
        let ptx_options = self.device.ptxas_arguments.join(" ");
        let fatbin = parts.bundle(compression::options(self.options.compress, self.device.debug), &ptx_options)?;
        let checked = fatbin::check(&fatbin, self.program)?;
        if self.options.report.is_some() {
            // An image that somebody else has linked is of no targets.
            let decision = if targets.is_empty() { Decision::default() } else { self.decide(targets)? };
            let Decision { sass, ptx, .. } = decision;
            let choices = self.choices.get().map_or(&[][..], Vec::as_slice);
            let linked = Linked { targets, sass: &sass, ptx: &ptx, wishes: self.wishes, choices };
            let report = ImageReport::empty(self.output, self.options).with_image(linked, &fatbin, checked);
            // One link makes one fatbin.
            let _ = self.report.set(report);
        }
        Ok(fatbin)
    }

    /// The host link, with the registration object in it. A relocatable link (`-r`) is a final device
    /// link: what it makes must link with other such objects and without any wrapper.
    fn host(&self, linker: &Path, objects: &[PathBuf]) -> Result<u8, Errors> {
        let raw = self.scratch.file("relocatable.o");
        let replaced = self.options.relocatable.then_some(&*raw);
        let mut line = host_linker::line_with(self.options, objects, replaced);
        line.extend(host_linker::keeping_entries(linker, &line));
        let section = self.options.fatbin_section;
        let words = section.linker_words(linker, self.options, self.scratch, self.mode, self.program)?;
        line.extend(words.iter().cloned());
        let _linking = time_trace::scope("Execute host linker", || linker.display().to_string());
        let written = replaced.unwrap_or(self.output);
        self.check_unchanged()?;
        let before = FileState::of(self.output);
        let code = host_linker::run(linker, &line, written, self.scratch, self.mode)?;
        // The host linker has opened the inputs once more.
        if let Err(changed) = self.check_unchanged() {
            temp_files::remove_if_changed(self.output, &before);
            return Err(changed);
        }
        if code == 0
            && !self.mode.dry
            && let Some(file) = dependency_file::of_line(&line)
        {
            let ours: Vec<PathBuf> = objects.iter().cloned().chain(words.iter().map(PathBuf::from)).collect();
            dependency_file::clean(&file, &ours, (written, self.output))?;
        }
        if code == 0 && self.options.relocatable && !self.mode.dry {
            relocatable::seal(&raw, self.output)?;
        }
        Ok(code)
    }

    /// `--emit-fatbin-only`: the bundle itself is the output.
    fn emit_bundle(&self, plan: &Plan<'_>) -> Result<u8, Errors> {
        if !plan.cuda.is_empty() && !plan.openmp.is_empty() {
            return Err(Errors::one(
                "--emit-fatbin-only: the inputs hold CUDA and OpenMP code; link them one at a time",
            ));
        }
        if plan.openmp.is_empty() {
            let linked = self.targets(&plan.cuda)?;
            self.write_bundle(&self.bundle(&plan.cuda, &Parts::of_targets(&linked))?)
        } else {
            self.write_bundle(&self.openmp_bundle(&plan.openmp)?.blobs[..])
        }
    }
}
