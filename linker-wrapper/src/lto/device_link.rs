//! The device links of all targets: what each needs is found first, then the jobs of all of them run in one
//! pool, the longest first, and then the machine code of every target is joined.
//!
//! A small program is one job in this process ([`monolithic`]); a large one is cut into partitions ([`partitioned`]).

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use llvm_passes::pipeline::NamedBitcode;
use llvm_passes::resolve::{self, Resolution, SYSTEM_CALLS, UnitSymbols};
use llvm_passes::session::Warning;
use offload_bundle::arch::{GpuArch, PtxVersion};
use offload_bundle::ptx::DebugInfo;
use offload_bundle::{cubin, ltoir, ptx};
use rayon::prelude::*;

use crate::cli::device_options::DeviceOptions;
use crate::cli::values::Partitioning;
use crate::codegen::{Backends, Codegen, DeviceObject, Form, PtxSource};
use crate::device::cudadevrt::{self, DeviceLibrary};
use crate::device::symbol_errors;
use crate::device::symbols;
use crate::device::targets::{Code, PlannedImage, TargetPlan};
use crate::diag::error::{Errors, collect};
use crate::diag::messages::{self, warn};
use crate::diag::progress::Progress;
use crate::lto::partition_job::{self, Made};
use crate::lto::partitioned;
use crate::lto::partitioned::CutTarget;
use crate::lto::private_images::PrivateImages;
use crate::lto::result_cache::{CachedTarget, Results};
use crate::lto::{llvm_warnings, monolithic};
use crate::plan::backend::CodegenNeeds;
use crate::plan::image_policy::Entry;
use crate::profile::recorder::Recorder;
use crate::profile::span;
use crate::sys::cache::Key;
use crate::sys::job_queue;
use crate::sys::jobserver::Limit;
use crate::sys::mapped_file::Mapped;
use crate::sys::memory::Budget;
use crate::sys::memory::estimates::Estimates;
use crate::sys::process::Mode;
use crate::sys::temp_files::TempFiles;

/// What all targets of one link share.
#[derive(Clone)]
pub struct Surroundings<'a> {
    /// What makes machine code: chosen for each target. A link of one finished cubin needs nothing.
    pub backends: &'a Backends<'a>,
    /// Our name in messages.
    pub program: &'a str,
    /// Where intermediate files go.
    pub temp_files: &'a TempFiles,
    /// Options of the device link.
    pub options: &'a DeviceOptions,
    /// Whether tools are shown and run.
    pub mode: Mode,
    /// LLVM failed on a monolithic target, and this link only looks for the reason.
    pub diagnosing: bool,
    /// Where CUDA's mathematical functions are, should somebody want them.
    pub libdevice: Option<PathBuf>,
    /// Where NVIDIA's device runtime is, should somebody want it.
    pub device_library: Option<PathBuf>,
    /// Machine code that the image gets, of all targets.
    pub sass: &'a [Entry],
    /// PTX that the image gets, of all targets.
    pub ptx: &'a [Entry],
    /// Its version, if the user says so.
    pub ptx_version: Option<PtxVersion>,
    /// Names that the host registers with the runtime.
    pub registered: &'a HashSet<String>,
    /// How the code is cut into jobs.
    pub partitioning: Partitioning,
    /// How many jobs may run at a time.
    pub limit: &'a Limit,
    /// What earlier links made.
    pub results: &'a Results,
    /// Memory for jobs.
    pub budget: &'a Budget,
    /// How much of it each needs.
    pub estimates: &'a Estimates,
    /// Notes for `--offload-stats`.
    pub recorder: &'a Recorder,
}

/// What the linked code of one target gives.
#[derive(Debug, Clone, Default)]
pub struct LinkedTarget {
    /// Finished cubins: the target's own, and those made for others.
    pub sass: Vec<(GpuArch, Vec<u8>)>,
    /// PTX made of the same linked code: one whole module each.
    pub ptx: Vec<(GpuArch, Vec<u8>)>,
    /// LLVM's warnings.
    pub warnings: Vec<Warning>,
    /// What ptxas and nvlink said.
    pub said: Vec<String>,
}

/// How the code of one target is compiled.
enum Way<'a> {
    /// In one piece.
    Whole(&'a TargetPlan<'a>),
    /// In partitions.
    Cut(Box<CutTarget<'a>>),
    /// An earlier link did it.
    Done(LinkedTarget),
}

/// One thing to do.
enum Job<'j> {
    /// A whole target.
    Whole(&'j TargetPlan<'j>),
    /// One partition, by its number.
    Partition(&'j CutTarget<'j>, usize),
}

