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
use offload_bundle::{cubin, ltoir};

use crate::backend::choose::Inputs;
use crate::backend::piece::Form;
use crate::backend::ptxas::with_version;
use crate::backend::{Backends, Maker, Piece, Source};
use crate::command::Mode;
use crate::device_compiler::DeviceOptions;
use crate::device_library::{self, DeviceLibrary};
use crate::device_symbols;
use crate::error::{Errors, collect, warn};
use crate::image_policy::Entry;
use crate::mapped::Mapped;
use crate::plan::{Code, PlannedImage, TargetPlan};

use crate::report;
use crate::scratch::Scratch;
use crate::trace;

/// What all targets of one link share.
pub struct Surroundings<'a> {
    /// What makes machine code: chosen for each target. A link of one finished cubin needs nothing.
    pub backends: &'a Backends<'a>,
    /// Our name in messages.
    pub program: &'a str,
    /// Where intermediate files go.
    pub scratch: &'a Scratch,
    /// Options of the device link.
    pub options: &'a DeviceOptions,
    /// Whether tools are shown and run.
    pub mode: Mode,
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
    let libdevice = Libdevice::new(around.libdevice.clone());
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
    if of_code(target, Code::LtoIr).next().is_some() {
        // What LTO-IR defines is its linker's secret: that one reports what is missing.
        resolution.undefined.clear();
    }
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
    let others = target.images.len() - units.len();
    let relocatable = others + partitions.len() + usize::from(library.is_some()) > 1;
    let needed = needs(target, !partitions.is_empty(), relocatable);
    let maker = if relocatable || needed.bitcode || needed.ptx.is_some() || needed.lto_ir.is_some() {
        Some(around.backends.choose(&needed)?)
    } else {
        None
    };
    let assembled = collect(partitions.iter().map(|partition| {
        let maker = maker.ok_or_else(Errors::default)?;
        let job = Job { session: &session, target, around, units: &units, keep: &keep, libdevice: &libdevice, maker };
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
        linked.sass.push((target.arch, join(target, own, library.as_ref(), maker, around)?));
    }
    let warnings: BTreeSet<String> = session.take_warnings().into_iter().collect();
    warnings.iter().for_each(|text| warn(around.program, format_args!("{}: {text}", target.arch)));
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
        scratch.keep(&input_name(target.arch, index, image.code), || image.bytes.to_vec())?;
    }
    Ok(())
}

/// What an image is called as a file.
fn input_name(arch: GpuArch, index: usize, code: Code) -> String {
    format!("{arch}.input.{index}.{}", code.ending())
}

