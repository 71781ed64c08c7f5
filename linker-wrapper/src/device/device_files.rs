//! Device code that the line gives to the device link itself (`-Xoffload-linker dev.o`, `-ldev`): bitcode, cubins, PTX and
//! containers of these, in files and archives. Files are linked for every target that their code fits; members of archives
//! only if they define a device symbol that is undefined without them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use llvm_passes::bitcode;
use llvm_passes::symbols::{Strength, Symbol};
use llvm_passes::unit::{CachedFacts, Unit};
use offload_bundle::arch::GpuArch;
use offload_bundle::fatbin::{self, EntryKind, FatbinEntry};
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::OffloadKinds;
use offload_bundle::{FormatError, cubin, ltoir, offload_binary, ptx};

use crate::cli::device_options::{CUDA_TRIPLE, DeviceInput};
use crate::device::error::Error;
use crate::device::symbols;
use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::diag::error::{Errors, collect};
use crate::host::embedded_images::{FoundImage, Origin};
use crate::host::error::damaged;
use crate::host::input_files::{InputFile, InputFiles, Place};

/// Device code with its form.
type Codes<'f> = Vec<(Code, Cow<'f, [u8]>)>;

/// One image that a file holds.
struct LineImage<'f> {
    code: Code,
    bytes: Cow<'f, [u8]>,
    /// The bitcode as a unit that is opened once, if it is bitcode.
    unit: Option<Unit<'f>>,
}

impl<'f> LineImage<'f> {
    fn new(origin: &Origin, code: Code, bytes: Cow<'f, [u8]>, facts: Option<&'f dyn CachedFacts>) -> Self {
        let unit = match &bytes {
            // Bitcode is always borrowed: containers that compress their entries hold none.
            Cow::Borrowed(bitcode) if code == Code::Bitcode => {
                Some(Unit::new(origin.to_string(), bitcode).with_cached(facts))
            }
            _ => None,
        };
        LineImage { code, bytes, unit }
    }
}

/// The targets that code of the line is read for.
pub type LineTargets = BTreeSet<GpuArch>;

/// The mapped files and archives.
pub struct DeviceFiles {
    inputs: InputFiles,
}

impl DeviceFiles {
    /// Opens the files and libraries that the line names, and searches libraries in `folders`. NVIDIA's device runtime may be missing
    /// there; the link finds it by itself.
    ///
    /// # Errors
    /// Files that cannot be read, libraries that are in no `-L` folder.
    pub fn open(inputs: &[DeviceInput], folders: &[PathBuf]) -> Result<Self, Errors> {
        let files = inputs.iter().filter_map(|input| match input {
            DeviceInput::File { path, whole } => Some(Ok((path.clone(), *whole))),
            DeviceInput::Library { name, whole } => match locate(name, folders) {
                Some(path) => Some(Ok((path, *whole))),
                None if name == "cudadevrt" => None,
                None => Some(Err(Error::NoLibrary { name: name.clone(), folders: folders.to_vec() }.into())),
            },
        });
        InputFiles::of_device_link(&collect(files)?).map(|inputs| DeviceFiles { inputs })
    }

    /// Checks that no file has changed since it was opened.
    ///
    /// # Errors
    /// One for each changed file.
    pub fn check_unchanged(&self, output: &Path) -> Result<(), Errors> {
        self.inputs.check_unchanged(output)
    }

    /// Returns the file that the output would overwrite.
    pub fn overwritten_by(&self, output: &Path) -> Option<&Path> {
        self.inputs.overwritten_by(output)
    }

    /// Reads the code for each of these targets. `kept` has facts about its units.
    ///
    /// # Errors
    /// Damaged files, and files without device code.
    pub fn code_for<'a>(
        &'a self,
        archs: LineTargets,
        facts: Option<&'a dyn CachedFacts>,
    ) -> Result<DeviceCode<'a>, Errors> {
        let mut targets = BTreeMap::new();
        for arch in archs {
            let parts = self.inputs.files().iter().map(|file| {
                let codes =
                    codes(self.inputs.bytes(file), arch).map_err(|error| damaged(&file.name, file.base(), &error))?;
                let image = |(code, bytes)| LineImage::new(&origin(file), code, bytes, facts);
                Ok(Part { file, images: codes.unwrap_or_default().into_iter().map(image).collect() })
            });
            targets.insert(arch, collect(parts)?);
        }
        self.require_device_code()?;
        Ok(DeviceCode { targets })
    }

    /// Rejects files on the line without device code. Such members of archives are ignored.
    fn require_device_code(&self) -> Result<(), Errors> {
        let alone = self.inputs.files().iter().filter(|file| !file.in_archive);
        collect(alone.map(|file| match is_device_file(self.inputs.bytes(file), file.kind) {
            true => Ok(()),
            false => Err(Error::NoDeviceCode { file: file.name.clone() }.into()),
        }))
        .map(drop)
    }
}

/// The code of the files for each target.
pub struct DeviceCode<'f> {
    targets: BTreeMap<GpuArch, Vec<Part<'f>>>,
}

/// The code of one file or member for one target.
struct Part<'f> {
    file: &'f InputFile,
    images: Vec<LineImage<'f>>,
}

