//! Reads what a host file carries for the device: its device images, its offload entries, its symbols.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::{self, Finder};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, FileKind as ObjectKind};

use crate::FormatError;
use crate::elf_sections;
use crate::offload_binary::{self, OffloadImage};

mod carriers;
mod device_links;
mod device_parts;
mod entries;
mod former_entries;
mod kernel_stubs;
mod libraries;
mod loaded_pointers;
mod rdc_objects;
mod rdc_writer;
mod scan;
mod section_graph;
mod symbols;

pub(crate) use crate::elf_sections::{Section, sections};
pub use crate::file_kind::{FileKind, file_kind};
pub use carriers::{Carrier, CarrierKind, carriers};
pub use device_links::{DEVICE_RUNTIME, linked_ids, module_name};
pub(crate) use device_links::{FoundWrapper, ModuleId, WrapperKind, all_wrappers, module_ids, wrappers};
pub use device_parts::device_parts;
pub use entries::{
    ENTRY_SECTIONS, EntryForm, HostEntry, IncompleteEntry, LinkedEntry, former_kind, offload_entries, registered_kinds,
};
pub(crate) use entries::{offload_entry_count, registered_entries};
pub use former_entries::{FormerEntries, former_compiler, former_entries, former_section};
pub(crate) use kernel_stubs::kernels_of_function;
pub use kernel_stubs::{StubAlias, kernel_of_stub, stub_aliases};
pub use libraries::{LibraryNeeds, library_needs};
pub use rdc_objects::{
    CLANG_ID_PREFIX, PRELINKED_MARK, REGISTER_PREFIX, RdcObject, RdcRegistration, WRAPPER_PREFIX, rdc_objects,
    registered_id,
};
pub use rdc_writer::{REFERENCE_SECTIONS, ReferenceLists, write_rdc_object};
pub use scan::{Search, scattered_fatbins};
pub use section_graph::{
    Definition, KernelHandle, Reference, SECTIONS_OF_COMPILERS, SectionGraph, SectionNode, section_graph,
};
pub use symbols::{HostSymbol, host_symbols, local_functions};

/// `SHT_LLVM_OFFLOADING` of LLVM's `BinaryFormat/ELF.h`: the section holds offload binaries.
const SHT_LLVM_OFFLOADING: u32 = 0x6fff_4c0b;

/// Where LLVM's linker wrapper puts the OpenMP images of a relocatable link.
const FINISHED_SECTION: &[u8] = b".llvm.offloading.relocatable";

/// A device image found in a host file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceImage<'a> {
    /// The image and what describes it.
    pub image: OffloadImage<'a>,
    /// Where its payload starts, in bytes from the start of the file given.
    pub offset: u64,
    /// Whether it is linked and registered already: a relocatable link (`ld -r`) leaves such images in a section of their own.
    pub finished: bool,
}

/// Reads the device images of an ELF file: of every section of type `SHT_LLVM_OFFLOADING` or with a name that starts with `.llvm.offloading`.
///
/// Reads nothing but the section headers and those sections.
///
/// # Errors
/// A damaged ELF header, section table or offload binary; the offset is one in the file, the message names the section.
pub fn device_images(elf: &[u8]) -> Result<Vec<DeviceImage<'_>>, FormatError> {
    if lacks(elf, &OFFLOAD) && !elf_sections::has_kind(elf, SHT_LLVM_OFFLOADING) {
        return Ok(Vec::new());
    }
    device_images_in(elf, &sections(elf)?)
}

/// Finds what the names of all sections with offload binaries or entries have in common.
static OFFLOAD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("offload"));

/// The same of a file whose section headers are read already.
pub(crate) fn device_images_in<'a>(
    elf: &'a [u8],
    sections: &[Section<'_>],
) -> Result<Vec<DeviceImage<'a>>, FormatError> {
    let mut images = Vec::new();
    for section in sections {
        if !holds_device_code(section) {
            continue;
        }
        let place = format!("section {}", String::from_utf8_lossy(section.name));
        let data = section.device_code(elf).map_err(|e| e.within(&place))?;
        let found = offload_binary::read_all(data).map_err(|e| e.shifted(section.offset).within(&place))?;
        let finished = section.name == FINISHED_SECTION;
        images.extend(found.into_iter().map(|image| DeviceImage {
            offset: section.offset.saturating_add(image.image_offset),
            image,
            finished,
        }));
    }
    Ok(images)
}

