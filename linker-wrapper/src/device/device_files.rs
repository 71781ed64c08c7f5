//! Device code that the line gives to the device link itself (`-Xoffload-linker dev.o`, `-ldev`). For NVIDIA's GPUs it is bitcode, cubins, PTX
//! and containers of these, in files and archives. Files are linked for every target that their code fits; members of archives
//! only if they define a device symbol that is undefined without them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use llvm_passes::bitcode;
use llvm_passes::symbols::Symbol;
use llvm_passes::unit::{CachedFacts, Unit};
use offload_bundle::arch::GpuArch;
use offload_bundle::fatbin::{self, EntryKind, FatbinEntry};
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::OffloadKinds;
use offload_bundle::{FormatError, cubin, ltoir, offload_binary, ptx};

use crate::cli::device_options::{CUDA_TRIPLE, DeviceInput, DeviceOptions};
use crate::cli::options::Options;
use crate::device::amd_files::{AmdCode, AmdFiles};
use crate::device::error::Error;
use crate::device::line_parts::{self, LineImage, Part};
use crate::device::targets::{Code, TargetImages};
use crate::diag::error::{Errors, both, collect};
use crate::host::embedded_images::FoundImage;
use crate::host::error::damaged;
use crate::host::input_files::InputFiles;

/// Device code with its form.
type Codes<'f> = Vec<(Code, Cow<'f, [u8]>)>;

/// A target that code of the line is read for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineTarget {
    /// One of NVIDIA's GPUs.
    Nvptx(GpuArch),
    /// A processor of AMD's.
    Amdgcn {
        /// The triple of its images.
        triple: String,
        /// The processor, without the settings of its features.
        processor: String,
    },
}

/// The targets that code of the line is read for.
pub type LineTargets = BTreeSet<LineTarget>;

/// The mapped files and archives.
pub struct DeviceFiles {
    /// Those for NVIDIA's GPUs.
    inputs: InputFiles,
    /// Those for AMD's GPUs, by triple.
    amd: BTreeMap<String, AmdFiles>,
    targets: LineTargets,
}

impl DeviceFiles {
    /// Opens the files and libraries that the line names for these targets. NVIDIA's device runtime may be missing in the folders of libraries;
    /// the link finds it by itself.
    ///
    /// # Errors
    /// Files that cannot be read, libraries that are in no `-L` folder.
    pub fn open(options: &Options, device: &DeviceOptions, targets: LineTargets) -> Result<Self, Errors> {
        let has_nvptx = targets.iter().any(|target| matches!(target, LineTarget::Nvptx(_)));
        let inputs = if has_nvptx { Self::inputs(device) } else { InputFiles::of_device_link(&[]) };
        let triples: BTreeSet<&String> = targets.iter().filter_map(LineTarget::amd_triple).collect();
        let amd = triples.into_iter().map(|triple| Ok((triple.clone(), AmdFiles::open(options, triple)?)));
        let (inputs, amd) = both(inputs, collect(amd))?;
        Ok(DeviceFiles { inputs, amd: amd.into_iter().collect(), targets })
    }

    /// The same for the targets that the files have code for: machine code, or else PTX.
    ///
    /// # Errors
    /// Also damaged files, and files that do not say what they are for.
    pub fn open_for_own_targets(device: &DeviceOptions) -> Result<Self, Errors> {
        let inputs = Self::inputs(device)?;
        let mut own = OwnTargets::default();
        for file in inputs.files() {
            own.add(inputs.bytes(file)).map_err(|error| damaged(&file.name, file.base(), &error))?;
        }
        let targets: LineTargets = own.chosen().into_iter().map(LineTarget::Nvptx).collect();
        if targets.is_empty() {
            return Err(Error::NoOwnTarget.into());
        }
        Ok(DeviceFiles { inputs, amd: BTreeMap::new(), targets })
    }

    fn inputs(device: &DeviceOptions) -> Result<InputFiles, Errors> {
        let files = device.inputs.iter().filter_map(|input| match input {
            DeviceInput::File { path, whole } => Some(Ok((path.clone(), *whole))),
            DeviceInput::Library { name, whole } => match line_parts::locate(name, &device.library_paths) {
                Some(path) => Some(Ok((path, *whole))),
                None if name == "cudadevrt" => None,
                None => {
                    let (name, folders) = (name.clone(), device.library_paths.clone());
                    Some(Err(Error::NoLibrary { name, folders }.into()))
                }
            },
        });
        collect(files).and_then(|files| InputFiles::of_device_link(&files))
    }

    fn all_inputs(&self) -> impl Iterator<Item = &InputFiles> {
        std::iter::once(&self.inputs).chain(self.amd.values().map(AmdFiles::inputs))
    }

    /// Checks that no file has changed since it was opened.
    ///
    /// # Errors
    /// One for each changed file.
    pub fn check_unchanged(&self, output: &Path) -> Result<(), Errors> {
        collect(self.all_inputs().map(|inputs| inputs.check_unchanged(output))).map(drop)
    }

    /// Returns the file that the output would overwrite.
    pub fn overwritten_by(&self, output: &Path) -> Option<&Path> {
        self.all_inputs().find_map(|inputs| inputs.overwritten_by(output))
    }

