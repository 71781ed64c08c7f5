//! Reads the offload entries of a host object: the kernels and variables that it references on the device.

use std::collections::HashMap;

use object::read::{Object, ObjectSection, ObjectSymbol};
use object::{File, ObjectKind};

use super::device_links::{relocated, relocation_target};
use crate::FormatError;
use crate::bytes::{c_str, u16_at, u32_at, u64_at};
use crate::offload_binary::OffloadKinds;

/// Section of the entries; the linker concatenates those of all objects.
pub(super) const SECTION: &str = "llvm_offload_entries";
/// Size of an entry with 64-bit pointers.
pub(super) const ENTRY_SIZE: u64 = 56;
/// Offset of the address that stands for the kernel or variable.
pub(super) const ADDRESS: u64 = 16;
const KINDS: u64 = 10;
const FLAGS: u64 = 12;
const SYMBOL_NAME: u64 = 24;
const SIZE: u64 = 32;

/// A kernel or variable that the host code of an object refers to on the device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostEntry {
    /// The symbol on the device.
    pub name: String,
    /// The programming model.
    pub kinds: OffloadKinds,
    /// Flags of that model: for CUDA and HIP the kind of variable in the low 3 bits, 8 extern, 16 constant, 32 normalized.
    pub flags: u32,
    /// Size in bytes of a variable; 0 for a kernel.
    pub size: u64,
}

/// Number of offload entries of an ELF file, by the size of their section.
pub(crate) fn offload_entry_count(elf: &[u8]) -> u64 {
    super::section(elf, SECTION.as_bytes()).map_or(0, |(_, data)| data.len() as u64 / ENTRY_SIZE)
}

/// The offload entries of a 64-bit ELF file, in the order of the file.
///
/// In an object the names come through relocations; in an executable or library through relative relocations or
/// addresses, as far as those are there. An entry whose name cannot be found that way is left out of an executable's list.
///
/// # Errors
/// A damaged ELF file, entries that are cut off, or a name that lies nowhere. Offsets are those of the file.
pub fn offload_entries(elf: &[u8]) -> Result<Vec<HostEntry>, FormatError> {
    let headers = super::sections(elf)?;
    let Some(header) = headers.iter().find(|section| section.name == SECTION.as_bytes()) else {
        return Ok(Vec::new());
    };
    let data = header.data(elf).map_err(|e| e.within(SECTION))?;
    let file = File::parse(elf).map_err(|e| FormatError::parser(0, "damaged ELF file", e))?;
    if !file.is_64() || !file.is_little_endian() {
        let what = format!("section {SECTION}: only 64-bit little-endian files are supported");
        return Err(FormatError::unsupported(header.offset, what));
    }
    if !(data.len() as u64).is_multiple_of(ENTRY_SIZE) {
        let what = format!("section {SECTION} holds a part of an entry");
        return Err(FormatError::damaged(header.offset, what));
    }
    let is_relocatable = file.kind() == ObjectKind::Relocatable;
    let names = if is_relocatable { names_by_relocation(&file) } else { names_by_address(&file, data) };
    let mut entries = Vec::new();
    for at in (0..data.len() as u64).step_by(ENTRY_SIZE as usize) {
        let Some(name) = names.get(&(at + SYMBOL_NAME)) else {
            if !is_relocatable {
                continue;
            }
            let what = format!("section {SECTION}: an entry without a name");
            return Err(FormatError::damaged(header.offset.saturating_add(at), what));
        };
        entries.push(HostEntry {
            name: name.clone(),
            kinds: OffloadKinds(u16_at(data, at + KINDS, "kind")?),
            flags: u32_at(data, at + FLAGS, "flags")?,
            size: u64_at(data, at + SIZE, "size")?,
        });
    }
    Ok(entries)
}

/// Offset in the entries' section -> name, where a relocation leads to one.
fn names_by_relocation(file: &File<'_>) -> HashMap<u64, String> {
    let mut names = HashMap::new();
    let Some(section) = file.section_by_name(SECTION) else {
        return names;
    };
    for (offset, relocation) in section.relocations() {
        if offset % ENTRY_SIZE != SYMBOL_NAME {
            continue;
        }
        let Some((index, at)) = relocation_target(file, &relocation) else { continue };
        let data = file.section_by_index(index).ok().and_then(|section| section.data().ok());
        if let Some(name) = data.and_then(|data| c_str(data, at, "a name").ok()) {
            names.insert(offset, name.to_owned());
        }
    }
    names
}

/// The same in a linked file: the pointer is stored, or is the addend of a relative relocation.
fn names_by_address(file: &File<'_>, data: &[u8]) -> HashMap<u64, String> {
    let mut names = HashMap::new();
    let Some(section) = file.section_by_name(SECTION) else {
        return names;
    };
    let (first, size) = (section.address(), data.len() as u64);
    let pointers = relocated(file, first, size);
    for offset in (SYMBOL_NAME..size).step_by(ENTRY_SIZE as usize) {
        let stored = u64_at(data, offset, "a name").unwrap_or(0);
        let address = pointers.get(&offset).copied().unwrap_or(stored);
        if let Some(name) = string_at_address(file, address) {
            names.insert(offset, name);
        }
    }
    names
}

fn string_at_address(file: &File<'_>, address: u64) -> Option<String> {
    let holds = |section: &object::Section<'_, '_>| {
        let offset = address.checked_sub(section.address());
        section.address() != 0 && offset.is_some_and(|offset| offset < section.size())
    };
    let section = file.sections().find(holds)?;
    let offset = address.checked_sub(section.address())?;
    c_str(section.data().ok()?, offset, "a name").ok().map(str::to_owned)
}

/// The symbol that marks a file whose device code is already linked and registered.
///
/// Such a symbol is local, so it is lost in a stripped file.
pub fn registration_symbol(elf: &[u8]) -> Option<&'static str> {
    const SYMBOLS: [&str; 4] =
        [".cuda.fatbin_reg", ".hip.fatbin_reg", ".omp_offloading.descriptor_reg", "sycl.descriptor_reg"];
    let file = File::parse(elf).ok()?;
    let defined = file.symbols().filter(object::ObjectSymbol::is_definition);
    defined
        .filter_map(|symbol| symbol.name_bytes().ok())
        .find_map(|name| SYMBOLS.into_iter().find(|known| known.as_bytes() == name))
}