/// What came of it.
enum Done {
    Whole(LinkedTarget),
    Partition(Made),
}

/// Links all targets; the results come in their order.
///
/// # Errors
/// All that is wrong with the images, or what the tools say.
pub fn link_all(targets: &[TargetPlan<'_>], around: &Surroundings<'_>) -> Result<Vec<LinkedTarget>, Errors> {
    let results = around.results;
    let cached: Vec<Option<LinkedTarget>> = targets.iter().map(|target| cached(target, around)).collect();
    let copies = private_copies(targets, &cached, around)?;
    let copied: Vec<Option<TargetPlan<'_>>> =
        targets.iter().zip(&copies).map(|(target, copy)| Some(copy.as_ref()?.plan(target))).collect();
    let keys: Vec<Option<Key>> = copied.iter().map(|target| results.target_key(target.as_ref()?, around)).collect();
    let targets: Vec<&TargetPlan<'_>> =
        targets.iter().zip(&copied).map(|(target, copied)| copied.as_ref().unwrap_or(target)).collect();
    let ways: Vec<_> = around.recorder.phase("symbols and partitions", || {
        let way = |((target, copy), cached)| way(target, copy, cached, around);
        targets.par_iter().copied().zip(&copies).zip(cached).map(way).collect()
    });
    let ways = collect(ways)?;
    let jobs: Vec<Job<'_>> = ways.iter().flat_map(jobs).collect();
    let mut done = around.recorder.phase("device code", || run_all(&jobs, around))?.into_iter();
    let finish_all = || collect(ways.iter().map(|way| finish(way, &mut done, around)));
    let linked = around.recorder.phase("joining", finish_all)?;
    for ((target, way), (key, linked)) in targets.into_iter().zip(&ways).zip(keys.iter().zip(&linked)) {
        // What tools say is no part of a result that is kept: they say it when they run.
        if !matches!(way, Way::Done(_)) && linked.said.is_empty() && !around.mode.dry {
            around.results.put(key.as_ref(), &CachedTarget::of(linked));
        }
        report_words(target, linked, around);
    }
    Ok(linked)
}

/// Runs all jobs, with a line on a terminal that says how far they are.
fn run_all(jobs: &[Job<'_>], around: &Surroundings<'_>) -> Result<Vec<Done>, Errors> {
    let labels: Vec<(String, u64)> = jobs.iter().map(|job| (job.label(), job_queue::Job::cost(job))).collect();
    let progress = Progress::new(&labels);
    job_queue::longest_first(jobs, around.limit, |index, job| {
        progress.started(index);
        let done = run(job, around);
        progress.finished(index);
        done
    })
}

fn report_words(target: &TargetPlan<'_>, linked: &LinkedTarget, around: &Surroundings<'_>) {
    linked.said.iter().for_each(messages::show);
    for text in llvm_warnings::lines(linked.warnings.iter().cloned()) {
        warn(around.program, format_args!("{}: {text}", target.arch));
    }
}

/// What an earlier link made of the same target.
fn cached(target: &TargetPlan<'_>, around: &Surroundings<'_>) -> Option<LinkedTarget> {
    let key = around.results.target_key(target, around);
    let linked = around.results.get::<CachedTarget>(key.as_ref()).map(CachedTarget::into_linked)?;
    // Nothing is made; what would make it is told all the same, and was asked before.
    let _ = around.backends.choose(&most_needs(target, around.options));
    Some(linked)
}

/// Copies of the targets that are in no cache yet but will be: they are compiled from a copy that nobody writes to, and kept
/// under a key of the copy.
fn private_copies(
    targets: &[TargetPlan<'_>],
    cached: &[Option<LinkedTarget>],
    around: &Surroundings<'_>,
) -> Result<Vec<Option<PrivateImages>>, Errors> {
    collect(targets.iter().zip(cached).map(|(target, cached)| {
        let is_copied = around.results.are_kept() && cached.is_none();
        is_copied.then(|| PrivateImages::of(target, around.temp_files)).transpose()
    }))
}

fn way<'a>(
    target: &'a TargetPlan<'a>,
    copy: &Option<PrivateImages>,
    cached: Option<LinkedTarget>,
    around: &Surroundings<'_>,
) -> Result<Way<'a>, Errors> {
    if let Some(linked) = cached {
        return Ok(Way::Done(linked));
    }
    let cut = partitioned::cut(target, copy.as_ref(), around)?;
    Ok(cut.map_or(Way::Whole(target), |cut| Way::Cut(Box::new(cut))))
}

fn jobs<'j>(way: &'j Way<'j>) -> Vec<Job<'j>> {
    match way {
        Way::Done(_) => Vec::new(),
        Way::Whole(target) => vec![Job::Whole(target)],
        Way::Cut(cut) => (0..cut.partitions().len()).map(|index| Job::Partition(cut, index)).collect(),
    }
}

impl Job<'_> {
    /// Its first kernel, or its target.
    fn label(&self) -> String {
        match self {
            Job::Whole(target) => target.arch.to_string(),
            Job::Partition(cut, index) => {
                cut.partitions()[*index].kernels.first().cloned().unwrap_or_else(|| cut.target.arch.to_string())
            }
        }
    }
}

