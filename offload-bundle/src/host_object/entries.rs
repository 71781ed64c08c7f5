//! Reads the offload entries of a host object: the kernels and variables that it references on the device.
//!
//! Clang writes them in three forms (LLVM's `llvm/Frontend/Offloading`, and objects of each release): up to clang 19 entries of 32 bytes in a
//! section for each programming model, in clang 20 entries of 56 bytes in the same sections, and since clang 21 those in
//! `llvm_offload_entries`. A linked file may hold all three.

use std::collections::{HashMap, HashSet};

use object::read::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable};
use object::{File, ObjectKind, SectionIndex, SymbolIndex};

use super::device_links::relocation_target;
use super::former_entries::{FORMER_SECTIONS, former_section};
use super::loaded_pointers::{LoadedPointer, loaded_pointers, relocated};
use super::{OFFLOAD, Section, lacks, sections};
use crate::FormatError;
use crate::bytes::{c_str, u16_at, u32_at, u64_at};
use crate::offload_binary::OffloadKinds;

/// Section of the entries since clang 21; the linker concatenates those of all objects.
const SECTION: &str = "llvm_offload_entries";

/// All sections of entries.
pub const ENTRY_SECTIONS: [&str; 4] = [SECTION, FORMER_SECTIONS[0], FORMER_SECTIONS[1], FORMER_SECTIONS[2]];

/// The layout of an entry with 64-bit pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryForm {
    /// Since clang 20, 56 bytes: u64 reserved, u16 version, u16 kind, u32 flags, address, name, u64 size, u64 data, auxiliary address.
    Current,
    /// Up to clang 19, 32 bytes: address, name, u64 size, u32 flags, u32 data.
    Former,
}

impl EntryForm {
    /// Size of an entry in bytes.
    fn size(self) -> u64 {
        match self {
            EntryForm::Current => 56,
            EntryForm::Former => 32,
        }
    }

    /// Offset of the address that stands for the kernel or variable.
    fn address(self) -> u64 {
        match self {
            EntryForm::Current => 16,
            EntryForm::Former => 0,
        }
    }

    /// Offset of the address of the name.
    fn name(self) -> u64 {
        self.address() + 8
    }

    /// Offset of the size of the kernel or variable.
    fn extent(self) -> u64 {
        self.address() + 16
    }

    /// Offset of the flags.
    fn flags(self) -> u64 {
        match self {
            EntryForm::Current => 12,
            EntryForm::Former => 24,
        }
    }

    /// Offset of the data, of which 32 bits count here.
    fn data(self) -> u64 {
        match self {
            EntryForm::Current => 40,
            EntryForm::Former => 28,
        }
    }
}

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
    /// The dimensions of a texture or surface, as HIP's headers number them (`hipTextureType2D`); the alignment of a managed variable.
    pub data: u32,
    /// The layout of the entry.
    pub form: EntryForm,
}

impl HostEntry {
    /// What no registration code can make of this entry.
    pub fn incomplete(&self) -> Option<IncompleteEntry> {
        let is_former = self.form == EntryForm::Former && self.size != 0;
        is_former.then(|| IncompleteEntry::of_former(self.flags, self.data)).flatten()
    }
}

/// What is missing in an entry of clang 15 to 19.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncompleteEntry {
    /// Up to clang 19 the entry of a managed variable names its contents, and not the pointer that the host code reads.
    ManagedVariable,
    /// Up to clang 17 the entry of a texture or surface does not say how many dimensions it has.
    Texture,
}

impl IncompleteEntry {
    /// Judges an entry of 32 bytes of a variable by its flags and its data.
    pub fn of_former(flags: u32, data: u32) -> Option<Self> {
        match flags & 7 {
            1 => Some(IncompleteEntry::ManagedVariable),
            // Types are numbered from 1.
            2 | 3 if data == 0 => Some(IncompleteEntry::Texture),
            _ => None,
        }
    }
}

/// Number of offload entries of an ELF file, with or without a name that can be read.
pub(crate) fn offload_entry_count(elf: &[u8]) -> usize {
    let all = sections(elf).unwrap_or_default();
    let tables = all.iter().filter(|section| is_table(section.name));
    tables.filter_map(|header| Some(Table::open(elf, &all, header).ok()?.places().ok()?.len())).sum()
}

/// Whether a section of this name holds offload entries.
pub(super) fn is_table(section: &[u8]) -> bool {
    section == SECTION.as_bytes() || former_section(section).is_some()
}

