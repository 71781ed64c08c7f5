//! The images that a program registers, found as the runtimes find them: through the wrappers that its start-up code hands over.

use std::collections::HashSet;

use object::read::{Object, ObjectSymbol};

use super::LostContainer;
use crate::FormatError;
use crate::cubin::{self, SymbolBinding, SymbolKind};
use crate::fatbin::{self, EntryKind, FatbinEntry};
use crate::hip_bundle;
use crate::host_object::{self, WrapperKind};
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
    /// The kernels and variables that it defines; `None` if that cannot be read.
    pub(super) symbols: Option<HashSet<String>>,
}

impl RegisteredImage {
    /// Whether it defines this kernel or variable.
    pub(super) fn has(&self, name: &str) -> bool {
        self.symbols.as_ref().is_some_and(|symbols| symbols.contains(name))
    }
}

/// The images of a linked ELF file, and the wrappers that lead to none.
pub(super) fn registered_images(elf: &[u8]) -> (Vec<RegisteredImage>, Vec<LostContainer>) {
    let (mut images, mut lost) = (Vec::new(), Vec::new());
    let parts = host_object::section(elf, PARTS).map_or(0..0, |(at, bytes)| at..at + bytes.len() as u64);
    for (container, wrapper) in host_object::all_wrappers(elf).into_iter().enumerate() {
        if wrapper.container.is_some_and(|at| parts.contains(&at)) {
            continue;
        }
        let data = wrapper.container.and_then(|at| elf.get(usize::try_from(at).ok()?..));
        let read = match (data, wrapper.kind) {
            (None, _) => Err("its pointer leads nowhere in the file".to_owned()),
            (Some(data), WrapperKind::Cuda) => of_fatbin(data, container).map_err(|error| error.to_string()),
            (Some(data), WrapperKind::Hip) => of_bundle(data, container).map_err(|error| error.to_string()),
        };
        match read {
            Ok(found) => images.extend(found),
            Err(reason) => {
                lost.push(LostContainer { section: wrapper.kind.section(), offset: wrapper.offset, reason });
            }
        }
    }
    images.extend(of_openmp(elf, images.len()));
    (images, lost)
}

/// The images of the fatbin at the start of `data`.
fn of_fatbin(data: &[u8], container: usize) -> Result<Vec<RegisteredImage>, FormatError> {
    let entries = fatbin::entries_at(data, 0)?;
    let image = |entry: &FatbinEntry<'_>| RegisteredImage {
        kinds: OffloadKinds::CUDA,
        container,
        target: match entry.kind {
            EntryKind::Elf => entry.arch.to_string(),
            _ => format!("{} {}", entry.kind, entry.arch.number),
        },
        symbols: of_entry(entry),
    };
    Ok(entries.iter().map(image).collect())
}

fn of_entry(entry: &FatbinEntry<'_>) -> Option<HashSet<String>> {
    if !matches!(entry.kind, EntryKind::Elf | EntryKind::Ptx) {
        return None;
    }
    let payload = entry.payload_for_tables().ok()?;
    if entry.kind == EntryKind::Elf {
        of_cubin(&payload)
    } else {
        Some(of_symbols(&ptx::symbols_and_local_kernels(&payload)))
    }
}

fn of_cubin(image: &[u8]) -> Option<HashSet<String>> {
    cubin::parse(image).ok().map(|cubin| of_symbols(cubin.symbols()))
}

/// The names that the runtime finds: kernels of any binding, and variables that are visible.
fn of_symbols(symbols: &[cubin::CubinSymbol]) -> HashSet<String> {
    let found = symbols.iter().filter(|symbol| {
        let is_visible = symbol.binding != SymbolBinding::Local;
        symbol.defined && (symbol.kind == SymbolKind::Kernel || is_visible)
    });
    found.map(|symbol| symbol.name.clone()).collect()
}

/// The images of the bundle at the start of `data`.
fn of_bundle(data: &[u8], container: usize) -> Result<Vec<RegisteredImage>, FormatError> {
    let bundle = hip_bundle::bundle_at(data, 0)?;
    let plain = bundle.plain()?;
    let entries = hip_bundle::read_all(&plain)?;
    let with_image = entries.iter().filter(|entry| !entry.image.is_empty());
    let image = |entry: &hip_bundle::BundleEntry<'_>| RegisteredImage {
        kinds: OffloadKinds::HIP,
        container,
        target: hip_bundle::BundleId::parse(entry.id).map_or(entry.id, |id| id.target).to_owned(),
        symbols: of_elf(entry.image),
    };
    Ok(with_image.map(image).collect())
}

/// OpenMP's images, which its runtime takes by addresses that code fills in. What is there instead of offload binaries is one unknown image.
fn of_openmp(elf: &[u8], container: usize) -> Vec<RegisteredImage> {
    let kinds = OffloadKinds::OPENMP;
    let Ok(images) = host_object::device_images(elf) else {
        return vec![RegisteredImage { kinds, container, target: String::new(), symbols: None }];
    };
    let of_kind = images.iter().filter(|found| found.image.offload_kinds.contains(kinds));
    let image = |found: &host_object::DeviceImage<'_>| {
        let bytes = found.image.image;
        let symbols = if cubin::is_cubin(bytes) { of_cubin(bytes) } else { of_elf(bytes) };
        RegisteredImage { kinds, container, target: found.image.arch().to_owned(), symbols }
    };
    of_kind.map(image).collect()
}

/// The visible symbols of a code object or shared library; `None` for any other image.
fn of_elf(image: &[u8]) -> Option<HashSet<String>> {
    let file = object::File::parse(image).ok()?;
    let defined = file.dynamic_symbols().filter(ObjectSymbol::is_definition);
    defined.map(|symbol| symbol.name().ok().map(str::to_owned)).collect()
}