impl job_queue::Job for Job<'_> {
    fn cost(&self) -> u64 {
        match self {
            // Bitcode has some eight bytes for an instruction.
            Job::Whole(target) => target.images.iter().map(|image| image.bytes.len() as u64 / 8).sum(),
            Job::Partition(cut, index) => cut.partitions()[*index].instructions,
        }
    }

    fn is_one_of_many(&self) -> bool {
        matches!(self, Job::Partition(..))
    }
}

fn run(job: &Job<'_>, around: &Surroundings<'_>) -> Result<Done, Errors> {
    match job {
        Job::Whole(target) => monolithic::link(target, around).map(Done::Whole),
        Job::Partition(cut, index) => partition_job::compile(cut, *index, around).map(Done::Partition),
    }
}

fn finish(
    way: &Way<'_>,
    done: &mut impl Iterator<Item = Done>,
    around: &Surroundings<'_>,
) -> Result<LinkedTarget, Errors> {
    match way {
        Way::Done(linked) => Ok(linked.clone()),
        Way::Whole(_) => match done.next() {
            Some(Done::Whole(linked)) => Ok(linked),
            _ => Ok(LinkedTarget::default()),
        },
        Way::Cut(cut) => {
            let made = done.take(cut.partitions().len());
            let pieces = made.filter_map(|one| if let Done::Partition(pieces) = one { Some(pieces) } else { None });
            partitioned::join(cut, pieces.collect(), around)
        }
    }
}

/// Whether the image gets machine code for the very target.
pub fn keeps_own(arch: GpuArch, around: &Surroundings<'_>) -> bool {
    around.sass.iter().any(|entry| entry.arch == arch)
}

/// Whether the image gets anything made of the target's code that is not its own machine code.
pub fn wants_more_than_own(arch: GpuArch, around: &Surroundings<'_>) -> bool {
    let mut sass = around.sass.iter().filter(|entry| entry.arch != arch);
    around.ptx.iter().chain(sass.by_ref()).any(|entry| entry.from == arch)
}

/// Resolves the names of a target. `users` says which functions of a unit want a name, for messages.
///
/// # Errors
/// Names that are defined twice or not at all.
pub fn resolve_names(
    target: &TargetPlan<'_>,
    symbols: &[UnitSymbols],
    libdevice: &Libdevice,
    users: &dyn Fn(usize, &str) -> Vec<String>,
    around: &Surroundings<'_>,
) -> Result<(Resolution, Option<DeviceLibrary>), Errors> {
    let provided = |name: &str| SYSTEM_CALLS.contains(&name) || libdevice.defines(name);
    let mut resolution = resolve::resolve(symbols, &provided);
    let library = device_library(&mut resolution, target, around);
    if of_code(target, Code::LtoIr).next().is_some() {
        // What LTO-IR defines is its linker's secret: that one reports what is missing.
        resolution.undefined.clear();
    }
    symbol_errors::unresolved(&resolution, target, users)?;
    if library.is_some() && wants_more_than_own(target.arch, around) {
        return Err(Errors::one(format_args!(
            "kernels that launch kernels need NVIDIA's device runtime, which is machine code: the code for {} cannot become \
             PTX or machine code of another target; leave out --offload-ptx and --offload-sass",
            target.arch
        )));
    }
    Ok((resolution, library))
}

/// NVIDIA's device runtime, if it defines what is undefined, which is then struck off.
fn device_library(
    resolution: &mut Resolution,
    target: &TargetPlan<'_>,
    around: &Surroundings<'_>,
) -> Option<DeviceLibrary> {
    if resolution.undefined.is_empty() {
        return None;
    }
    let library = cudadevrt::read(around.device_library.as_deref()?, target.arch)?;
    let before = resolution.undefined.len();
    resolution.undefined.retain(|symbol| !library.defines.contains(&symbol.name));
    (resolution.undefined.len() < before).then_some(library)
}

