//! Which objects each device link of nvcc was made of, as a linked program or library records it.
//!
//! nvcc gives every object of `-rdc=true` an id in the section `__nv_module_id`. A device link adds an object of its own, with
//! `def ` and the id of each of its objects in that section, the linked fatbin in `.nv_fatbin`, and a wrapper of version 2, whose last
//! field points to the fatbins of the objects. (`crt/link.stub` and `fatbinary_section.h` of CUDA 13.0.) That array is filled at
//! startup, so only the ids tell which fatbins it will hold.

use object::read::{Object, ObjectSymbol, Relocation, RelocationTarget};
use object::{File, ObjectKind, SectionIndex};

use super::loaded_pointers::{loaded_pointers, relocated};
use super::{section, sections};
use crate::bytes::{u32_at, u64_at};
use crate::elf_sections::Section;

pub(super) const MODULE_IDS: &[u8] = b"__nv_module_id";
pub(super) const WRAPPERS: &str = ".nvFatBinSegment";
pub(super) const WRAPPER_SIZE: u64 = 24;
/// `__fatBinC_Wrapper_t::magic`.
pub(super) const WRAPPER_MAGIC: u32 = 0x4662_43b1;
/// `__fatBinC_Wrapper_t::version` of a device link.
const LINKED: u32 = 2;

/// What stands in a program's section `__nv_module_id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModuleId<'a> {
    /// The id of an object of relocatable device code.
    Object(&'a str),
    /// The id of an object that a device link registers.
    Registered(&'a str),
    /// An object that was compiled whole.
    Whole,
}

/// A fatbin that a program or library registers at startup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wrapper {
    /// Whether a device link made it.
    pub(crate) linked: bool,
    /// Where its fatbin starts in the file.
    pub(crate) fatbin: u64,
}

/// The ids of an ELF file, in the order of its objects; none where it has no such section.
pub(crate) fn module_ids(elf: &[u8]) -> Vec<ModuleId<'_>> {
    let Some((_, data)) = section(elf, MODULE_IDS) else { return Vec::new() };
    let words = data.split(|byte| *byte == 0).filter_map(|word| std::str::from_utf8(word).ok());
    words.filter(|word| !word.is_empty()).map(module_id).collect()
}

/// The ids of the objects that the device links in an ELF file register.
pub fn linked_ids(elf: &[u8]) -> impl Iterator<Item = &str> {
    module_ids(elf).into_iter().filter_map(|id| match id {
        ModuleId::Registered(id) => Some(id),
        _ => None,
    })
}

fn module_id(word: &str) -> ModuleId<'_> {
    match word.strip_prefix("def ") {
        Some(id) => ModuleId::Registered(id),
        None if word == "__NV_MODULE_ID" => ModuleId::Whole,
        None => ModuleId::Object(word),
    }
}

/// The [`module_name`] of NVIDIA's device runtime, the unit in `libcudadevrt.a`.
pub const DEVICE_RUNTIME: &str = "cuda_device_runtime_cu";

/// The name of the source file in an id: `a_cu` of `_c775ddbe_4_a_cu_45f7178e`, where 4 is its length.
pub fn module_name(id: &str) -> &str {
    let name = || {
        let (_, rest) = id.strip_prefix('_')?.split_once('_')?;
        let (length, rest) = rest.split_once('_')?;
        rest.get(..length.parse().ok()?)
    };
    name().unwrap_or(id)
}

/// The wrappers that a 64-bit little-endian executable or shared library hands to CUDA's runtime, in the order of its objects; none of other
/// files.
pub(crate) fn wrappers(elf: &[u8]) -> Vec<Wrapper> {
    let sections = sections(elf).unwrap_or_default();
    let of_cuda = all_wrappers(elf, &sections).into_iter().filter(|wrapper| wrapper.kind == WrapperKind::Cuda);
    of_cuda.filter_map(|wrapper| Some(Wrapper { linked: wrapper.linked, fatbin: wrapper.container? })).collect()
}

/// The runtime that a wrapper is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrapperKind {
    /// `__fatBinC_Wrapper_t`.
    Cuda,
    /// `__CudaFatBinaryWrapper` of HIP's `hip_fatbin.h`, which has the same fields.
    Hip,
}

impl WrapperKind {
    const ALL: [Self; 2] = [WrapperKind::Cuda, WrapperKind::Hip];

