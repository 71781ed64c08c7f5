//! The device links of all targets: what each needs is found first, then the jobs of all of them run in one
//! pool, the longest first, and then the machine code of every target is joined.
//!
//! A small program is one job in this process ([`whole`]); a large one is cut into partitions ([`partitioned`]).

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use llvm_passes::pipeline::Unit;
use llvm_passes::resolve::{self, Resolution, SYSTEM_CALLS, UnitSymbols};
use llvm_passes::session::Warning;
use offload_bundle::arch::{GpuArch, PtxVersion};
use offload_bundle::cubin;
use rayon::prelude::*;

use crate::backend::{nvlink, ptxas};
use crate::cache::Key;
use crate::command::Mode;
use crate::device_compiler::DeviceOptions;
use crate::device_library::{self, DeviceLibrary};
use crate::device_symbols;
use crate::error::{Errors, collect, warn};
use crate::estimates::Estimates;
use crate::image_policy::Entry;
use crate::jobs::Limit;
use crate::mapped::Mapped;
use crate::memory::Budget;
use crate::partition_job::{self, Made};
use crate::partitioned::{self, CutTarget, Partitioning};
use crate::plan::{Code, PlannedImage, TargetPlan};
use crate::results::{CachedTarget, Results};
use crate::scratch::Scratch;
use crate::toolchain::{Ptxas, Toolkit};
use crate::{pool, progress, report, trace, warnings, whole};

/// What all targets of one link share.
#[derive(Clone)]
pub struct Surroundings<'a> {
    /// The CUDA toolkit, or why there is none: a link of one finished cubin needs none.
    pub toolkit: &'a Result<Toolkit, Errors>,
    /// ptxas with its version, probed while the bitcode is read.
    pub ptxas: &'a (dyn Fn() -> Result<Ptxas, Errors> + Sync),
    /// Our name in messages.
    pub program: &'a str,
    /// Where intermediate files go.
    pub scratch: &'a Scratch,
    /// Options of the device link.
    pub options: &'a DeviceOptions,
    /// Whether tools are shown and run.
    pub mode: Mode,
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
    /// Leave to run a job.
    pub limit: &'a Limit,
    /// Jobs at a time.
    pub threads: usize,
    /// What earlier links made.
    pub results: &'a Results,
    /// Memory for jobs.
    pub budget: &'a Budget,
    /// How much of it each needs.
    pub estimates: &'a Estimates,
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
    let keys: Vec<Option<Key>> = targets.iter().map(|target| around.results.target_key(target, around)).collect();
    let ways: Vec<_> = targets.par_iter().zip(&keys).map(|(target, key)| way(target, key.as_ref(), around)).collect();
    let ways = collect(ways)?;
    let jobs: Vec<Job<'_>> = ways.iter().flat_map(jobs).collect();
    let done = pool::longest_first(&jobs, around.threads, |job| around.limit.run(|| run(job, around)))?;
    let mut done = done.into_iter();
    let linked = collect(ways.iter().map(|way| finish(way, &mut done, around)))?;
    for ((target, way), (key, linked)) in targets.iter().zip(&ways).zip(keys.iter().zip(&linked)) {
        // What tools say is no part of a result that is kept: they say it when they run.
        if !matches!(way, Way::Done(_)) && linked.said.is_empty() && !around.mode.dry {
            around.results.put(key.as_ref(), &CachedTarget::of(linked));
        }
        report_words(target, linked, around);
    }
    Ok(linked)
}

fn report_words(target: &TargetPlan<'_>, linked: &LinkedTarget, around: &Surroundings<'_>) {
    linked.said.iter().for_each(|words| progress::quietly(|| eprintln!("{words}")));
    for text in warnings::lines(linked.warnings.iter().cloned()) {
        warn(around.program, format_args!("{}: {text}", target.arch));
    }
}

fn way<'a>(target: &'a TargetPlan<'a>, key: Option<&Key>, around: &Surroundings<'_>) -> Result<Way<'a>, Errors> {
    if let Some(linked) = around.results.get::<CachedTarget>(key).and_then(CachedTarget::into_linked) {
        return Ok(Way::Done(linked));
    }
    let cut = partitioned::cut(target, around)?;
    Ok(cut.map_or(Way::Whole(target), |cut| Way::Cut(Box::new(cut))))
}

fn jobs<'j>(way: &'j Way<'j>) -> Vec<Job<'j>> {
    match way {
        Way::Done(_) => Vec::new(),
        Way::Whole(target) => vec![Job::Whole(target)],
        Way::Cut(cut) => (0..cut.partitions().len()).map(|index| Job::Partition(cut, index)).collect(),
    }
}

impl pool::Job for Job<'_> {
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
        Job::Whole(target) => whole::link(target, around).map(Done::Whole),
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
    report::unresolved(&resolution, target, users)?;
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
    let library = device_library::read(around.device_library.as_deref()?, target.arch)?;
    let before = resolution.undefined.len();
    resolution.undefined.retain(|symbol| !library.defines.contains(&symbol.name));
    (resolution.undefined.len() < before).then_some(library)
}