/// With `--save-temps`: the device images as they were found.
pub fn keep_inputs(target: &TargetPlan<'_>, temp_files: &TempFiles) -> Result<(), Errors> {
    for (index, image) in target.images.iter().enumerate() {
        temp_files.keep(&input_name(target.arch, index, image.code), || image.bytes.to_vec())?;
    }
    Ok(())
}

/// What an image is called as a file.
fn input_name(arch: GpuArch, index: usize, code: Code) -> String {
    format!("{arch}.input.{index}.{}", code.ending())
}

/// What the tool that makes the machine code must be able to do. `jobs`: pieces that are made of bitcode; `library`: the
/// device runtime comes too. Words for nvlink are its to judge, so with any of them it runs where one piece alone would be
/// finished without it.
pub fn needs(target: &TargetPlan<'_>, jobs: usize, library: bool, options: &DeviceOptions) -> CodegenNeeds {
    let others = target.images.iter().filter(|image| image.code != Code::Bitcode).count();
    let unlinked = |(_, image): (usize, &PlannedImage<'_>)| {
        cubin::parse(image.bytes).is_ok_and(|cubin| cubin.unlinked().is_some())
    };
    CodegenNeeds {
        bitcode: jobs > 0,
        ptx: of_code(target, Code::Ptx).filter_map(|(_, image)| ptx::version(image.bytes)).max(),
        lto_ir: of_code(target, Code::LtoIr).filter_map(|(_, image)| ltoir::version(image.bytes)).max(),
        joins: others + jobs + usize::from(library) > 1
            || !options.nvlink_arguments.is_empty()
            // The driver does not run it as it is.
            || of_code(target, Code::Cubin).any(unlinked),
        lto: options.lto,
        ..CodegenNeeds::none(target.arch)
    }
}

/// The most that can be needed, before anything is known of the code but its form.
pub fn most_needs(target: &TargetPlan<'_>, options: &DeviceOptions) -> CodegenNeeds {
    let bitcode = of_code(target, Code::Bitcode).next().is_some();
    CodegenNeeds { joins: true, ..needs(target, usize::from(bitcode), true, options) }
}

/// The bitcode among a target's images, with the names by which messages call them.
pub fn units<'a>(target: &TargetPlan<'a>, names: &'a [String]) -> Vec<NamedBitcode<'a>> {
    let images = target.images.iter().zip(names);
    images
        .filter(|(image, _)| image.code == Code::Bitcode)
        .map(|(image, name)| NamedBitcode { name, bitcode: image.bytes })
        .collect()
}

/// The symbols of every image, in link order; `bitcode` gives those of the bitcode units, by their place among these.
///
/// # Errors
/// A damaged cubin, or one that cannot be linked with others.
pub fn all_symbols(
    target: &TargetPlan<'_>,
    bitcode: &dyn Fn(usize) -> UnitSymbols,
) -> Result<Vec<UnitSymbols>, Errors> {
    let mut units = 0..;
    collect(target.images.iter().map(|image| match image.code {
        Code::Bitcode => Ok(units.next().map(bitcode).unwrap_or_default()),
        Code::Cubin => cubin_symbols(image, target),
        Code::Ptx => Ok(symbols::of_ptx(image.bytes)),
        Code::LtoIr => Ok(UnitSymbols::default()),
    }))
}

/// The place of an image among the bitcode units, if it is one.
pub fn unit_of(image: usize, target: &TargetPlan<'_>) -> Option<usize> {
    let is_bitcode = |image: &&PlannedImage<'_>| image.code == Code::Bitcode;
    let place = target.images[..image].iter().filter(is_bitcode).count();
    target.images.get(image).filter(is_bitcode).map(|_| place)
}

/// The symbols of a cubin, which must be relocatable if it is to be joined with anything.
fn cubin_symbols(image: &PlannedImage<'_>, target: &TargetPlan<'_>) -> Result<UnitSymbols, Errors> {
    let symbols = symbols::of_cubin(&image.origin, image.bytes)?;
    let relocatable = cubin::parse(image.bytes).is_ok_and(|cubin| cubin.is_relocatable());
    if !relocatable && target.images.len() > 1 {
        return Err(Errors::one(format_args!(
            "{}: the cubin for {} is finished and cannot be linked with others; compile the file with -fgpu-rdc",
            image.origin, target.arch
        )));
    }
    Ok(symbols)
}