/// The offload entries of a 64-bit ELF file, in the order of the file.
///
/// In an object the names come through relocations; in an executable or library through relative relocations or
/// addresses, as far as those are there. An entry whose name cannot be found that way is left out of an executable's list.
///
/// # Errors
/// A damaged ELF file, entries that are cut off or of no known form, or a name that lies nowhere. Offsets are those of the file.
pub fn offload_entries(elf: &[u8]) -> Result<Vec<HostEntry>, FormatError> {
    if lacks(elf, &OFFLOAD) {
        return Ok(Vec::new());
    }
    let mut entries = Vec::new();
    let all = sections(elf)?;
    for header in all.iter().filter(|section| is_table(section.name)) {
        entries.extend(table_entries(elf, &all, header)?.into_iter().map(|(_, entry)| entry));
    }
    Ok(entries)
}

/// An entry of a linked program or library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedEntry {
    /// The kernel or variable.
    pub entry: HostEntry,
    /// The address that stands for it; `None` if that is another file's.
    pub address: Option<u64>,
}

/// The offload entries that the code of a linked 64-bit ELF file registers, those of relocatable links too, which have sections of their own.
///
/// # Errors
/// As [`offload_entries`].
pub(crate) fn registered_entries(elf: &[u8], sections: &[Section<'_>]) -> Result<Vec<LinkedEntry>, FormatError> {
    let mut linked = Vec::new();
    for header in sections.iter().filter(|section| table_name(section.name).is_some()) {
        let table = Table::open(elf, sections, header)?;
        let addresses = table.addresses();
        let entries = table.entries()?.into_iter();
        linked.extend(entries.map(|(at, entry)| LinkedEntry { entry, address: addresses.get(&at).copied() }));
    }
    Ok(linked)
}

/// The name of a table of entries; a relocatable link (`-r`) adds `_` and 16 hexadecimal digits to it, as clang-linker-wrapper does.
fn table_name(section: &[u8]) -> Option<&'static str> {
    let is_hash = |rest: &[u8]| rest.len() == 17 && rest[0] == b'_' && rest[1..].iter().all(u8::is_ascii_hexdigit);
    ENTRY_SECTIONS
        .into_iter()
        .find(|name| section.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.is_empty() || is_hash(rest)))
}

/// The entries of one section, each with the offset in it of the address that stands for the kernel or variable.
pub(super) fn table_entries(
    elf: &[u8],
    sections: &[Section<'_>],
    header: &Section<'_>,
) -> Result<Vec<(u64, HostEntry)>, FormatError> {
    Table::open(elf, sections, header)?.entries()
}

/// The programming model of a section of former entries. In clang 20 the number in HIP's entries is another than today.
pub fn former_kind(section: &str) -> Option<OffloadKinds> {
    match section.split_once('_')?.0 {
        "cuda" => Some(OffloadKinds::CUDA),
        "hip" => Some(OffloadKinds::HIP),
        "omp" => Some(OffloadKinds::OPENMP),
        _ => None,
    }
}

/// A section of offload entries.
struct Table<'a> {
    file: File<'a>,
    /// Where the section starts in the file.
    offset: u64,
    name: &'static str,
    data: &'a [u8],
    /// What the section's name says about the programming model.
    kinds: Option<OffloadKinds>,
    index: SectionIndex,
    /// In a linked file, what the loader stores in the section.
    loaded: Vec<LoadedPointer>,
}

