//! The addresses that the loader stores in a section of a linked ELF file.

use std::collections::HashMap;

use object::elf::{SHF_ALLOC, SHT_RELA};

use crate::elf_sections::Section;

/// A dynamic relocation (`Elf64_Rela`) in a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoadedPointer {
    /// Offset in the section.
    pub(super) offset: u64,
    /// Index of its symbol in the table of dynamic symbols; 0 if the address is the addend alone, relative to where the file is loaded.
    pub(super) symbol: u32,
    pub(super) addend: i64,
}

/// The dynamic relocations in one of the sections of a 64-bit little-endian file. A program has thousands of others, so that only their places
/// are read.
pub(super) fn loaded_pointers(elf: &[u8], sections: &[Section<'_>], section: &Section<'_>) -> Vec<LoadedPointer> {
    let (first, size) = (section.address, section.in_file());
    // Those that `--emit-relocs` keeps are not loaded.
    let tables = sections.iter().filter(|section| section.kind == SHT_RELA.0 && section.flags & SHF_ALLOC.0 != 0);
    let rows = tables.filter_map(|table| table.data(elf).ok()).flat_map(|data| data.as_chunks::<24>().0);
    let pointer = |row: &[u8; 24]| {
        let [place, info, addend] = row.as_chunks::<8>().0 else { return None };
        let offset = u64::from_le_bytes(*place).wrapping_sub(first);
        let symbol = (u64::from_le_bytes(*info) >> 32) as u32;
        (offset < size).then(|| LoadedPointer { offset, symbol, addend: i64::from_le_bytes(*addend) })
    };
    rows.filter_map(pointer).collect()
}

/// Offset in a section -> address that the loader stores there, relative to where the file is loaded.
///
/// A linker need not store it in the file too: lld does not.
pub(super) fn relocated(pointers: &[LoadedPointer]) -> HashMap<u64, u64> {
    let relative = pointers.iter().filter(|pointer| pointer.symbol == 0);
    relative.map(|pointer| (pointer.offset, pointer.addend.cast_unsigned())).collect()
}

#[cfg(test)]
mod tests {
    use object::Object;

    use super::*;
    use crate::elf_sections::sections;

    #[test]
    fn this_very_program_starts_at_addresses_that_are_loaded() {
        let elf = std::fs::read("/proc/self/exe").unwrap();
        let file = object::File::parse(&*elf).unwrap();
        let sections = sections(&elf).unwrap();
        let section = sections.iter().find(|section| section.name == b".init_array").unwrap();
        let found = loaded_pointers(&elf, &sections, section);
        let all = file.dynamic_relocations().unwrap();
        let in_section = all.filter(|(at, _)| (section.address..section.address + section.size).contains(at));
        assert_eq!((found.len(), found.is_empty()), (in_section.count(), false));
        assert!(relocated(&found).values().all(|address| *address != 0));
    }
}
