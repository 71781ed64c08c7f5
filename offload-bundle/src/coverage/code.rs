//! Reads each entry of a fatbin: what its image is, whatever its label says.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde::Serialize;

use crate::FormatError;
use crate::arch::{ArchFeature, CudaRelease, GpuArch, PtxVersion};
use crate::audit::{self, ReadImages};
use crate::cubin::{self, Cubin, CubinSymbol, SymbolBinding, SymbolKind};
use crate::fatbin::{Compression, EntryKind, FatbinEntry};
use crate::ptx::{self, header};

/// What the prediction needs to know of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// Its number in the fatbin, from 1.
    pub number: usize,
    /// The kind that the container records.
    pub kind: EntryKind,
    /// The architecture that the container labels it with; by this the driver chooses.
    pub arch: GpuArch,
    /// The PTX version that the container labels it with; `None` for anything but PTX.
    pub labelled_version: Option<PtxVersion>,
    /// How it is compressed.
    pub compression: Compression,
    /// Whether it is a part of a concatenation.
    pub is_concatenated: bool,
    /// Bytes that its image takes in the fatbin.
    pub stored_size: u64,
    /// What the image itself records.
    pub content: Content,
    /// Equal for equal images; 0 for an entry without a twin, as an image may be large.
    pub digest: u64,
    /// Equal for cubins of equal code, and rarely for others; 0 for an image that is no sound cubin.
    pub shape: u64,
    /// How many entries of this kind and label the fatbin has, and which of them this one is, from 1.
    pub twins: Twins,
}

/// The place of an entry among those of the same kind and label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Twins {
    /// From 1.
    pub place: usize,
    /// 1 if there is no other.
    pub count: usize,
}

/// What an image records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Machine code.
    Sass {
        /// The GPU that it was compiled for; never with the suffix `f`, which cubins do not record.
        arch: GpuArch,
        /// The release that compiled it, if known.
        toolkit: Option<CudaRelease>,
        /// The virtual architecture that it was compiled for, if that is recorded.
        virtual_arch: Option<u32>,
        /// Whether a device link made it.
        linked: bool,
        /// A section of a name that no known tool writes.
        unknown_section: Option<String>,
    },
    /// PTX.
    Ptx {
        /// Its `.version`.
        version: PtxVersion,
        /// Its `.target`, if that names a GPU.
        target: Option<GpuArch>,
    },
    /// Code for a link, which no driver loads.
    LtoIr,
    /// A kind that this crate cannot judge.
    Other,
    /// Machine code or PTX that cannot be read. Offsets are those of the data that the fatbin was read from.
    Damaged(FormatError),
    /// Machine code or PTX that cannot be decompressed.
    Undecompressable(FormatError),
    /// Machine code with a section table outside of it, on which the driver crashes.
    Crashing(FormatError),
    /// Machine code that can be read, but in which the driver does not find what it looks for.
    Faulty(cubin::Fault),
}

/// What an entry defines for a device link, and what it references in the other parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkSymbols {
    /// The functions and variables that other parts can refer to.
    pub defined: Vec<Arc<str>>,
    /// The symbols that another part has to define.
    pub wanted: Vec<Arc<str>>,
    /// The kernels that it defines.
    pub kernels: Vec<Arc<str>>,
}

/// The names of the symbols of a fatbin, each once: its entries have the same, and those of templates are long.
#[derive(Default)]
struct Names(HashSet<Arc<str>>);

impl Names {
    fn one(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.0.insert(Arc::clone(&name));
        name
    }
}

/// How an entry is named in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Word {
    Sass,
    Ptx,
    LtoIr,
    Other,
}

impl Code {
    pub(super) fn word(&self) -> Word {
        match self.kind {
            EntryKind::Elf => Word::Sass,
            EntryKind::Ptx => Word::Ptx,
            EntryKind::LtoIr => Word::LtoIr,
            _ => Word::Other,
        }
    }

    /// `sass 90a`, and ` #2` behind it where several entries would have that name.
    pub fn name(&self) -> String {
        let kind = match self.word() {
            Word::Sass => "sass".to_owned(),
            Word::Ptx => "ptx".to_owned(),
            Word::LtoIr => "lto".to_owned(),
            Word::Other => self.kind.to_string(),
        };
        let place = if self.twins.count > 1 { format!(" #{}", self.twins.place) } else { String::new() };
        format!("{kind} {}{}{place}", self.arch.number, self.arch.suffix())
    }

    /// Machine code that a link is going to make. Its toolkit and compression are not known yet.
    pub fn planned_sass(arch: GpuArch) -> Self {
        // A cubin does not record `f`.
        let own = if arch.feature == ArchFeature::Family { GpuArch::plain(arch.number) } else { arch };
        let content =
            Content::Sass { arch: own, toolkit: None, virtual_arch: None, linked: true, unknown_section: None };
        Self::planned(EntryKind::Elf, arch, None, content)
    }