impl<'a> Table<'a> {
    fn open(elf: &'a [u8], sections: &[Section<'_>], header: &Section<'_>) -> Result<Self, FormatError> {
        let name = table_name(header.name).unwrap_or(SECTION);
        let data = header.data(elf).map_err(|e| e.within(name))?;
        let file = File::parse(elf).map_err(|e| FormatError::parser(0, "damaged ELF file", e))?;
        if !file.is_64() || !file.is_little_endian() {
            let what = format!("section {name}: only 64-bit little-endian files are supported");
            return Err(FormatError::unsupported(header.offset, what));
        }
        let loaded = match file.kind() {
            ObjectKind::Relocatable => Vec::new(),
            _ => loaded_pointers(elf, sections, header),
        };
        let index = SectionIndex(header.index);
        Ok(Table { file, offset: header.offset, name, data, kinds: former_kind(name), index, loaded })
    }

    fn is_relocatable(&self) -> bool {
        self.file.kind() == ObjectKind::Relocatable
    }

    fn damaged(&self, at: u64, what: &str) -> FormatError {
        FormatError::damaged(self.offset.saturating_add(at), format!("section {} holds {what}", self.name))
    }

    /// The entries, each with the offset in the section of the address that stands for the kernel or variable.
    fn entries(&self) -> Result<Vec<(u64, HostEntry)>, FormatError> {
        let places = self.places()?;
        let names = self.names(&places);
        let mut entries = Vec::new();
        for (at, form) in places {
            let Some(name) = names.get(&at) else {
                if !self.is_relocatable() {
                    continue;
                }
                return Err(self.damaged(at, "an entry without a name"));
            };
            let kinds = match self.kinds {
                Some(kinds) => kinds,
                None => OffloadKinds(u16_at(self.data, at + 10, "kind")?),
            };
            let flags = u32_at(self.data, at + form.flags(), "flags")?;
            let size = u64_at(self.data, at + form.extent(), "size")?;
            let data = u32_at(self.data, at + form.data(), "data")?;
            entries.push((at + form.address(), HostEntry { name: name.clone(), kinds, flags, size, data, form }));
        }
        Ok(entries)
    }

    /// Where the entries start, each with its form.
    fn places(&self) -> Result<Vec<(u64, EntryForm)>, FormatError> {
        let (mut places, mut at) = (Vec::new(), 0);
        let pointers = if self.kinds.is_some() { self.pointers() } else { HashSet::new() };
        while at < self.data.len() as u64 {
            let form = if pointers.contains(&at) { EntryForm::Former } else { EntryForm::Current };
            if self.data.len() as u64 - at < form.size() {
                return Err(self.damaged(at, "a part of an entry"));
            }
            if self.kinds.is_some() && form == EntryForm::Current && u16_at(self.data, at + 8, "version")? != 1 {
                return Err(self.damaged(at, "an entry of an unknown form"));
            }
            places.push((at, form));
            at += form.size();
        }
        Ok(places)
    }

    /// The section as the parser of ELF files has it.
    fn section(&self) -> Option<object::Section<'a, '_>> {
        self.file.section_by_index(self.index).ok()
    }

    /// The offsets in the section that hold an address.
    fn pointers(&self) -> HashSet<u64> {
        let Some(section) = self.section() else { return HashSet::new() };
        if self.is_relocatable() {
            return section.relocations().map(|(offset, _)| offset).collect();
        }
        let stored = (0..self.data.len() as u64).step_by(8);
        let stored = stored.filter(|at| u64_at(self.data, *at, "an address").is_ok_and(|value| value != 0));
        relocated(&self.loaded).into_keys().chain(stored).collect()
    }

    /// Offset in the section -> the address that a linked file has there once it is loaded, relative to where that is.
    fn addresses(&self) -> HashMap<u64, u64> {
        let stored = (0..self.data.len() as u64).step_by(8);
        let stored = stored.filter_map(|at| Some((at, u64_at(self.data, at, "an address").ok()?)));
        let mut addresses: HashMap<u64, u64> = stored.filter(|(_, address)| *address != 0).collect();
        let symbols = self.file.dynamic_symbol_table();
        for LoadedPointer { offset, symbol, addend } in &self.loaded {
            let defined = || {
                symbols
                    .as_ref()?
                    .symbol_by_index(SymbolIndex(*symbol as usize))
                    .ok()
                    .filter(ObjectSymbol::is_definition)
            };
            let base = if *symbol == 0 { Some(0) } else { defined().map(|symbol| symbol.address()) };
            match base {
                Some(base) => addresses.insert(*offset, base.wrapping_add_signed(*addend)),
                None => addresses.remove(offset),
            };
        }
        addresses
    }

    /// Start of an entry -> its name.
    fn names(&self, places: &[(u64, EntryForm)]) -> HashMap<u64, String> {
        let Some(section) = self.section() else { return HashMap::new() };
        if self.is_relocatable() {
            let targets: HashMap<u64, (SectionIndex, u64)> = section
                .relocations()
                .filter_map(|(offset, relocation)| Some((offset, relocation_target(&self.file, &relocation)?)))
                .collect();
            let name = |&(at, form): &(u64, EntryForm)| {
                let (index, offset) = targets.get(&(at + form.name()))?;
                let data = self.file.section_by_index(*index).ok()?.data().ok()?;
                Some((at, c_str(data, *offset, "a name").ok()?.to_owned()))
            };
            return places.iter().filter_map(name).collect();
        }
        let pointers = relocated(&self.loaded);
        let name = |&(at, form): &(u64, EntryForm)| {
            let at_name = at + form.name();
            let stored = u64_at(self.data, at_name, "a name").unwrap_or(0);
            let address = pointers.get(&at_name).copied().unwrap_or(stored);
            Some((at, string_at_address(&self.file, address)?))
        };
        places.iter().filter_map(name).collect()
    }
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

