//! The references that unwind tables make (`.eh_frame`). A table describes all functions of its unit; what it says of one function counts
//! only with that function.

use object::read::elf::SectionHeader;

use super::relocations::Relocation;
use super::{Reader, Reference, SectionGraph};
use crate::FormatError;
use crate::bytes::u32_at;

/// Offset in a description of a function (FDE) at which the function's address is: behind its length and the reference to its CIE.
const FUNCTION: u64 = 8;

/// A record of an unwind table.
#[derive(Debug, Clone, Copy)]
struct Record {
    start: u64,
    end: u64,
    /// It describes a function; otherwise it is what such records have in common (CIE).
    is_function: bool,
}

impl<'a> Reader<'a> {
    /// Adds a reference from each function to its data for exceptions. What records have in common, and everything of a table that
    /// cannot be read, counts for the whole object.
    pub(super) fn add_unwind_references(
        &self,
        graph: &mut SectionGraph<'a>,
        table: usize,
        relocations: &[Relocation],
    ) -> Result<(), FormatError> {
        let index = object::SectionIndex(table);
        let section = self.sections.section(index).map_err(|error| self.damaged(error))?;
        let data = section.data(self.endian, self.elf).map_err(|error| self.damaged(error))?;
        let records = records(data).unwrap_or_default();
        let mut relocations = relocations.to_vec();
        relocations.sort_by_key(|relocation| relocation.offset);
        for relocation in &relocations {
            let record = records.partition_point(|record| record.end <= relocation.offset);
            let record = records.get(record).filter(|record| record.start <= relocation.offset);
            let Some(to) = self.reference(relocation)? else { continue };
            match record {
                Some(record) if record.is_function && relocation.offset == record.start + FUNCTION => {}
                Some(record) if record.is_function => {
                    let at = relocations.partition_point(|other| other.offset < record.start + FUNCTION);
                    let function = relocations.get(at).filter(|other| other.offset == record.start + FUNCTION);
                    let section = function.map(|function| self.own_section(function)).transpose()?.flatten();
                    match section.and_then(|section| graph.sections.get_mut(section)) {
                        Some(node) => node.references.push(to),
                        None => graph.references.push(to),
                    }
                }
                _ => graph.references.push(to),
            }
        }
        Ok(())
    }

    /// The section of this object that a relocation refers to.
    fn own_section(&self, relocation: &Relocation) -> Result<Option<usize>, FormatError> {
        if let Some(Reference::Section(section)) = self.reference(relocation)? {
            return Ok(Some(section));
        }
        let index = object::SymbolIndex(relocation.symbol as usize);
        let symbol = self.symbols.symbol(index).map_err(|error| self.damaged(error))?;
        let section = self.symbols.symbol_section(self.endian, symbol, index).map_err(|error| self.damaged(error))?;
        Ok(section.map(|section| section.0))
    }
}

/// The records of a table; `None` if they cannot be told apart.
fn records(data: &[u8]) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    let mut start = 0;
    while start < data.len() as u64 {
        let length = u32_at(data, start, "a length").ok()?;
        let end = start.checked_add(4)?.checked_add(length.into())?;
        // All bits set: a length of 64 bits follows, which no compiler writes.
        if length == u32::MAX || end > data.len() as u64 {
            return None;
        }
        if length != 0 {
            let is_function = u32_at(data, start.checked_add(4)?, "a reference").ok()? != 0;
            records.push(Record { start, end, is_function });
        }
        start = end;
    }
    Some(records)
}