/// With `--save-temps`: the device images as they were found.
pub fn keep_inputs(target: &TargetPlan<'_>, scratch: &Scratch) -> Result<(), Errors> {
    for (index, image) in target.images.iter().enumerate() {
        let ending = if image.code == Code::Bitcode { "bc" } else { "cubin" };
        scratch.keep(&format!("{}.input.{index}.{ending}", target.arch), || image.bytes.to_vec())?;
    }
    Ok(())
}

/// The bitcode among a target's images, with the names by which messages call them.
pub fn units<'a>(target: &TargetPlan<'a>, names: &'a [String]) -> Vec<Unit<'a>> {
    let images = target.images.iter().zip(names);
    images
        .filter(|(image, _)| image.code == Code::Bitcode)
        .map(|(image, name)| Unit { name, bitcode: image.bytes })
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
    let symbols = device_symbols::of_cubin(&image.origin, image.bytes)?;
    let relocatable = cubin::parse(image.bytes).is_ok_and(|cubin| cubin.is_relocatable());
    if !relocatable && target.images.len() > 1 {
        return Err(Errors::one(format_args!(
            "{}: the cubin for {} is finished and cannot be linked with others; compile the file with -fgpu-rdc",
            image.origin, target.arch
        )));
    }
    Ok(symbols)
}

/// What must stay visible after the merge: what the host registers and what cubins define or want.
pub fn kept_names(target: &TargetPlan<'_>, symbols: &[UnitSymbols], registered: &HashSet<String>) -> BTreeSet<String> {
    let cubins = target.images.iter().zip(symbols).filter(|(image, _)| image.code == Code::Cubin);
    let of_cubins = cubins.flat_map(|(_, unit)| unit.symbols.iter().map(|symbol| symbol.name.clone()));
    registered.iter().cloned().chain(of_cubins).collect()
}

/// libdevice, opened only when somebody wants a `__nv_` function.
pub struct Libdevice {
    path: Option<PathBuf>,
    content: OnceLock<Option<Mapped>>,
}

impl Libdevice {
    /// Of that toolkit.
    pub fn new(toolkit: &Result<Toolkit, Errors>) -> Self {
        Libdevice { path: toolkit.as_ref().ok().map(Toolkit::libdevice), content: OnceLock::new() }
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
    pub fn unit(&self) -> Option<Unit<'_>> {
        let content = self.content.get_or_init(|| Mapped::open(self.path.as_deref()?).ok());
        content.as_ref().map(|content| Unit { name: "libdevice", bitcode: content.bytes() })
    }
}

/// A cubin, in memory and where nvlink finds it.
#[derive(Debug)]
pub struct Assembled {
    /// Its target.
    pub arch: GpuArch,
    /// The file.
    pub path: PathBuf,
    /// Its content.
    pub bytes: Vec<u8>,
    /// The largest resident size of ptxas, in bytes; 0: not known.
    pub peak: u64,
    /// What ptxas said.
    pub said: Vec<String>,
}

/// Runs ptxas on a file of PTX.
///
/// # Errors
/// Those of [`ptxas::assemble`].
pub fn run_ptxas(assembly: ptxas::Assembly<'_>, around: &Surroundings<'_>) -> Result<Assembled, Errors> {
    let _assembling = trace::scope("ptxas", || assembly.input.display().to_string());
    let ptxas::Cubin { bytes, said, peak } = ptxas::assemble(&assembly, around.options, around.mode)?;
    let said = if said.is_empty() { Vec::new() } else { vec![said] };
    Ok(Assembled { arch: assembly.arch, path: assembly.output, bytes, peak, said })
}

/// The images that are cubins, with their place among all images.
pub fn cubins<'t, 'a>(target: &'t TargetPlan<'a>) -> impl Iterator<Item = (usize, &'t PlannedImage<'a>)> {
    target.images.iter().enumerate().filter(|(_, image)| image.code == Code::Cubin)
}

/// The one cubin of the target: nvlink runs only where there is more than one.
///
/// # Errors
/// Those of [`nvlink::join`].
pub fn join(
    target: &TargetPlan<'_>,
    arch: GpuArch,
    mut assembled: Vec<Assembled>,
    library: Option<&DeviceLibrary>,
    around: &Surroundings<'_>,
) -> Result<Vec<u8>, Errors> {
    // Finished code of other targets is not joined with code that was made for this one.
    let cubins: Vec<(usize, &PlannedImage<'_>)> = cubins(target).filter(|_| arch == target.arch).collect();
    match (&cubins[..], &mut assembled[..], library) {
        ([(_, only)], [], None) => Ok(only.bytes.to_vec()),
        ([], [only], None) => Ok(std::mem::take(&mut only.bytes)),
        _ => {
            let toolkit = around.toolkit.as_ref().map_err(Clone::clone)?;
            let mut files = collect(cubins.iter().map(|(index, image)| {
                around.scratch.write(&format!("{}.input.{index}.cubin", target.arch), image.bytes)
            }))?;
            files.extend(assembled.into_iter().map(|cubin| cubin.path));
            if let Some(library) = library {
                files.push(around.scratch.write(&format!("{}.library.cubin", target.arch), &library.cubin)?);
            }
            let output = around.scratch.file(&format!("{}.linked.cubin", arch));
            let _joining = trace::scope("nvlink", || arch.to_string());
            nvlink::join(&toolkit.nvlink()?, arch, &files, &output, around.options, around.mode)
        }
    }
}