/// What the tool that makes the machine code must be able to do.
fn needs(target: &TargetPlan<'_>, bitcode: bool, joins: bool) -> Inputs {
    Inputs {
        bitcode,
        ptx: of_code(target, Code::Ptx).filter_map(|(_, image)| offload_bundle::ptx::version(image.bytes)).max(),
        cubins: of_code(target, Code::Cubin).next().is_some(),
        lto_ir: of_code(target, Code::LtoIr).filter_map(|(_, image)| ltoir::version(image.bytes)).max(),
        joins,
        ..Inputs::none(target.arch)
    }
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
        Code::Ptx => Ok(device_symbols::of_ptx(image.bytes)),
        Code::LtoIr => Ok(UnitSymbols::default()),
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

/// What must stay visible after the merge: what the host registers and what other code than bitcode defines or wants.
/// LTO-IR may want anything.
fn kept_names(target: &TargetPlan<'_>, symbols: &[UnitSymbols], registered: &HashSet<String>) -> BTreeSet<String> {
    let secret = of_code(target, Code::LtoIr).next().is_some();
    let others = target.images.iter().zip(symbols).filter(|(image, _)| secret || image.code != Code::Bitcode);
    let of_others = others.flat_map(|(_, unit)| unit.symbols.iter().map(|symbol| symbol.name.clone()));
    registered.iter().cloned().chain(of_others).collect()
}

/// libdevice, opened only when somebody wants a `__nv_` function.
struct Libdevice {
    path: Option<PathBuf>,
    content: OnceLock<Option<Mapped>>,
}

impl Libdevice {
    fn new(path: Option<PathBuf>) -> Self {
        Libdevice { path, content: OnceLock::new() }
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

/// What is made of one partition.
struct Made {
    /// Machine code for the target, still to be joined with the rest of it.
    own: Option<Piece>,
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
    maker: Maker<'j>,
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
        let ptx = self.maker.ptx_version(self.target.arch)?;
        let code = CodeTarget { arch: self.target.arch, ptx, level: self.around.options.level };
        keep("merged", &merged)?;
        let optimizing = trace::scope("Optimize", || stem.clone());
        pipeline::optimize(self.session, &merged, code).map_err(Errors::one)?;
        drop(optimizing);
        keep("opt", &merged)?;
        let ptx = self.ptx_entries(&merged)?;
        let sass = self.sass_entries(&merged)?;
        let own = if keeps_own(self.target.arch, self.around) {
            let text = self.emit(&merged, code)?;
            Some(self.piece(self.target.arch, &stem, &text, relocatable)?)
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
    fn sass_entries(&self, merged: &Module<'s>) -> Result<Vec<(GpuArch, Vec<u8>)>, Errors> {
        let own = self.target.arch;
        let wanted = self.around.sass.iter().filter(|entry| entry.from == own && entry.arch != own);
        collect(wanted.map(|entry| {
            let ptx = self.maker.ptx_version(entry.arch)?;
            let code = CodeTarget { arch: entry.arch, ptx, level: self.around.options.level };
            let text = self.emit(&merged.clone(), code)?;
            let stem = format!("{}.from.{own}", entry.arch);
            Ok((entry.arch, self.piece(entry.arch, &stem, &text, false)?.bytes))
        }))
    }

    /// PTX for the image, each made of a copy of the optimized module: generating code changes it.
    fn ptx_entries(&self, merged: &Module<'s>) -> Result<Vec<(GpuArch, Vec<u8>)>, Errors> {
        let wanted = self.around.ptx.iter().filter(|entry| entry.from == self.target.arch);
        collect(wanted.map(|entry| {
            let own = self.maker.ptx_version(entry.arch)?;
            let code = CodeTarget { arch: entry.arch, ptx: own, level: self.around.options.level };
            let text = self.emit(&merged.clone(), code)?;
            let text = match self.around.ptx_version {
                Some(version) => with_version(&text, version).unwrap_or(text),
                None if self.around.mode.dry => text,
                None => self.maker.lower_version(text, entry.arch, self.around.scratch)?,
            };
            self.around.scratch.keep(&format!("{}.ptx", entry.arch.virtual_name()), || text.clone())?;
            Ok((entry.arch, text))
        }))
    }

    fn piece(&self, arch: GpuArch, stem: &str, text: &[u8], joins: bool) -> Result<Piece, Errors> {
        let _assembling = trace::scope("ptxas", || stem.to_owned());
        let name = format!("the linked code for {stem}");
        self.maker.assemble(&Source { arch, stem, text, joins, name: &name }, self.around.scratch)
    }
}

/// The images of one form, with their place among all images.
fn of_code<'t, 'a>(target: &'t TargetPlan<'a>, code: Code) -> impl Iterator<Item = (usize, &'t PlannedImage<'a>)> {
    target.images.iter().enumerate().filter(move |(_, image)| image.code == code)
}

/// The one cubin of the target: a linker runs only where there is more than one piece, or one that is not finished.
fn join(
    target: &TargetPlan<'_>,
    assembled: Vec<Piece>,
    library: Option<&DeviceLibrary>,
    maker: Option<Maker<'_>>,
    around: &Surroundings<'_>,
) -> Result<Vec<u8>, Errors> {
    let (images, library_pieces) = (target.images.len(), usize::from(library.is_some()));
    let joins = images - of_code(target, Code::Bitcode).count() + assembled.len() + library_pieces > 1;
    let mut pieces = Vec::new();
    for (index, image) in target.images.iter().enumerate().filter(|(_, image)| image.code != Code::Bitcode) {
        pieces.push(input_piece(target.arch, (index, image), joins, maker, around)?);
    }
    pieces.extend(assembled);
    if let Some(library) = library {
        let path = around.scratch.write(&format!("{}.library.cubin", target.arch), &library.cubin)?;
        pieces.push(Piece {
            name: "libcudadevrt".to_owned(),
            path,
            bytes: library.cubin.clone(),
            form: Form::Cubin,
            open: true,
        });
    }
    match (&mut pieces[..], maker) {
        ([only], _) if !only.open => Ok(std::mem::take(&mut only.bytes)),
        (_, Some(maker)) => {
            let _joining = trace::scope("nvlink", || target.arch.to_string());
            maker.link_all(target.arch, &pieces, around.scratch)
        }
        (_, None) => Err(Errors::one(format_args!("no tool was chosen to link the code for {}", target.arch))),
    }
}

/// An image that is no bitcode, ready to be joined. One cubin alone is what it is.
fn input_piece(
    arch: GpuArch,
    (index, image): (usize, &PlannedImage<'_>),
    joins: bool,
    maker: Option<Maker<'_>>,
    around: &Surroundings<'_>,
) -> Result<Piece, Errors> {
    if let (Code::Ptx, Some(maker)) = (image.code, maker) {
        // What the containers of CUDA put behind it is no part of the text.
        let text = image.bytes.trim_ascii_end();
        let text = text.strip_suffix(b"\0").unwrap_or(text);
        let (stem, name) = (format!("{arch}.input.{index}"), image.origin.to_string());
        return maker.assemble(&Source { arch, stem: &stem, text, joins, name: &name }, around.scratch);
    }
    let form = if image.code == Code::LtoIr { Form::LtoIr } else { Form::Cubin };
    let open = joins || form == Form::LtoIr;
    let name = input_name(arch, index, image.code);
    let path = if open { around.scratch.write(&name, image.bytes)? } else { around.scratch.file(&name) };
    Ok(Piece { name: image.origin.to_string(), path, bytes: image.bytes.to_vec(), form, open })
}