impl Part<'_> {
    /// Whether the part is a member that is linked only if it is needed.
    fn is_lazy(&self) -> bool {
        self.file.place != Place::Line
    }

    fn symbols(&self) -> Result<Vec<Symbol>, Errors> {
        let origin = origin(self.file);
        let images = self.images.iter();
        let symbols =
            images.map(|image| Ok(symbols::of_image(image.unit.as_ref(), &origin, &image.bytes)?.into_owned()));
        collect(symbols).map(|symbols| symbols.into_iter().flatten().collect())
    }
}

impl<'f> DeviceCode<'f> {
    /// Returns the bitcode units of all files and members.
    pub fn units(&self) -> impl Iterator<Item = &Unit<'f>> {
        let images = self.targets.values().flatten().flat_map(|part| &part.images);
        images.filter_map(|image| image.unit.as_ref())
    }

    /// Returns the symbols of the files that are always linked, by target in the spelling of images. They may reference symbols of
    /// archive members among the host's files, or define symbols for which such members would be selected.
    ///
    /// # Errors
    /// Unreadable code.
    pub fn symbols(&self) -> Result<HashMap<String, Vec<Symbol>>, Errors> {
        let of_target = |(arch, parts): (&GpuArch, &Vec<Part<'_>>)| {
            let symbols = collect(parts.iter().filter(|part| !part.is_lazy()).map(Part::symbols))?;
            Ok((format!("{CUDA_TRIPLE} {arch}"), symbols.into_iter().flatten().collect()))
        };
        collect(self.targets.iter().map(of_target)).map(|all| all.into_iter().collect())
    }

    /// Adds the code for each target behind its images. `roots` are further symbols that members are selected for. Returns the
    /// targets with warnings.
    ///
    /// # Errors
    /// A file on the line that has no code for one of the targets. Unreadable code.
    pub fn add_to<'a>(
        &'a self,
        mut targets: Vec<TargetImages<'a>>,
        roots: &[String],
    ) -> Result<(Vec<TargetImages<'a>>, Vec<String>), Errors> {
        let mut errors = Errors::default();
        for target in &mut targets {
            let Some(parts) = self.targets.get(&target.arch) else { continue };
            let missing = parts.iter().filter(|part| part.images.is_empty() && !part.file.in_archive);
            missing.for_each(|part| {
                errors.extend(Error::NotForTarget { file: part.file.name.clone(), arch: target.arch });
            });
            let selected = select(target, parts, roots)?;
            for part in parts.iter().zip(selected).filter(|(_, selected)| *selected).map(|(part, _)| part) {
                let origin = origin(part.file);
                let images = part.images.iter().map(|image| DeviceImage {
                    origin: origin.clone(),
                    from_host: false,
                    code: image.code,
                    bytes: &image.bytes,
                    unit: image.unit.as_ref(),
                    rdc: None,
                });
                target.images.extend(images);
            }
        }
        let warnings = self.without_code(&targets);
        errors.or((targets, warnings))
    }

    /// Warns about members of whole archives (`--whole-archive`) that have no code for any target.
    fn without_code(&self, targets: &[TargetImages<'_>]) -> Vec<String> {
        let parts: Vec<_> = targets.iter().filter_map(|target| self.targets.get(&target.arch)).collect();
        let Some(first) = parts.first() else { return Vec::new() };
        let whole = first.iter().enumerate().filter(|(_, part)| !part.is_lazy() && part.file.in_archive);
        let without_code = whole.filter(|(index, _)| parts.iter().all(|parts| parts[*index].images.is_empty()));
        without_code
            .map(|(_, part)| format!("{} has no code for any target of this link and is left out", part.file.name))
            .collect()
    }
}

/// Returns the targets of the images of a kind that are NVIDIA's GPUs.
pub fn archs_of(images: &[FoundImage<'_>], kind: OffloadKinds) -> LineTargets {
    let own = images.iter().map(|found| &found.image).filter(|image| image.offload_kinds.contains(kind));
    own.filter_map(|image| image.arch().parse().ok()).collect()
}

/// Selects all files, and to a fixed point the members that define undefined symbols.
fn select(target: &TargetImages<'_>, parts: &[Part<'_>], roots: &[String]) -> Result<Vec<bool>, Errors> {
    let mut selected: Vec<bool> = parts.iter().map(|part| !part.is_lazy() && !part.images.is_empty()).collect();
    let candidates = |part: &Part<'_>| part.is_lazy() && !part.images.is_empty();
    if !parts.iter().any(candidates) {
        return Ok(selected);
    }
    let symbols = collect(parts.iter().map(Part::symbols))?;
    let mut state = State { referenced: roots.iter().cloned().collect(), defined: HashSet::new() };
    for image in &target.images {
        state.add(&symbols::of_image(image.unit, &image.origin, image.bytes)?);
    }
    let on_line = selected.iter().zip(&symbols).filter(|(selected, _)| **selected);
    on_line.for_each(|(_, symbols)| state.add(symbols));
    loop {
        let is_needed =
            |index: &usize| !selected[*index] && candidates(&parts[*index]) && state.lacks_any(&symbols[*index]);
        let Some(index) = (0..parts.len()).find(is_needed) else { return Ok(selected) };
        selected[index] = true;
        state.add(&symbols[index]);
    }
}

