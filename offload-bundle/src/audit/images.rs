//! The images that a program registers, found as the runtimes find them: through the wrappers that its start-up code hands over.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use object::read::{Object, ObjectSymbol};

use super::LostContainer;
use crate::FormatError;
use crate::cubin::{self, Cubin, SymbolBinding, SymbolKind, UncoveredCall};
use crate::fatbin::{self, EntryKind, FatbinEntry};
use crate::hip_bundle::{self, StoredBundle};
use crate::host_object::{self, FoundWrapper, Section, WrapperKind};
use crate::offload_binary::OffloadKinds;
use crate::ptx;

/// Where the parts of nvcc's device links are, which the runtime loads only for a GPU that the linked fatbin has no code for.
const PARTS: &[u8] = b"__nv_relfatbin";

/// An image of a program.
pub(super) struct RegisteredImage {
    /// The programming models.
    pub(super) kinds: OffloadKinds,
    /// The number of its container. The runtime loads one image of each.
    pub(super) container: usize,
    /// What it is for.
    pub(super) target: String,
    /// What it holds; `None` if that cannot be read.
    pub(super) content: Option<Arc<Content>>,
}

/// What the audit has to know of an image.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    /// The kernels and variables that it defines.
    symbols: HashSet<String>,
    /// The functions that need more than the kernels have from which they are called, as far as that is recorded.
    pub(super) uncovered: Vec<UncoveredCall>,
}

impl Content {
    pub(crate) fn of_cubin(cubin: &Cubin<'_>) -> Self {
        // Without a device link of its own, calls of other units have no numbers yet.
        let uncovered = if cubin.is_relocatable() { Vec::new() } else { cubin.uncovered_calls() };
        Content { symbols: of_symbols(cubin.symbols()), uncovered }
    }

    pub(crate) fn of_ptx(text: &[u8]) -> Self {
        of_symbols(&ptx::symbols_and_local_kernels(text)).into()
    }
}

/// What is known of images that were read before, by their bytes. An audit does not decompress such an image again.
#[derive(Debug, Clone, Default)]
pub struct ReadImages(HashMap<[u8; 32], Arc<Content>>);

impl ReadImages {
    /// Collects the entries that could be read.
    pub(crate) fn new<'e>(read: impl Iterator<Item = (&'e FatbinEntry<'e>, Option<Content>)>) -> Self {
        ReadImages(read.filter_map(|(entry, content)| Some((digest(entry)?, Arc::new(content?)))).collect())
    }

    /// Adds those of another container.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    fn of(&self, entry: &FatbinEntry<'_>) -> Option<Arc<Content>> {
        if self.0.is_empty() { None } else { self.0.get(&digest(entry)?).cloned() }
    }
}

/// Equal for entries that are the same byte by byte; none for those that share a payload.
fn digest(entry: &FatbinEntry<'_>) -> Option<[u8; 32]> {
    let digest = || *blake3::Hasher::new().update(entry.header).update(entry.stored).finalize().as_bytes();
    entry.part.is_none().then(digest)
}

impl From<HashSet<String>> for Content {
    fn from(symbols: HashSet<String>) -> Self {
        Content { symbols, uncovered: Vec::new() }
    }
}

impl RegisteredImage {
    /// Whether it defines this kernel or variable.
    pub(super) fn has(&self, name: &str) -> bool {
        self.content.as_ref().is_some_and(|content| content.symbols.contains(name))
    }
}

