//! Reads each entry of a fatbin: what its image is, whatever its label says.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;

use crate::FormatError;
use crate::arch::{CudaRelease, GpuArch, PtxVersion};
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
    /// Bytes that its image takes in the fatbin.
    pub stored_size: u64,
    /// What the image itself records.
    pub content: Content,
    /// Equal for equal images; 0 for an entry without a twin, as an image may be large.
    pub digest: u64,
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
    pub defined: Vec<String>,
    /// The symbols that another part has to define.
    pub wanted: Vec<String>,
    /// The kernels that it defines.
    pub kernels: Vec<String>,
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
    inspect_as(entries, Use::Loaded)
}

/// Reads every entry of one fatbin whose images are parts of a device link.
pub(super) fn inspect_parts(entries: &[FatbinEntry<'_>]) -> Vec<Code> {
    inspect_as(entries, Use::Linked)
}

/// What becomes of a fatbin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Loaded,
    Linked,
}

fn inspect_as(entries: &[FatbinEntry<'_>], used: Use) -> Vec<Code> {
    let mut codes: Vec<Code> = entries.iter().enumerate().map(|(index, entry)| look(index + 1, entry, used)).collect();
    recount(&mut codes);
    for (code, entry) in codes.iter_mut().zip(entries).filter(|(code, _)| code.twins.count > 1) {
        code.digest = digest(entry.payload().as_deref().unwrap_or(entry.stored));
    }
    codes
}

fn look(number: usize, entry: &FatbinEntry<'_>, used: Use) -> Code {
    let payload = match entry.kind {
        EntryKind::Elf | EntryKind::Ptx => Some(entry.payload()),
        _ => None,
    };
    let content = match &payload {
        Some(Ok(payload)) => content(entry, payload, used),
        Some(Err(error)) => Content::Undecompressable(error.clone()),
        None if entry.kind == EntryKind::LtoIr => Content::LtoIr,
        None => Content::Other,
    };
    Code {
        number,
        kind: entry.kind,
        arch: entry.arch,
        labelled_version: labelled_version(entry),
        compression: entry.compression,
        stored_size: entry.stored.len() as u64,
        content,
        digest: 0,
        twins: Twins { place: 1, count: 1 },
    }
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

fn content(entry: &FatbinEntry<'_>, payload: &[u8], used: Use) -> Content {
    // Offsets inside a compressed image mean nothing in the file.
    let in_file = |error: FormatError| {
        let inside = if entry.compression == Compression::None { error.offset } else { 0 };
        FormatError::new(entry.payload_offset.saturating_add(inside), error.kind)
    };
    if entry.kind == EntryKind::Ptx {
        return match header::read(payload) {
            Some(header) => Content::Ptx { version: header.version, target: header.target },
            None => Content::Damaged(FormatError::wrong_format(
                entry.payload_offset,
                "PTX that does not start with `.version`",
            )),
        };
    }
    match cubin::parse(payload) {
        Ok(cubin) => sass(&cubin, used, in_file),
        Err(error) if cubin::crashes_driver(payload) => Content::Crashing(in_file(error)),
        Err(error) => Content::Damaged(in_file(error)),
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

/// The symbols that an entry defines and references; none if it cannot be read.
pub(super) fn link_symbols(entry: &FatbinEntry<'_>) -> LinkSymbols {
    let Ok(payload) = entry.payload() else { return LinkSymbols::default() };
    let symbols = match entry.kind {
        EntryKind::Ptx => ptx::symbols(&payload),
        EntryKind::Elf => cubin::parse(&payload).map(|cubin| cubin.symbols().to_vec()).unwrap_or_default(),
        _ => Vec::new(),
    };
    let named = |wanted: fn(&CubinSymbol) -> bool| {
        symbols.iter().filter(|symbol| wanted(symbol)).map(|symbol| symbol.name.clone()).collect()
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
