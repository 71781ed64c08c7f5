//! The device link of one target: read, resolve, partition, then merge, optimize, emit and assemble
//! each partition, and join.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::OnceLock;

use llvm_passes::Module;
use llvm_passes::partition::{self, Partition};
use llvm_passes::pipeline::{self, CodeTarget, Unit};
use llvm_passes::resolve::{self, Resolution, SYSTEM_CALLS, UnitSymbols};
use llvm_passes::session::Session;
use offload_bundle::arch::{GpuArch, PtxVersion};
use offload_bundle::cubin;

use crate::backend::ptxas::DebugInfo;
use crate::backend::{nvlink, ptxas};
use crate::command::Mode;
use crate::device_compiler::DeviceOptions;
use crate::device_library::{self, DeviceLibrary};
use crate::device_symbols;
use crate::error::{Errors, collect};
use crate::image_policy::Entry;
use crate::mapped::Mapped;
use crate::plan::{Code, PlannedImage, TargetPlan};

use crate::report;
use crate::scratch::Scratch;
use crate::toolchain::{Ptxas, Toolkit};
use crate::trace;
use crate::warnings::Warnings;

/// What all targets of one link share.
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
}

/// What the linked code of one target gives.
#[derive(Debug, Default)]
pub struct LinkedTarget {
    /// Finished cubins: the target's own, and those made for others.
    pub sass: Vec<(GpuArch, Vec<u8>)>,
    /// PTX made of the same linked code: one whole module each.
    pub ptx: Vec<(GpuArch, Vec<u8>)>,
}

/// Links one target.
///
/// # Errors
/// All that is wrong with its images, or what the tools say.
pub fn link(target: &TargetPlan<'_>, around: &Surroundings<'_>) -> Result<LinkedTarget, Errors> {
    let _linking = trace::scope("Link device input", || target.arch.to_string());
    // Declared first: modules of the session borrow from it.
    let libdevice = Libdevice::new(around.toolkit);
    let session = Session::new();
    let names: Vec<String> = target.images.iter().map(|image| image.origin.to_string()).collect();
    let units = units(target, &names);
    keep_inputs(target, around.scratch)?;
    let mut modules = pipeline::read_units(&session, &units).map_err(Errors::all)?;
    pipeline::require_nvptx(&modules, &units).map_err(Errors::all)?;
    let symbols = all_symbols(target, &modules)?;
    let provided = |name: &str| SYSTEM_CALLS.contains(&name) || libdevice.defines(name);
    let mut resolution = resolve::resolve(&symbols, &provided);
    let library = device_library(&mut resolution, target, around);
    report::unresolved(&resolution, target, &modules)?;
    if library.is_some() && wants_more_than_own(target.arch, around) {
        return Err(Errors::one(format_args!(
            "kernels that launch kernels need NVIDIA's device runtime, which is machine code: the code for {} cannot become \
             PTX or machine code of another target; leave out --offload-ptx and --offload-sass",
            target.arch
        )));
    }
    promote_prevailing(&resolution, target, &modules);

    let mut keep = kept_names(target, &symbols, around.registered);
    keep.extend(library.iter().flat_map(|library| library.defines.iter().cloned()));
    let partitions = partition::cut(modules.len());
    let relocatable = cubins(target).count() + partitions.len() + usize::from(library.is_some()) > 1;
    let assembled = collect(partitions.iter().map(|partition| {
        let job = Job { session: &session, target, around, units: &units, keep: &keep, libdevice: &libdevice };
        job.assemble(partition, std::mem::take(&mut modules), relocatable)
    }))?;
    let mut linked = LinkedTarget::default();
    let mut own = Vec::new();
    for job in assembled {
        own.extend(job.own);
        linked.sass.extend(job.sass);
        linked.ptx.extend(job.ptx);
    }
    if keeps_own(target.arch, around) {
        linked.sass.push((target.arch, join(target, own, library.as_ref(), around)?));
    }
    let warnings = Warnings::default();
    warnings.add(&target.arch.to_string(), session.take_warnings());
    warnings.show(around.program);
    Ok(linked)
}

/// Whether the image gets machine code for the very target.
fn keeps_own(arch: GpuArch, around: &Surroundings<'_>) -> bool {
    around.sass.iter().any(|entry| entry.arch == arch)
}

/// Whether the image gets anything made of the target's code that is not its own machine code.
fn wants_more_than_own(arch: GpuArch, around: &Surroundings<'_>) -> bool {
    let mut sass = around.sass.iter().filter(|entry| entry.arch != arch);
    around.ptx.iter().chain(sass.by_ref()).any(|entry| entry.from == arch)
}

/// A linkonce definition that prevails over a later weak one becomes weak: LLVM's merge would prefer the other.
fn promote_prevailing(resolution: &Resolution, target: &TargetPlan<'_>, modules: &[Module<'_>]) {
    for (name, unit) in &resolution.linkonce_over_weak {
        if let Some(module) = module_of(*unit, target, modules) {
            pipeline::make_weak(module, name);
        }
    }
}

