//! A section whose contents are written behind the object that has it.

use super::tables::{SH_FLAGS, SH_OFFSET, SH_SIZE, SHT_SYMTAB, ST_SIZE, Tables};
use crate::FormatError;
use crate::bytes::{c_str, put, u32_at};

/// Alignment of the contents in their section.
const ALIGNMENT: usize = 8;

/// An object with an empty section whose contents follow once their size is known.
///
/// The contents are placed behind the object, so that they need not be copied, whatever their size.
pub struct SectionSlot {
    object: Vec<u8>,
    tables: Tables,
    section: usize,
    /// Offset of the contents' symbol in the file.
    symbol_at: u64,
    flags: u64,
}

impl SectionSlot {
    /// Finds the section of this name, and the symbol that stands for its contents.
    ///
    /// # Errors
    /// A file that is no 64-bit little-endian ELF file, a damaged one, or one without the section or the symbol.
    pub fn find(object: Vec<u8>, section: &str, symbol: &str) -> Result<Self, FormatError> {
        let tables = Tables::read(&object)?;
        let name = |table: usize, offset: u32| {
            let strings = tables.sections.get(table).map_or(0, |strings| strings.offset);
            c_str(&object, strings.saturating_add(offset.into()), "a name")
        };
        let index = tables.sections.iter().position(|header| name(tables.names, header.name) == Ok(section));
        let index = index.ok_or_else(|| FormatError::damaged(0, format!("no section {section}")))?;
        let is_symbol = |table: usize, at: u64| {
            u32_at(&object, at, "a symbol").and_then(|offset| name(table, offset)) == Ok(symbol)
        };
        let symbol_tables = tables.sections.iter().filter(|header| header.kind == SHT_SYMTAB);
        let symbol_at = symbol_tables
            .flat_map(|table| table.symbols().map(|at| (table.link as usize, at)))
            .find_map(|(table, at)| is_symbol(table, at).then_some(at));
        let symbol_at = symbol_at.ok_or_else(|| FormatError::damaged(0, format!("no symbol {symbol}")))?;
        let flags = tables.sections.get(index).map_or(0, |header| header.flags);
        Ok(Self { object, tables, section: index, symbol_at, flags })
    }

    /// `e_machine` of the object.
    pub fn machine(&self) -> u64 {
        self.tables.machine
    }

    /// Adds to the flags of the section (`SHF_*`).
    pub fn add_flags(&mut self, flags: u64) {
        self.flags |= flags;
    }

    /// Returns the bytes that precede contents of `size` bytes.
    pub fn in_front_of(mut self, size: u64) -> Vec<u8> {
        let start = self.object.len().next_multiple_of(ALIGNMENT);
        let header = self.tables.section_at(self.section);
        put(&mut self.object, header + SH_FLAGS, &self.flags.to_le_bytes());
        put(&mut self.object, header + SH_OFFSET, &(start as u64).to_le_bytes());
        put(&mut self.object, header + SH_SIZE, &size.to_le_bytes());
        put(&mut self.object, self.symbol_at.saturating_add(ST_SIZE), &size.to_le_bytes());
        self.object.resize(start, 0);
        self.object
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{host_object, samples};

    #[test]
    fn contents_behind_the_object() {
        let object = samples::host_object(&[]);
        assert!(SectionSlot::find(object.clone(), ".llvm.offloading", "nothing").is_err());
        assert!(SectionSlot::find(object.clone(), "nothing", ".cuda.fatbin_reg").is_err());
        let mut slot =
            SectionSlot::find(object, ".llvm.offloading", ".cuda.fatbin_reg").expect("a section and a symbol");
        slot.add_flags(0x1000_0000);
        let mut filled = slot.in_front_of(5);
        assert!(filled.len().is_multiple_of(8));
        filled.extend(b"image");
        let (offset, data) = host_object::section(&filled, b".llvm.offloading").expect("the section");
        assert_eq!((offset as usize, data), (filled.len() - 5, &b"image"[..]));
    }
}