/// The programming models whose device code is already linked and registered by code in this file.
///
/// The symbols that mark such code are local, so they are lost in a stripped file.
pub fn registered_kinds(elf: &[u8]) -> OffloadKinds {
    const SYMBOLS: [(&[u8], OffloadKinds); 4] = [
        (b".cuda.fatbin_reg", OffloadKinds::CUDA),
        (b".hip.fatbin_reg", OffloadKinds::HIP),
        (b".omp_offloading.descriptor_reg", OffloadKinds::OPENMP),
        (b"sycl.descriptor_reg", OffloadKinds::SYCL),
    ];
    let Ok(file) = File::parse(elf) else { return OffloadKinds::default() };
    let names =
        file.symbols().filter(object::ObjectSymbol::is_definition).filter_map(|symbol| symbol.name_bytes().ok());
    let kinds = names.filter_map(|name| SYMBOLS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind));
    kinds.fold(OffloadKinds::default(), |all, kind| all | kind)
}

#[cfg(test)]
mod tests {
    use object::write::{Object, Relocation, StandardSection, Symbol, SymbolSection};
    use object::{
        Architecture, BinaryFormat, Endianness, RelocationEncoding, RelocationFlags, RelocationKind, SectionKind,
        SymbolFlags, SymbolKind, SymbolScope,
    };

    use super::*;

    /// An object with a table whose section has this name, and pointers to a name at these offsets.
    fn object(section: &str, table: &[u8], pointers: &[u64]) -> Vec<u8> {
        let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let text = object.section_id(StandardSection::ReadOnlyString);
        object.append_section_data(text, b"kernel\0", 1);
        let symbol = object.add_symbol(Symbol {
            name: b"name".to_vec(),
            value: 0,
            size: 0,
            kind: SymbolKind::Data,
            scope: SymbolScope::Compilation,
            weak: false,
            section: SymbolSection::Section(text),
            flags: SymbolFlags::None,
        });
        let id = object.add_section(Vec::new(), section.as_bytes().to_vec(), SectionKind::Data);
        object.append_section_data(id, table, 1);
        for offset in pointers.iter().copied() {
            let (kind, encoding) = (RelocationKind::Absolute, RelocationEncoding::Generic);
            let flags = RelocationFlags::Generic { kind, encoding, size: 64 };
            object.add_relocation(id, Relocation { offset, symbol, addend: 0, flags }).unwrap();
        }
        object.write().unwrap()
    }

    /// Entries of clang 19 and of clang 20 in one section, as `ld -r` joins them.
    fn both_forms() -> Vec<u8> {
        let mut table = vec![0; 32 + 56];
        (table[16], table[24]) = (4, 1);
        (table[32 + 8], table[32 + 10], table[32 + 12], table[32 + 32]) = (1, 3, 16, 8);
        object("hip_offloading_entries", &table, &[0, 8, 32 + 16, 32 + 24])
    }

    #[test]
    fn both_forms_in_one_section() {
        let entries = offload_entries(&both_forms()).unwrap();
        let entry = |form, flags, size| HostEntry {
            name: "kernel".into(),
            kinds: OffloadKinds::HIP,
            flags,
            size,
            data: 0,
            form,
        };
        assert_eq!(entries, [entry(EntryForm::Former, 1, 4), entry(EntryForm::Current, 16, 8)]);
        let incomplete: Vec<_> = entries.iter().map(HostEntry::incomplete).collect();
        assert_eq!(incomplete, [Some(IncompleteEntry::ManagedVariable), None]);
        assert_eq!(offload_entry_count(&both_forms()), 2);
    }

    #[test]
    fn textures_of_former_entries_need_a_type() {
        for (flags, data, incomplete) in
            [(3, 0, Some(IncompleteEntry::Texture)), (2, 0, Some(IncompleteEntry::Texture)), (3, 2, None), (0, 0, None)]
        {
            assert_eq!(IncompleteEntry::of_former(flags, data), incomplete, "{flags} {data}");
        }
    }

    #[test]
    fn damaged_tables_are_errors() {
        let error = |table: &[u8], pointers: &[u64]| {
            offload_entries(&object("cuda_offloading_entries", table, pointers)).unwrap_err().to_string()
        };
        assert!(error(&[0; 40], &[0, 8]).contains("holds a part of an entry"));
        assert!(error(&[0; 31], &[0, 8]).contains("holds a part of an entry"));
        assert!(error(&[0; 56], &[16, 24]).contains("holds an entry of an unknown form"));
        assert!(error(&[0; 32], &[0]).contains("holds an entry without a name"));
    }

    #[test]
    fn no_change_of_a_byte_panics() {
        let whole = both_forms();
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                let _ = (offload_entries(&changed), offload_entry_count(&changed));
            }
        }
    }
}