/// What must stay visible after the merge: what the host registers and what other code than bitcode defines or wants.
/// LTO-IR may want anything.
pub fn kept_names(target: &TargetPlan<'_>, symbols: &[UnitSymbols], registered: &HashSet<String>) -> BTreeSet<String> {
    let secret = of_code(target, Code::LtoIr).next().is_some();
    let others = target.images.iter().zip(symbols).filter(|(image, _)| secret || image.code != Code::Bitcode);
    let of_others = others.flat_map(|(_, unit)| unit.symbols.iter().map(|symbol| symbol.name.clone()));
    registered.iter().cloned().chain(of_others).collect()
}

/// libdevice, opened only when somebody wants a `__nv_` function.
pub struct Libdevice {
    path: Option<PathBuf>,
    content: OnceLock<Option<Mapped>>,
}

impl Libdevice {
    /// Of that file.
    pub fn new(path: Option<PathBuf>) -> Self {
        Libdevice { path, content: OnceLock::new() }
    }

    /// Its names all begin alike, and a wrong one is reported by ptxas.
    pub fn defines(&self, name: &str) -> bool {
        name.starts_with("__nv_") && self.unit().is_some()
    }

    /// Its file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Its bitcode.
    pub fn unit(&self) -> Option<NamedBitcode<'_>> {
        let content = self.content.get_or_init(|| Mapped::open(self.path.as_deref()?).ok());
        content.as_ref().map(|content| NamedBitcode { name: "libdevice", bitcode: content.bytes() })
    }
}

/// The images of one form, with their place among all images.
fn of_code<'t, 'a>(target: &'t TargetPlan<'a>, code: Code) -> impl Iterator<Item = (usize, &'t PlannedImage<'a>)> {
    target.images.iter().enumerate().filter(move |(_, image)| image.code == code)
}

/// The one cubin of the target, or of another one that is made of its code: a linker runs only where there is more than
/// one piece, or one that is not finished.
///
/// # Errors
/// What the tool says.
pub fn join(
    target: &TargetPlan<'_>,
    arch: GpuArch,
    assembled: Vec<DeviceObject>,
    library: Option<&DeviceLibrary>,
    needs: &CodegenNeeds,
    around: &Surroundings<'_>,
) -> Result<Vec<u8>, Errors> {
    let mut pieces = Vec::new();
    // Finished code of other targets is not joined with code that was made for this one.
    let images = target.images.iter().enumerate().filter(|_| arch == target.arch);
    for (index, image) in images.filter(|(_, image)| image.code != Code::Bitcode) {
        pieces.push(input_piece(arch, (index, image), needs, around)?);
    }
    pieces.extend(assembled);
    if let Some(library) = library {
        let path = around.temp_files.write(&format!("{}.library.cubin", target.arch), &library.cubin)?;
        let name = "libcudadevrt".to_owned();
        pieces.push(DeviceObject::cubin(name, arch, path, library.cubin.clone(), true));
    }
    if let [only] = &mut pieces[..]
        && !only.unlinked
    {
        return Ok(std::mem::take(&mut only.bytes));
    }
    let _joining = span::traced("nvlink", || arch.to_string());
    around.backends.choose(needs)?.link_all(arch, &pieces, around.temp_files)
}

/// An image that is no bitcode, ready to be joined. One cubin alone is what it is.
fn input_piece(
    arch: GpuArch,
    (index, image): (usize, &PlannedImage<'_>),
    needs: &CodegenNeeds,
    around: &Surroundings<'_>,
) -> Result<DeviceObject, Errors> {
    let name = image.origin.to_string();
    let file = input_name(arch, index, image.code);
    if image.code == Code::Ptx {
        // What the containers of CUDA put behind it is no part of the text.
        let text = image.bytes.trim_ascii_end();
        let text = text.strip_suffix(b"\0").unwrap_or(text);
        let input = around.temp_files.write(&file, text)?;
        let source = PtxSource { arch, input, debug_info: DebugInfo::of(text), relocatable: needs.joins, name };
        return assemble(around.backends.choose(needs)?, source, around);
    }
    let form = if image.code == Code::LtoIr { Form::LtoIr } else { Form::Cubin };
    let open = needs.joins || form == Form::LtoIr;
    let path = if open { around.temp_files.write(&file, image.bytes)? } else { around.temp_files.file(&file) };
    Ok(DeviceObject { form, ..DeviceObject::cubin(name, arch, path, image.bytes.to_vec(), open) })
}

/// Makes a piece of a file of PTX.
///
/// # Errors
/// What the tool says.
pub fn assemble(maker: Codegen<'_>, source: PtxSource, around: &Surroundings<'_>) -> Result<DeviceObject, Errors> {
    let _assembling = span::traced("ptxas", || source.input.display().to_string());
    maker.assemble(source, around.temp_files)
}