    /// The section of such wrappers.
    pub(crate) fn section(self) -> &'static str {
        match self {
            WrapperKind::Cuda => WRAPPERS,
            WrapperKind::Hip => ".hipFatBinSegment",
        }
    }

    fn magic(self) -> u32 {
        match self {
            WrapperKind::Cuda => WRAPPER_MAGIC,
            WrapperKind::Hip => 0x4849_5046,
        }
    }
}

/// A container that a program or library registers at startup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundWrapper {
    /// The runtime that gets it.
    pub(crate) kind: WrapperKind,
    /// Where it is in the file.
    pub(crate) offset: u64,
    /// Whether a device link of nvcc made it.
    pub(crate) linked: bool,
    /// Where its container starts in the file; `None` if its pointer leads to no byte of it.
    pub(crate) container: Option<u64>,
}

/// The wrappers of a 64-bit little-endian executable or shared library, in the order of its objects; none of other files.
pub(crate) fn all_wrappers(elf: &[u8], sections: &[Section<'_>]) -> Vec<FoundWrapper> {
    let Ok(file) = File::parse(elf) else { return Vec::new() };
    let is_linked = matches!(file.kind(), ObjectKind::Executable | ObjectKind::Dynamic);
    if !is_linked || !file.is_64() || !file.is_little_endian() {
        return Vec::new();
    }
    WrapperKind::ALL.into_iter().flat_map(|kind| wrappers_of(elf, sections, kind)).collect()
}

fn wrappers_of(elf: &[u8], sections: &[Section<'_>], kind: WrapperKind) -> Vec<FoundWrapper> {
    let section = sections.iter().find(|section| section.name == kind.section().as_bytes());
    let Some((section, data)) = section.and_then(|section| Some((section, section.data(elf).ok()?))) else {
        return Vec::new();
    };
    let pointers = relocated(&loaded_pointers(elf, sections, section));
    let wrapper = |at: u64| {
        let is_wrapper = u32_at(data, at, "magic").ok()? == kind.magic();
        let stored = u64_at(data, at + 8, "container").ok()?;
        let address = pointers.get(&(at + 8)).copied().unwrap_or(stored);
        let linked = u32_at(data, at + 4, "version").ok()? == LINKED;
        let container = file_offset(sections, address);
        is_wrapper.then_some(FoundWrapper { kind, offset: section.offset.saturating_add(at), linked, container })
    };
    // Linkers put zeros between wrappers of different alignment.
    let mut found = Vec::new();
    let mut at = 0;
    while at + WRAPPER_SIZE <= data.len() as u64 {
        match wrapper(at) {
            Some(wrapper) => {
                found.push(wrapper);
                at += WRAPPER_SIZE;
            }
            None => at += 8,
        }
    }
    found
}

/// Section and offset that a relocation of an object leads to.
pub(super) fn relocation_target(file: &File<'_>, relocation: &Relocation) -> Option<(SectionIndex, u64)> {
    let (index, base) = match relocation.target() {
        RelocationTarget::Section(index) => (index, 0),
        RelocationTarget::Symbol(symbol) => {
            let symbol = file.symbol_by_index(symbol).ok()?;
            (symbol.section_index()?, symbol.address())
        }
        _ => return None,
    };
    Some((index, base.wrapping_add_signed(relocation.addend())))
}

/// Where the byte at an address of the program is in the file.
fn file_offset(sections: &[Section<'_>], address: u64) -> Option<u64> {
    let loaded = sections.iter().filter(|section| section.address != 0);
    loaded.into_iter().find_map(|section| {
        let inside = address.checked_sub(section.address).filter(|inside| *inside < section.in_file())?;
        Some(section.offset.saturating_add(inside))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_modules() {
        assert_eq!(module_name("_c775ddbe_4_a_cu_45f7178e"), "a_cu");
        assert_eq!(module_name("_f4510a67_22_cuda_device_runtime_cu_3ecce0c0_2317245"), "cuda_device_runtime_cu");
        for id in ["", "_", "_a_99_b", "_a_-1_b", "odd", "_a_1_\u{e9}"] {
            assert_eq!(module_name(id), id);
        }
    }

    #[test]
    fn files_without_device_links_have_none() {
        let object = crate::samples::host_object(&[]);
        assert_eq!((module_ids(&object), wrappers(&object)), (Vec::new(), Vec::new()));
        assert_eq!((module_ids(b"\x7fELF"), wrappers(b"\x7fELF")), (Vec::new(), Vec::new()));
    }
}