    /// PTX that a link is going to make, of this version.
    pub fn planned_ptx(arch: GpuArch, version: PtxVersion) -> Self {
        Self::planned(EntryKind::Ptx, arch, Some(version), Content::Ptx { version, target: Some(arch) })
    }

    fn planned(kind: EntryKind, arch: GpuArch, labelled_version: Option<PtxVersion>, content: Content) -> Self {
        Code {
            number: 1,
            kind,
            arch,
            labelled_version,
            compression: Compression::None,
            is_concatenated: false,
            stored_size: 0,
            content,
            digest: 0,
            shape: 0,
            twins: Twins { place: 1, count: 1 },
        }
    }

    /// The same as the entries of one fatbin.
    pub fn numbered(mut codes: Vec<Self>) -> Vec<Self> {
        codes.iter_mut().zip(1..).for_each(|(code, number)| code.number = number);
        recount(&mut codes);
        codes
    }

    /// The toolkit that made it, if the image records it: of PTX the first that supports its version.
    pub fn toolkit(&self) -> Option<CudaRelease> {
        match &self.content {
            Content::Sass { toolkit, .. } => *toolkit,
            Content::Ptx { version, .. } => version.cuda_release(),
            _ => None,
        }
    }

    /// The same with the places of errors counted from `base` bytes earlier on.
    pub(super) fn shifted(mut self, base: u64) -> Self {
        self.content = match self.content {
            Content::Damaged(error) => Content::Damaged(error.shifted(base)),
            Content::Undecompressable(error) => Content::Undecompressable(error.shifted(base)),
            Content::Crashing(error) => Content::Crashing(error.shifted(base)),
            Content::Faulty(fault) => Content::Faulty(fault.with_error(fault.error().clone().shifted(base))),
            content => content,
        };
        self
    }

    /// Whether it is one of the kinds that the driver loads.
    pub(super) fn is_loadable(&self) -> bool {
        matches!(self.kind, EntryKind::Elf | EntryKind::Ptx)
    }
}