/// The module of a unit that is bitcode.
pub fn module_of<'m, 's>(unit: usize, target: &TargetPlan<'_>, modules: &'m [Module<'s>]) -> Option<&'m Module<'s>> {
    let is_bitcode = |image: &&PlannedImage<'_>| image.code == Code::Bitcode;
    let place = target.images[..unit].iter().filter(is_bitcode).count();
    target.images.get(unit).filter(is_bitcode).and_then(|_| modules.get(place))
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
fn keep_inputs(target: &TargetPlan<'_>, scratch: &Scratch) -> Result<(), Errors> {
    for (index, image) in target.images.iter().enumerate() {
        let ending = if image.code == Code::Bitcode { "bc" } else { "cubin" };
        scratch.keep(&format!("{}.input.{index}.{ending}", target.arch), || image.bytes.to_vec())?;
    }
    Ok(())
}

fn units<'a>(target: &TargetPlan<'a>, names: &'a [String]) -> Vec<Unit<'a>> {
    let images = target.images.iter().zip(names);
    images
        .filter(|(image, _)| image.code == Code::Bitcode)
        .map(|(image, name)| Unit { name, bitcode: image.bytes })
        .collect()
}

/// The symbols of every image, in link order.
fn all_symbols(target: &TargetPlan<'_>, modules: &[Module<'_>]) -> Result<Vec<UnitSymbols>, Errors> {
    let mut modules = modules.iter();
    collect(target.images.iter().map(|image| match image.code {
        Code::Bitcode => {
            let symbols = modules.next().map(pipeline::symbols_of).unwrap_or_default();
            Ok(UnitSymbols { symbols })
        }
        Code::Cubin => cubin_symbols(image, target),
    }))
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
fn kept_names(target: &TargetPlan<'_>, symbols: &[UnitSymbols], registered: &HashSet<String>) -> BTreeSet<String> {
    let cubins = target.images.iter().zip(symbols).filter(|(image, _)| image.code == Code::Cubin);
    let of_cubins = cubins.flat_map(|(_, unit)| unit.symbols.iter().map(|symbol| symbol.name.clone()));
    registered.iter().cloned().chain(of_cubins).collect()
}

/// libdevice, opened only when somebody wants a `__nv_` function.
struct Libdevice {
    path: Option<PathBuf>,
    content: OnceLock<Option<Mapped>>,
}

impl Libdevice {
    fn new(toolkit: &Result<Toolkit, Errors>) -> Self {
        Libdevice { path: toolkit.as_ref().ok().map(Toolkit::libdevice), content: OnceLock::new() }
    }

    /// Its names all begin alike, and a wrong one is reported by ptxas.
    fn defines(&self, name: &str) -> bool {
        name.starts_with("__nv_") && self.unit().is_some()
    }

    fn unit(&self) -> Option<Unit<'_>> {
        let content = self.content.get_or_init(|| Mapped::open(self.path.as_deref()?).ok());
        content.as_ref().map(|content| Unit { name: "libdevice", bitcode: content.bytes() })
    }
}

/// The cubin of a partition, in memory and where nvlink finds it.
struct Assembled {
    path: PathBuf,
    bytes: Vec<u8>,
}

/// What is made of one partition.
struct Made {
    /// Machine code for the target, still to be joined with the rest of it.
    own: Option<Assembled>,
    /// Finished machine code for other targets.
    sass: Vec<(GpuArch, Vec<u8>)>,
    ptx: Vec<(GpuArch, Vec<u8>)>,
}

/// The work on one partition.
struct Job<'j, 's> {
    session: &'s Session,
    target: &'j TargetPlan<'j>,
    around: &'j Surroundings<'j>,
    units: &'j [Unit<'j>],
    keep: &'j BTreeSet<String>,
    libdevice: &'s Libdevice,
}

