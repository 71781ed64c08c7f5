//! Sections of an object that are renamed or emptied, and symbols that are renamed.

use std::ops::Range;

use super::cuts;
use super::tables::{
    E_SHOFF, SH_FLAGS, SH_NAME, SH_OFFSET, SH_SIZE, SH_TYPE, SHT_PROGBITS, SHT_SYMTAB, SectionHeader, Tables,
};
use crate::FormatError;
use crate::bytes::{put, slice, u32_at};

/// Collects changes to an object; [`ObjectPatch::finish`] applies them.
///
/// Sections keep their numbers, by which others refer to them: an emptied one stays, without a name or contents. New names go into copies
/// of the string tables at the end of the file.
///
/// ```no_run
/// let object = std::fs::read("linked.o")?;
/// let mut patch = offload_bundle::elf_edit::ObjectPatch::new(&object)?;
/// patch.empty_sections(b".llvm.offloading")?;
/// patch.rename_sections(b"llvm_offload_entries", "llvm_offload_entries_1")?;
/// std::fs::write("linked.o", patch.finish())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ObjectPatch<'a> {
    object: &'a [u8],
    tables: Tables,
    /// New numbers of 4 and of 8 bytes, by offset in the file.
    words: Vec<(u64, u32)>,
    longs: Vec<(u64, u64)>,
    /// String tables with new names, each with its section, in the order in which they are appended to the file.
    strings: Vec<(usize, Vec<u8>)>,
    /// Contents of emptied sections.
    free: Vec<Range<u64>>,
}

impl<'a> ObjectPatch<'a> {
    /// Reads the headers of an object.
    ///
    /// # Errors
    /// A file that is no 64-bit little-endian ELF file, or a damaged one.
    pub fn new(object: &'a [u8]) -> Result<Self, FormatError> {
        let tables = Tables::read(object)?;
        let mut patch =
            Self { object, tables, words: Vec::new(), longs: Vec::new(), strings: Vec::new(), free: Vec::new() };
        patch.strings_of(patch.tables.names)?;
        Ok(patch)
    }

    /// Whether there is a section of this name.
    ///
    /// # Errors
    /// A section whose name lies outside of the table of names.
    pub fn has_section(&self, name: &[u8]) -> Result<bool, FormatError> {
        Ok(!self.sections_named(name)?.is_empty())
    }

    /// Takes the contents of all sections of this name out of the file.
    ///
    /// # Errors
    /// A section whose name lies outside of the table of names.
    pub fn empty_sections(&mut self, name: &[u8]) -> Result<(), FormatError> {
        for index in self.sections_named(name)? {
            let Some(section) = self.tables.sections.get(index).copied() else { continue };
            let at = self.tables.section_at(index);
            self.free.push(section.offset..section.offset.saturating_add(section.size));
            self.words.extend([(at + SH_NAME, 0), (at + SH_TYPE, SHT_PROGBITS)]);
            self.longs.extend([(at + SH_FLAGS, 0), (at + SH_SIZE, 0)]);
        }
        Ok(())
    }

    /// Renames all sections of this name.
    ///
    /// # Errors
    /// A section whose name lies outside of the table of names.
    pub fn rename_sections(&mut self, name: &[u8], new: &str) -> Result<(), FormatError> {
        for index in self.sections_named(name)? {
            let name = self.add_string(self.tables.names, new)?;
            self.words.push((self.tables.section_at(index) + SH_NAME, name));
        }
        Ok(())
    }

    /// Renames the symbols for which `new_name` returns a name.
    ///
    /// # Errors
    /// A symbol table, or a name in it, that lies outside of the file.
    pub fn rename_symbols(&mut self, new_name: impl Fn(&[u8]) -> Option<String>) -> Result<(), FormatError> {
        let is_table = |section: &&SectionHeader| section.kind == SHT_SYMTAB;
        let Some(table) = self.tables.sections.iter().find(is_table).copied() else { return Ok(()) };
        slice(self.object, table.offset, table.size, "the symbol table")?;
        let names = table.link as usize;
        self.strings_of(names)?;
        for at in table.symbols() {
            let offset = u32_at(self.object, at, "a symbol")?;
            if let Some(new) = new_name(self.name(names, offset)?) {
                let name = self.add_string(names, &new)?;
                self.words.push((at, name));
            }
        }
        Ok(())
    }

    /// Applies the changes.
    pub fn finish(mut self) -> Vec<u8> {
        let mut file = self.object.to_vec();
        for (section, strings) in std::mem::take(&mut self.strings) {
            let at = self.tables.section_at(section);
            self.longs.extend([(at + SH_OFFSET, file.len() as u64), (at + SH_SIZE, strings.len() as u64)]);
            file.extend(strings);
        }
        for (at, number) in &self.words {
            put(&mut file, *at, &number.to_le_bytes());
        }
        for (at, number) in &self.longs {
            put(&mut file, *at, &number.to_le_bytes());
        }
        self.cut(file)
    }