/// Reads every entry of one fatbin that the driver loads without a device link.
pub fn inspect(entries: &[FatbinEntry<'_>]) -> Vec<Code> {
    inspect_as(entries, Use::Loaded, |_| ()).0
}

/// As [`inspect`]. Returns also what an audit of the program that the fatbin becomes a part of has to know.
pub fn inspect_for_audit(entries: &[FatbinEntry<'_>]) -> (Vec<Code>, ReadImages) {
    let (codes, contents) = inspect_as(entries, Use::Loaded, |image| match image {
        Image::Cubin(Ok(cubin)) => Some(audit::Content::of_cubin(cubin)),
        Image::Ptx(text) => Some(audit::Content::of_ptx(text)),
        Image::Cubin(Err(_)) | Image::Unread => None,
    });
    (codes, ReadImages::new(entries.iter().zip(contents)))
}

/// Reads every entry of one fatbin, and the symbols that each defines and references.
pub(super) fn inspect_with_symbols(entries: &[FatbinEntry<'_>], used: Use) -> (Vec<Code>, Vec<LinkSymbols>) {
    let mut names = Names::default();
    inspect_as(entries, used, |image| link_symbols(image, &mut names))
}

/// What becomes of a fatbin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Loaded,
    Linked,
}

/// The image of an entry, read once.
enum Image<'i> {
    Cubin(Result<Cubin<'i>, FormatError>),
    Ptx(&'i [u8]),
    /// Of another kind, or one that cannot be decompressed.
    Unread,
}

impl<'i> Image<'i> {
    fn read(kind: EntryKind, payload: &'i [u8]) -> Self {
        match kind {
            EntryKind::Elf => Image::Cubin(cubin::parse(payload)),
            EntryKind::Ptx => Image::Ptx(payload),
            _ => Image::Unread,
        }
    }
}

/// Reads entries; `also` reads more of the image of each, which is decompressed once.
fn inspect_as<T>(entries: &[FatbinEntry<'_>], used: Use, mut also: impl FnMut(&Image<'_>) -> T) -> (Vec<Code>, Vec<T>) {
    let read = entries.iter().enumerate().map(|(index, entry)| look(index + 1, entry, used, &mut also));
    let (mut codes, more): (Vec<Code>, Vec<T>) = read.unzip();
    recount(&mut codes);
    for (code, entry) in codes.iter_mut().zip(entries).filter(|(code, _)| code.twins.count > 1) {
        code.digest = digest(entry.payload().as_deref().unwrap_or(entry.stored));
    }
    (codes, more)
}

fn look<T>(number: usize, entry: &FatbinEntry<'_>, used: Use, also: &mut dyn FnMut(&Image<'_>) -> T) -> (Code, T) {
    let payload = match entry.kind {
        EntryKind::Elf | EntryKind::Ptx => Some(entry.payload_for_tables()),
        _ => None,
    };
    let (content, shape, more) = match &payload {
        Some(Ok(payload)) => {
            let image = Image::read(entry.kind, payload);
            let more = also(&image);
            let (content, shape) = content(entry, payload, image, used);
            (content, shape, more)
        }
        Some(Err(error)) => (Content::Undecompressable(error.clone()), 0, also(&Image::Unread)),
        None if entry.kind == EntryKind::LtoIr => (Content::LtoIr, 0, also(&Image::Unread)),
        None => (Content::Other, 0, also(&Image::Unread)),
    };
    let code = Code {
        number,
        kind: entry.kind,
        arch: entry.arch,
        labelled_version: labelled_version(entry),
        compression: entry.compression,
        is_concatenated: entry.part.is_some(),
        stored_size: entry.stored_size(),
        content,
        digest: 0,
        shape,
        twins: Twins { place: 1, count: 1 },
    };
    (code, more)
}

fn labelled_version(entry: &FatbinEntry<'_>) -> Option<PtxVersion> {
    let (major, minor) = entry.code_version;
    let version = PtxVersion { major: major.try_into().ok()?, minor: minor.try_into().ok()? };
    (entry.kind == EntryKind::Ptx).then_some(version)
}

/// The zeros behind an uncompressed image are the container's, not the image's.
fn digest(image: &[u8]) -> u64 {
    let end = image.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let mut hasher = DefaultHasher::new();
    image.get(..end).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

/// The content of a cubin or PTX, and of a cubin its shape.
fn content(entry: &FatbinEntry<'_>, payload: &[u8], image: Image<'_>, used: Use) -> (Content, u64) {
    // Offsets inside a compressed image mean nothing in the file.
    let in_file = |error: FormatError| {
        let inside = if entry.compression == Compression::None { error.offset } else { 0 };
        FormatError::new(entry.payload_offset.saturating_add(inside), error.kind)
    };
    match image {
        Image::Cubin(Ok(cubin)) => (sass(&cubin, used, in_file), cubin.shape()),
        Image::Cubin(Err(error)) if cubin::crashes_driver(payload) => (Content::Crashing(in_file(error)), 0),
        Image::Cubin(Err(error)) => (Content::Damaged(in_file(error)), 0),
        Image::Ptx(text) => match header::read(text) {
            Some(header) => (Content::Ptx { version: header.version, target: header.target }, 0),
            None => {
                let what = "PTX that does not start with `.version`";
                (Content::Damaged(FormatError::wrong_format(entry.payload_offset, what)), 0)
            }
        },
        Image::Unread => (Content::Other, 0),
    }
}

fn sass(cubin: &Cubin<'_>, used: Use, in_file: impl Fn(FormatError) -> FormatError) -> Content {
    let fault = match used {
        Use::Loaded => cubin.fault().or_else(|| cubin.unlinked()),
        Use::Linked => cubin.fault(),
    };
    if let Some(fault) = fault {
        return Content::Faulty(fault.with_error(in_file(fault.error().clone())));
    }
    Content::Sass {
        arch: cubin.arch(),
        toolkit: cubin.toolkit().or_else(|| unrecorded_toolkit(cubin)),
        virtual_arch: cubin.virtual_arch(),
        linked: cubin.is_device_linked(),
        unknown_section: cubin.unknown_section().map(str::to_owned),
    }
}

/// The symbols that an image defines and references; none if it cannot be read.
fn link_symbols(image: &Image<'_>, names: &mut Names) -> LinkSymbols {
    let of_ptx;
    let symbols = match image {
        Image::Cubin(Ok(cubin)) => cubin.symbols(),
        Image::Ptx(text) => {
            of_ptx = ptx::symbols_and_local_kernels(text);
            &of_ptx
        }
        _ => return LinkSymbols::default(),
    };
    let mut named = |wanted: fn(&CubinSymbol) -> bool| {
        symbols.iter().filter(|symbol| wanted(symbol)).map(|symbol| names.one(&symbol.name)).collect()
    };
    LinkSymbols {
        defined: named(|symbol| symbol.defined && symbol.binding != SymbolBinding::Local),
        wanted: named(CubinSymbol::is_wanted),
        kernels: named(|symbol| symbol.defined && symbol.kind == SymbolKind::Kernel),
    }
}

/// CUDA 12.8 and 12.9 do not record themselves in cubins of the new layout, CUDA 13 does.
fn unrecorded_toolkit(cubin: &cubin::Cubin<'_>) -> Option<CudaRelease> {
    (cubin.abi_version() >= 8).then_some(CudaRelease::new(12, 8))
}

pub(super) fn recount(codes: &mut [Code]) {
    let mut counts = HashMap::new();
    for code in codes.iter_mut() {
        let count = counts.entry((code.kind, code.arch)).or_insert(0);
        *count += 1;
        code.twins.place = *count;
    }
    for code in codes {
        code.twins.count = counts.get(&(code.kind, code.arch)).copied().unwrap_or(1);
    }
}