/// The offload binaries of a host object that are not linked yet, decompressed, one after the other as [`offload_binary::read_all`] needs
/// them. `None` if none of them is compressed: [`device_images`] reads those where they are.
///
/// # Errors
/// As [`device_images`], or a damaged compressed blob.
pub fn inflated_binaries(elf: &[u8]) -> Result<Option<Vec<u8>>, FormatError> {
    let mut all = Vec::new();
    let mut is_compressed = false;
    for section in sections(elf)?.iter().filter(|section| holds_device_code(section)) {
        if section.name == FINISHED_SECTION {
            continue;
        }
        let place = format!("section {}", String::from_utf8_lossy(section.name));
        let data = section.device_code(elf).map_err(|e| e.within(&place))?;
        let inflated = offload_binary::inflate(data).map_err(|e| e.shifted(section.offset).within(&place))?;
        is_compressed |= matches!(inflated, Cow::Owned(_));
        all.extend_from_slice(&inflated);
    }
    Ok(is_compressed.then_some(all))
}

/// Whether a section holds offload binaries.
pub(crate) fn holds_device_code(section: &Section<'_>) -> bool {
    section.kind == SHT_LLVM_OFFLOADING || section.name.starts_with(b".llvm.offloading")
}

/// The first section of that name, with its offset in the file. `None` also for a file that is not a sound ELF file.
pub fn section<'a>(elf: &'a [u8], name: &[u8]) -> Option<(u64, &'a [u8])> {
    // Most files do not even have the text among the names of their sections, which is found out in a fraction of the time.
    if section_names(elf).is_some_and(|names| memmem::find(names, name).is_none()) {
        return None;
    }
    let found = sections(elf).ok()?.into_iter().find(|section| section.name == name)?;
    Some((found.offset, found.data(elf).ok()?))
}

/// All sections of that name, with their offsets in the file.
///
/// # Errors
/// Damaged section headers, or a section whose bytes are outside of the file.
pub fn sections_named<'a>(elf: &'a [u8], name: &str) -> Result<Vec<(u64, &'a [u8])>, FormatError> {
    let named = sections(elf)?.into_iter().filter(|section| section.name == name.as_bytes());
    let content = |section: Section<'_>| {
        Ok((section.offset, section.data(elf).map_err(|e| e.within(&format!("section {name}")))?))
    };
    named.map(content).collect()
}

/// Whether an ELF file has a section whose name begins like this. False also for a file that is not a sound ELF file.
pub fn has_section(elf: &[u8], prefix: &Finder<'_>) -> bool {
    let has_name = |section: &Section<'_>| section.name.starts_with(prefix.needle());
    !lacks(elf, prefix) && sections(elf).is_ok_and(|all| all.iter().any(has_name))
}

/// Whether a text is nowhere among the names of the sections. False for a file whose names cannot be found: its readers say why.
fn lacks(elf: &[u8], text: &Finder<'_>) -> bool {
    section_names(elf).is_some_and(|names| text.find(names).is_none())
}

/// The names of all sections, one after the other.
fn section_names(elf: &[u8]) -> Option<&[u8]> {
    match ObjectKind::parse(elf) {
        Ok(ObjectKind::Elf32) => names_of::<object::elf::FileHeader32<Endianness>>(elf),
        Ok(ObjectKind::Elf64) => names_of::<object::elf::FileHeader64<Endianness>>(elf),
        _ => None,
    }
}

fn names_of<H: FileHeader<Endian = Endianness>>(elf: &[u8]) -> Option<&[u8]> {
    let header = H::parse(elf).ok()?;
    let endian = header.endian().ok()?;
    let index = header.section_strings_index(endian, elf).ok()?;
    let headers = header.section_headers(endian, elf).ok()?;
    headers.get(index.0)?.data(endian, elf).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn sections_by_the_beginning_of_their_names() {
        let object = samples::rdc_object(&["_1_a"], &[b"fatbin"]);
        let has = |elf: &[u8], prefix: &str| has_section(elf, &Finder::new(prefix));
        assert!(has(&object, "__nv_rel") && has(&object, ".nvHRKE") && !has(&object, "nvHRKE"));
        assert!(!has(b"text", "t") && !has(&object[..100], ".nv"));
    }

    #[test]
    fn images_and_entries_of_an_object() {
        let object = samples::host_object(&samples::offload_binaries());
        let images = device_images(&object).expect("a sound object");
        let archs: Vec<_> = images.iter().map(|found| found.image.arch()).collect();
        assert_eq!(archs, ["sm_80", "sm_90"]);
        for found in &images {
            let at = usize::try_from(found.offset).expect("small");
            assert_eq!(&object[at..at + found.image.image.len()], found.image.image);
        }
        let entries = offload_entries(&object).expect("sound entries");
        let seen: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.size)).collect();
        assert_eq!(seen, [("first", 0), ("counter", 4)]);
        assert_eq!(registered_kinds(&object), crate::offload_binary::OffloadKinds::CUDA);
        assert_eq!(device_images(&samples::host_object(&[])).expect("no images").len(), 0);
    }
}