    /// Takes the contents of emptied sections out of the file. What is taken out is a multiple of the largest alignment, so that everything
    /// behind stays aligned.
    fn cut(&self, mut file: Vec<u8>) -> Vec<u8> {
        let alignment = self.tables.sections.iter().map(|section| section.align).max().unwrap_or(1).max(8);
        let mut free = self.free.clone();
        free.retain(|range| range.end <= file.len() as u64);
        free.sort_by_key(|range| range.start);
        // Of sections that overlap the first is cut.
        let mut end = 0;
        free.retain(|range| {
            let is_apart = range.start >= end;
            end = if is_apart { range.end } else { end };
            is_apart
        });
        for range in &mut free {
            range.end = range.start + (range.end - range.start) / alignment * alignment;
        }
        for index in 0..self.tables.sections.len() {
            let at = self.tables.section_at(index) + SH_OFFSET;
            let offset = crate::bytes::u64_at(&file, at, "a section header").unwrap_or(0);
            put(&mut file, at, &cuts::moved(&free, offset).to_le_bytes());
        }
        put(&mut file, E_SHOFF, &cuts::moved(&free, self.tables.sections_at).to_le_bytes());
        cuts::take_out(&mut file, &free);
        file
    }

    fn sections_named(&self, name: &[u8]) -> Result<Vec<usize>, FormatError> {
        let mut found = Vec::new();
        for (index, section) in self.tables.sections.iter().enumerate() {
            if self.name(self.tables.names, section.name)? == name {
                found.push(index);
            }
        }
        Ok(found)
    }

    /// Reads the string of a table at an offset.
    fn name(&self, table: usize, offset: u32) -> Result<&'a [u8], FormatError> {
        let header = self.tables.sections.get(table);
        let header = header.ok_or_else(|| FormatError::truncated(0, "the section of names"))?;
        let strings = slice(self.object, header.offset, header.size, "a table of names")?;
        let rest = strings.get(offset as usize..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| FormatError::truncated(header.offset.saturating_add(offset.into()), "a name"))?;
        Ok(&rest[..end])
    }

    /// Returns the copy of a string table to which names are appended.
    fn strings_of(&mut self, table: usize) -> Result<&mut Vec<u8>, FormatError> {
        let header = self.tables.sections.get(table).copied();
        let header = header.ok_or_else(|| FormatError::truncated(0, "the section of names"))?;
        let strings = slice(self.object, header.offset, header.size, "a table of names")?;
        let known = self.strings.iter().position(|(section, _)| *section == table);
        let place = known.unwrap_or_else(|| {
            self.strings.push((table, strings.to_vec()));
            self.strings.len() - 1
        });
        Ok(&mut self.strings[place].1)
    }

    fn add_string(&mut self, table: usize, text: &str) -> Result<u32, FormatError> {
        let strings = self.strings_of(table)?;
        let start = u32::try_from(strings.len()).unwrap_or(0);
        strings.extend(text.as_bytes());
        strings.push(0);
        Ok(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_object;
    use crate::samples;

    const IMAGES: &[u8] = b".llvm.offloading";
    const ENTRIES: &[u8] = b"llvm_offload_entries";

    #[test]
    fn emptied_and_renamed_sections() {
        let object = samples::host_object(&samples::offload_binaries());
        let before = host_object::sections(&object).expect("sections");
        let mut patch = ObjectPatch::new(&object).expect("a sound object");
        patch.empty_sections(IMAGES).expect("sound names");
        patch.rename_sections(ENTRIES, "entries_1").expect("sound names");
        let patched = patch.finish();
        assert!(patched.len() < object.len());
        let after = host_object::sections(&patched).expect("sections");
        assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(&after) {
            let expected = match before.name {
                IMAGES => &b""[..],
                ENTRIES => b"entries_1",
                name => name,
            };
            assert_eq!(after.name, expected);
            // The string tables grew, the emptied section is gone, and everything else is unchanged.
            if before.name == IMAGES {
                assert_eq!(after.size, 0);
            } else if !before.name.ends_with(b"strtab") {
                assert_eq!(before.data(&object).expect("data"), after.data(&patched).expect("data"));
            }
        }
    }

    #[test]
    fn renamed_symbols() {
        let object = samples::host_object(&[]);
        let mut patch = ObjectPatch::new(&object).expect("a sound object");
        let renamed = |name: &[u8]| (name == b".cuda.fatbin_reg").then(|| ".hip.fatbin_reg".to_owned());
        patch.rename_symbols(renamed).expect("sound symbols");
        assert_eq!(host_object::registered_kinds(&patch.finish()), crate::offload_binary::OffloadKinds::HIP);
    }

    #[test]
    fn damaged_objects_are_rejected_or_patched() {
        let object = samples::host_object(&samples::offload_binaries());
        for (end, at) in (0..object.len()).step_by(5).zip((0..object.len()).rev()) {
            let mut flipped = object.clone();
            flipped[at] ^= 0xff;
            for damaged in [&object[..end], &flipped] {
                let Ok(mut patch) = ObjectPatch::new(damaged) else { continue };
                let _ = patch.empty_sections(IMAGES);
                let _ = patch.rename_sections(ENTRIES, "entries_1");
                let _ = patch.rename_symbols(|name| name.starts_with(b".cuda").then(|| "other".to_owned()));
                let _ = patch.finish();
            }
        }
    }
}