/// The device symbols of the selected code.
struct State {
    referenced: HashSet<String>,
    defined: HashSet<String>,
}

impl State {
    fn add(&mut self, symbols: &[Symbol]) {
        for symbol in symbols {
            match symbol.strength {
                Strength::Undefined => self.referenced.insert(symbol.name.clone()),
                Strength::WeakUndefined => false,
                _ => self.defined.insert(symbol.name.clone()),
            };
        }
    }

    /// Whether any of these symbols is a definition that resolves an undefined symbol.
    fn lacks_any(&self, symbols: &[Symbol]) -> bool {
        let defines = symbols.iter().filter(|symbol| symbol.strength.is_definition());
        defines.map(|symbol| &symbol.name).any(|name| self.referenced.contains(name) && !self.defined.contains(name))
    }
}

/// Finds the device code in a file that can be linked for a target. Returns `None` if the file is of no kind that holds device
/// code.
fn codes(bytes: &[u8], arch: GpuArch) -> Result<Option<Codes<'_>>, FormatError> {
    let one = |code, fits: bool| Ok(Some(fits.then_some((code, Cow::Borrowed(bytes))).into_iter().collect()));
    if bitcode::is_bitcode(bytes) {
        return one(Code::Bitcode, true);
    }
    if cubin::is_cubin(bytes) {
        return one(Code::Cubin, arch.runs_sass_of(cubin::parse(bytes)?.arch()));
    }
    if ptx::is_ptx(bytes) {
        return one(Code::Ptx, ptx::target(bytes).is_some_and(|own| arch.assembles_ptx_of(own)));
    }
    if ltoir::version(bytes).is_some() {
        return one(Code::LtoIr, true);
    }
    match host_object::file_kind(bytes) {
        FileKind::Fatbin => of_fatbin(bytes, arch).map(Some),
        FileKind::OffloadBinary => of_images(offload_binary::read_all(bytes)?, arch).map(Some),
        FileKind::ElfRelocatable => {
            let images = host_object::device_images(bytes)?.into_iter().map(|device| device.image);
            let mut found = of_images(images.collect(), arch)?;
            if let Some((_, section)) = host_object::section(bytes, b"__nv_relfatbin") {
                found.extend(of_fatbin(section, arch)?);
            }
            Ok(Some(found))
        }
        _ => Ok(None),
    }
}

/// Reads clang's images for exactly this target.
fn of_images(images: Vec<offload_binary::OffloadImage<'_>>, arch: GpuArch) -> Result<Codes<'_>, FormatError> {
    let ours = images.into_iter().filter(|image| {
        image.offload_kinds.contains(OffloadKinds::CUDA) && image.arch().parse::<GpuArch>().is_ok_and(|own| own == arch)
    });
    let found = ours.map(|image| codes(image.image, arch)).collect::<Result<Vec<_>, _>>()?;
    Ok(found.into_iter().flatten().flatten().collect())
}

/// Reads the entry of a fatbin that fits a target best: the newest machine code that runs on it, else the newest PTX that can
/// be assembled for it.
fn of_fatbin(data: &[u8], arch: GpuArch) -> Result<Codes<'_>, FormatError> {
    let containers = fatbin::read_containers(data)?;
    let entries: Vec<&FatbinEntry<'_>> = containers.iter().flat_map(|container| &container.entries).collect();
    let best = |kind: EntryKind, fits: &dyn Fn(GpuArch) -> bool| {
        let fitting = entries.iter().filter(|entry| entry.kind == kind && fits(entry.arch));
        fitting.max_by_key(|entry| entry.arch).copied()
    };
    let cubin = best(EntryKind::Elf, &|own| arch.runs_sass_of(own)).map(|entry| (Code::Cubin, entry));
    let ptx = || best(EntryKind::Ptx, &|own| arch.assembles_ptx_of(own)).map(|entry| (Code::Ptx, entry));
    let Some((code, entry)) = cubin.or_else(ptx) else { return Ok(Vec::new()) };
    Ok(vec![(code, entry.payload()?)])
}

fn is_device_file(bytes: &[u8], kind: FileKind) -> bool {
    let is_host_object = kind == FileKind::ElfRelocatable && !cubin::is_cubin(bytes);
    let carries = || host_object::carriers(bytes).is_ok_and(|carriers| !carriers.is_empty());
    match kind {
        _ if is_host_object => carries(),
        FileKind::Unknown => ptx::is_ptx(bytes) || ltoir::version(bytes).is_some(),
        FileKind::ElfShared | FileKind::Coff => false,
        _ => true,
    }
}

fn origin(file: &InputFile) -> Origin {
    Origin { file: file.name.clone(), offset: Some(file.base()), is_one_of_several: false }
}

fn locate(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let file = name.strip_prefix(':').map_or_else(|| format!("lib{name}.a"), str::to_owned);
    folders.iter().map(|folder| folder.join(&file)).find(|path| path.is_file())
}