impl<'s> Job<'_, 's> {
    /// From modules to all that the image gets of them.
    fn assemble(&self, partition: &Partition, modules: Vec<Module<'s>>, relocatable: bool) -> Result<Made, Errors> {
        let stem = format!("{}.{}", self.target.arch, partition.index);
        let keep = |stage: &str, module: &Module<'_>| {
            self.around.scratch.keep(&format!("{stem}.{stage}.bc"), || pipeline::bitcode_of(module))
        };
        let merging = trace::scope("Merge", || stem.clone());
        let merged = pipeline::merge(self.session, modules, self.units).map_err(Errors::one)?;
        pipeline::internalize(&merged, self.keep);
        if pipeline::wants_libdevice(&merged)
            && let Some(library) = self.libdevice.unit()
        {
            pipeline::add_libdevice(self.session, &merged, library).map_err(Errors::one)?;
            pipeline::internalize(&merged, self.keep);
        }
        drop(merging);
        let ptxas = (self.around.ptxas)()?;
        let ptx = ptxas.ptx_version(self.target.arch)?;
        let code = CodeTarget { arch: self.target.arch, ptx, level: self.around.options.level };
        keep("merged", &merged)?;
        let optimizing = trace::scope("Optimize", || stem.clone());
        pipeline::optimize(self.session, &merged, code).map_err(Errors::one)?;
        drop(optimizing);
        keep("opt", &merged)?;
        let ptx = self.ptx_entries(&merged, &ptxas)?;
        let sass = self.sass_entries(&merged, &ptxas)?;
        let own = if keeps_own(self.target.arch, self.around) {
            let text = self.emit(&merged, code)?;
            Some(self.run_ptxas(self.target.arch, &stem, &ptxas, &text, relocatable)?)
        } else {
            None
        };
        Ok(Made { own, sass, ptx })
    }

    fn emit(&self, module: &Module<'_>, code: CodeTarget) -> Result<Vec<u8>, Errors> {
        let _emitting = trace::scope("Generate PTX", || code.arch.to_string());
        pipeline::emit_ptx(self.session, module, code).map_err(Errors::one)
    }

    /// Machine code for other targets, each made of a copy of the optimized module.
    fn sass_entries(&self, merged: &Module<'s>, ptxas: &Ptxas) -> Result<Vec<(GpuArch, Vec<u8>)>, Errors> {
        let own = self.target.arch;
        let wanted = self.around.sass.iter().filter(|entry| entry.from == own && entry.arch != own);
        collect(wanted.map(|entry| {
            let ptx = ptxas.ptx_version(entry.arch)?;
            let code = CodeTarget { arch: entry.arch, ptx, level: self.around.options.level };
            let text = self.emit(&merged.clone(), code)?;
            let stem = format!("{}.from.{own}", entry.arch);
            Ok((entry.arch, self.run_ptxas(entry.arch, &stem, ptxas, &text, false)?.bytes))
        }))
    }

    /// PTX for the image, each made of a copy of the optimized module: generating code changes it.
    fn ptx_entries(&self, merged: &Module<'s>, ptxas: &Ptxas) -> Result<Vec<(GpuArch, Vec<u8>)>, Errors> {
        let wanted = self.around.ptx.iter().filter(|entry| entry.from == self.target.arch);
        collect(wanted.map(|entry| {
            let own = ptxas.ptx_version(entry.arch)?;
            let code = CodeTarget { arch: entry.arch, ptx: own, level: self.around.options.level };
            let text = self.emit(&merged.clone(), code)?;
            let text = match self.around.ptx_version {
                Some(version) => ptxas::with_version(&text, version).unwrap_or(text),
                None if self.around.mode.dry => text,
                None => ptxas::lower_version(&ptxas.path, text, entry.arch, own, self.around.scratch)?,
            };
            self.around.scratch.keep(&format!("{}.ptx", entry.arch.virtual_name()), || text.clone())?;
            Ok((entry.arch, text))
        }))
    }

    fn run_ptxas(
        &self,
        arch: GpuArch,
        stem: &str,
        ptxas: &Ptxas,
        text: &[u8],
        relocatable: bool,
    ) -> Result<Assembled, Errors> {
        let scratch = self.around.scratch;
        let input = scratch.write(&format!("{stem}.ptx"), text)?;
        let output = scratch.file(&format!("{stem}.cubin"));
        let assembly = ptxas::Assembly {
            ptxas: &ptxas.path,
            arch,
            input,
            output: output.clone(),
            relocatable,
            debug_info: debug_info(text),
        };
        let _assembling = trace::scope("ptxas", || stem.to_owned());
        let bytes = ptxas::assemble(&assembly, self.around.options, self.around.mode)?;
        Ok(Assembled { path: output, bytes })
    }
}

/// What PTX says of its debug information: the `debug` option of `.target`, or `.file` directives alone.
fn debug_info(ptx: &[u8]) -> DebugInfo {
    let mut lines = ptx.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start);
    let is_debug = |line: &[u8]| line.starts_with(b".target") && line.trim_ascii_end().ends_with(b", debug");
    // `.target` stands among the first lines; the text may be hundreds of megabytes.
    if lines.clone().take(32).any(is_debug) {
        return DebugInfo::Full;
    }
    if lines.any(|line| line.starts_with(b".file")) { DebugInfo::Lines } else { DebugInfo::None }
}

/// The images that are cubins, with their place among all images.
fn cubins<'t, 'a>(target: &'t TargetPlan<'a>) -> impl Iterator<Item = (usize, &'t PlannedImage<'a>)> {
    target.images.iter().enumerate().filter(|(_, image)| image.code == Code::Cubin)
}

/// The one cubin of the target: nvlink runs only where there is more than one.
fn join(
    target: &TargetPlan<'_>,
    mut assembled: Vec<Assembled>,
    library: Option<&DeviceLibrary>,
    around: &Surroundings<'_>,
) -> Result<Vec<u8>, Errors> {
    let cubins: Vec<(usize, &PlannedImage<'_>)> = cubins(target).collect();
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
            let output = around.scratch.file(&format!("{}.linked.cubin", target.arch));
            let _joining = trace::scope("nvlink", || target.arch.to_string());
            nvlink::join(&toolkit.nvlink()?, target.arch, &files, &output, around.options, around.mode)
        }
    }
}