/// A container that the start-up code hands over, not read yet.
enum Registered<'a> {
    Fatbin(Vec<FatbinEntry<'a>>),
    Bundle(StoredBundle<'a>),
}

/// The images of a linked ELF file, and the wrappers that lead to none.
pub(super) fn registered_images(
    elf: &[u8],
    sections: &[Section<'_>],
    read: &ReadImages,
) -> (Vec<RegisteredImage>, Vec<LostContainer>) {
    let (mut images, mut lost) = (Vec::new(), Vec::new());
    for (container, (wrapper, registered)) in registered(elf, sections).into_iter().enumerate() {
        let found = registered.and_then(|registered| match registered {
            Registered::Fatbin(entries) => Ok(of_fatbin(&entries, container, read)),
            Registered::Bundle(bundle) => of_bundle(&bundle, container).map_err(|error| error.to_string()),
        });
        match found {
            Ok(found) => images.extend(found),
            Err(reason) => lost.push(LostContainer::new(&wrapper, reason)),
        }
    }
    images.extend(of_openmp(elf, sections, images.len()));
    (images, lost)
}

/// The wrappers of a linked ELF file that lead to no container. The images in the containers are not read.
pub fn lost_containers(elf: &[u8]) -> Vec<LostContainer> {
    let sections = host_object::sections(elf).unwrap_or_default();
    let all = registered(elf, &sections).into_iter();
    all.filter_map(|(wrapper, found)| Some(LostContainer::new(&wrapper, found.err()?))).collect()
}

/// The wrappers of a linked ELF file with what they lead to, or why that cannot be read; without those of the parts of nvcc's device links.
fn registered<'a>(elf: &'a [u8], sections: &[Section<'_>]) -> Vec<(FoundWrapper, Result<Registered<'a>, String>)> {
    let parts = sections.iter().find(|section| section.name == PARTS);
    let parts = parts.map_or(0..0, |parts| parts.offset..parts.offset.saturating_add(parts.in_file()));
    let wrappers = host_object::all_wrappers(elf, sections).into_iter();
    let wrappers = wrappers.filter(|wrapper| !wrapper.container.is_some_and(|at| parts.contains(&at)));
    let read = |wrapper: &FoundWrapper| -> Result<_, String> {
        let data = wrapper.container.and_then(|at| elf.get(usize::try_from(at).ok()?..));
        let data = data.ok_or_else(|| "its pointer leads nowhere in the file".to_owned())?;
        let found = match wrapper.kind {
            WrapperKind::Cuda => fatbin::entries_at(data, 0).map(Registered::Fatbin),
            WrapperKind::Hip => hip_bundle::bundle_at(data, 0).map(Registered::Bundle),
        };
        found.map_err(|error| error.to_string())
    };
    wrappers.map(|wrapper| (wrapper, read(&wrapper))).collect()
}

fn of_fatbin(entries: &[FatbinEntry<'_>], container: usize, read: &ReadImages) -> Vec<RegisteredImage> {
    let image = |entry: &FatbinEntry<'_>| RegisteredImage {
        kinds: OffloadKinds::CUDA,
        container,
        target: match entry.kind {
            EntryKind::Elf => entry.arch.to_string(),
            _ => format!("{} {}", entry.kind, entry.arch.number),
        },
        content: read.of(entry).or_else(|| of_entry(entry).map(Arc::new)),
    };
    entries.iter().map(image).collect()
}

fn of_entry(entry: &FatbinEntry<'_>) -> Option<Content> {
    if !matches!(entry.kind, EntryKind::Elf | EntryKind::Ptx) {
        return None;
    }
    let payload = entry.payload_for_tables().ok()?;
    if entry.kind == EntryKind::Elf { of_cubin(&payload) } else { Some(Content::of_ptx(&payload)) }
}

fn of_cubin(image: &[u8]) -> Option<Content> {
    cubin::parse(image).ok().map(|cubin| Content::of_cubin(&cubin))
}

/// The names that the runtime finds: kernels of any binding, and variables that are visible.
fn of_symbols(symbols: &[cubin::CubinSymbol]) -> HashSet<String> {
    let found = symbols.iter().filter(|symbol| {
        let is_visible = symbol.binding != SymbolBinding::Local;
        symbol.defined && (symbol.kind == SymbolKind::Kernel || is_visible)
    });
    found.map(|symbol| symbol.name.clone()).collect()
}

fn of_bundle(bundle: &StoredBundle<'_>, container: usize) -> Result<Vec<RegisteredImage>, FormatError> {
    let plain = bundle.plain()?;
    let entries = hip_bundle::read_all(&plain)?;
    let with_image = entries.iter().filter(|entry| !entry.image.is_empty());
    let image = |entry: &hip_bundle::BundleEntry<'_>| RegisteredImage {
        kinds: OffloadKinds::HIP,
        container,
        target: hip_bundle::BundleId::parse(entry.id).map_or(entry.id, |id| id.target).to_owned(),
        content: of_elf(entry.image).map(Arc::new),
    };
    Ok(with_image.map(image).collect())
}

/// OpenMP's images, which its runtime takes by addresses that code fills in. What is there instead of offload binaries is one unknown image.
fn of_openmp(elf: &[u8], sections: &[Section<'_>], container: usize) -> Vec<RegisteredImage> {
    let kinds = OffloadKinds::OPENMP;
    let Ok(images) = host_object::device_images_in(elf, sections) else {
        return vec![RegisteredImage { kinds, container, target: String::new(), content: None }];
    };
    let of_kind = images.iter().filter(|found| found.image.offload_kinds.contains(kinds));
    let image = |found: &host_object::DeviceImage<'_>| {
        let bytes = found.image.image;
        let content = if cubin::is_cubin(bytes) { of_cubin(bytes) } else { of_elf(bytes) };
        // Images for the host's processor have a triple alone.
        let target = [found.image.arch(), found.image.triple()].into_iter().find(|name| !name.is_empty());
        let content = content.map(Arc::new);
        RegisteredImage { kinds, container, target: target.unwrap_or_default().to_owned(), content }
    };
    of_kind.map(image).collect()
}

/// The visible symbols of a code object or shared library; `None` for any other image.
fn of_elf(image: &[u8]) -> Option<Content> {
    let file = object::File::parse(image).ok()?;
    let defined = file.dynamic_symbols().filter(ObjectSymbol::is_definition);
    let symbols: Option<HashSet<String>> = defined.map(|symbol| symbol.name().ok().map(str::to_owned)).collect();
    symbols.map(Content::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::GpuArch;
    use crate::fatbin::{BuilderOptions, FatbinWriter};

    fn fatbin(ptx: &str) -> Vec<u8> {
        let mut writer = FatbinWriter::new(BuilderOptions::default());
        writer.add_ptx(GpuArch::plain(90), ptx.as_bytes(), "", "").unwrap();
        writer.finish()
    }

    #[test]
    fn an_image_is_known_by_all_its_bytes() {
        let [first, second] =
            ["k", "l"].map(|name| fatbin(&format!(".version 8.0\n.target sm_90\n.entry {name}() {{}}\n")));
        let [first, second] = [&first, &second].map(|fatbin| fatbin::entries_at(fatbin, 0).unwrap());
        let content = Content::from(HashSet::from(["read before".to_owned()]));
        let read = ReadImages::new(first.iter().map(|entry| (entry, Some(content.clone()))));
        let names = |entries: &[FatbinEntry<'_>]| {
            let images = of_fatbin(entries, 0, &read);
            images.into_iter().map(|image| ["read before", "k", "l"].map(|name| image.has(name))).collect::<Vec<_>>()
        };
        assert_eq!(names(&first), [[true, false, false]]);
        assert_eq!(names(&second), [[false, false, true]]);
    }
}