    /// Reads the code for each target. `facts` has what earlier links read of its units.
    ///
    /// # Errors
    /// Damaged files, and files without device code.
    pub fn code<'a>(&'a self, facts: Option<&'a dyn CachedFacts>) -> Result<DeviceCode<'a>, Errors> {
        let mut targets = BTreeMap::new();
        let archs = self.targets.iter().filter_map(|target| match target {
            LineTarget::Nvptx(arch) => Some(*arch),
            LineTarget::Amdgcn { .. } => None,
        });
        for arch in archs {
            let parts = self.inputs.files().iter().map(|file| {
                let codes =
                    codes(self.inputs.bytes(file), arch).map_err(|error| damaged(&file.name, file.base(), &error))?;
                let image = |(code, bytes)| LineImage::new(&line_parts::origin(file), code, bytes, facts);
                Ok(Part { file, images: codes.unwrap_or_default().into_iter().map(image).collect() })
            });
            targets.insert(arch, collect(parts)?);
        }
        self.require_device_code()?;
        let amd = self.amd.iter().map(|(triple, files)| (triple.as_str(), files.code(facts)));
        Ok(DeviceCode { targets, amd: amd.collect(), line_targets: &self.targets })
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

impl LineTarget {
    fn amd_triple(&self) -> Option<&String> {
        match self {
            LineTarget::Nvptx(_) => None,
            LineTarget::Amdgcn { triple, .. } => Some(triple),
        }
    }
}

/// The code of the files for each target.
pub struct DeviceCode<'f> {
    targets: BTreeMap<GpuArch, Vec<Part<'f>>>,
    /// Code for AMD's GPUs, by triple: bitcode is compiled for each target.
    amd: BTreeMap<&'f str, AmdCode<'f>>,
    line_targets: &'f LineTargets,
}

impl<'f> DeviceCode<'f> {
    /// Returns the targets of the line without their code, the highest first.
    pub fn own_targets(&self) -> Vec<TargetImages<'f>> {
        self.targets.keys().rev().map(|arch| TargetImages { arch: *arch, images: Vec::new() }).collect()
    }

    /// Returns the bitcode units of all files and members.
    pub fn units(&self) -> impl Iterator<Item = &Unit<'f>> {
        let amd = self.amd.values().flat_map(|code| &code.parts);
        let images = self.targets.values().flatten().chain(amd).flat_map(|part| &part.images);
        images.filter_map(|image| image.unit.as_ref())
    }

    /// Returns the symbols of the files that are always linked, by target in the spelling of images. They may reference symbols of
    /// archive members among the host's files, or define symbols for which such members would be selected.
    ///
    /// # Errors
    /// Unreadable code.
    pub fn symbols(&self) -> Result<HashMap<String, Vec<Symbol>>, Errors> {
        let of_target = |target: &LineTarget| {
            let (name, parts) = match target {
                LineTarget::Nvptx(arch) => (format!("{CUDA_TRIPLE} {arch}"), self.targets.get(arch).map(Vec::as_slice)),
                LineTarget::Amdgcn { triple, processor } => {
                    let code = self.amd.get(triple.as_str());
                    (format!("{triple} {processor}"), code.map(|code| &code.parts[..]))
                }
            };
            let parts = parts.unwrap_or_default().iter();
            let symbols = collect(parts.filter(|part| !part.is_lazy()).map(Part::symbols))?;
            Ok((name, symbols.into_iter().flatten().collect()))
        };
        collect(self.line_targets.iter().map(of_target)).map(|all| all.into_iter().collect())
    }

    /// Adds the code for AMD's GPUs behind the images of a target with this triple. `roots` are further symbols that members are selected for.
    ///
    /// # Errors
    /// Unreadable code.
    pub fn add_amd<'a, A>(
        &'a self,
        triple: &str,
        target: &mut TargetImages<'a, A>,
        roots: &[String],
    ) -> Result<(), Errors> {
        self.amd.get(triple).map_or(Ok(()), |code| line_parts::add(target, &code.parts, roots))
    }

    /// Returns the inputs for this triple of AMD's GPUs that only ld.lld can read.
    pub fn left_to_lld(&self, triple: &str) -> &[DeviceInput] {
        self.amd.get(triple).map_or(&[], |code| code.left)
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
            line_parts::add(target, parts, roots)?;
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

/// What files say that their code is for.
#[derive(Default)]
struct OwnTargets {
    sass: BTreeSet<GpuArch>,
    ptx: BTreeSet<GpuArch>,
}

impl OwnTargets {
    fn add(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        if cubin::is_cubin(bytes) {
            self.sass.insert(cubin::parse(bytes)?.arch());
        } else if ptx::is_ptx(bytes) {
            self.ptx.extend(ptx::target(bytes));
        } else if host_object::file_kind(bytes) == FileKind::Fatbin {
            for entry in fatbin::read(bytes)? {
                let own = if entry.kind == EntryKind::Elf { &mut self.sass } else { &mut self.ptx };
                own.insert(entry.arch);
            }
        }
        Ok(())
    }

    fn chosen(self) -> BTreeSet<GpuArch> {
        if self.sass.is_empty() { self.ptx } else { self.sass }
    }
}

/// Returns the targets of the images of a kind that are NVIDIA's GPUs.
pub fn archs_of(images: &[FoundImage<'_>], kind: OffloadKinds) -> LineTargets {
    let own = images.iter().map(|found| &found.image).filter(|image| image.offload_kinds.contains(kind));
    own.filter_map(|image| image.arch().parse().ok()).map(LineTarget::Nvptx).collect()
}

/// Returns the targets of the images of a kind that are AMD's GPUs, without those that the runtime compiles for.
pub fn amd_targets_of(images: &[FoundImage<'_>], kind: OffloadKinds) -> LineTargets {
    let own = images.iter().map(|found| &found.image).filter(|image| image.offload_kinds.contains(kind));
    own.filter(|image| image.triple().starts_with("amdgcn"))
        .map(|image| {
            let processor = image.arch().split(':').next().unwrap_or_default();
            LineTarget::Amdgcn { triple: image.triple().to_owned(), processor: processor.to_owned() }
        })
        .collect()
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
