//! The relocations of a section.

use super::{Kind, Section, Unit};
use crate::bytes::{u32_at, u64_at};
use crate::error::LinkError;

/// Bytes of an `Elf64_Rela`.
const SIZE: usize = 24;

/// One relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Relocation {
    /// Offset in the section that is relocated.
    pub(crate) offset: u64,
    /// The type (`R_CUDA_*`).
    pub(crate) kind: u32,
    /// The number of a symbol, which exists.
    pub(crate) symbol: usize,
    /// What to add to the symbol's address.
    pub(crate) addend: i64,
    /// Where the relocation itself is in the file.
    pub(crate) at: u64,
}

/// The relocations of a section of relocations, in order.
///
/// # Errors
/// A damaged table, or one that refers to a symbol that does not exist.
pub(crate) fn relocations(unit: &Unit<'_>, section: &Section<'_>) -> Result<Vec<Relocation>, LinkError> {
    let Kind::Relocations(of) = section.kind else { return Ok(Vec::new()) };
    let damaged = |at: u64, what: &str| LinkError::damaged(unit.file, at, format!("{what} in {}", section.name));
    if !section.data.len().is_multiple_of(SIZE) {
        return Err(damaged(section.offset, "half a relocation"));
    }
    let mut all = Vec::with_capacity(section.data.len() / SIZE);
    for (number, raw) in section.data.chunks_exact(SIZE).enumerate() {
        let at = section.offset + (number * SIZE) as u64;
        let fields = (u64_at(raw, 0), u32_at(raw, 8), u32_at(raw, 12), u64_at(raw, 16));
        let (Some(offset), Some(kind), Some(symbol), Some(addend)) = fields else { continue };
        let symbol = symbol as usize;
        if symbol >= unit.symbols.len() {
            return Err(damaged(at, "relocation by a symbol that does not exist"));
        }
        if offset >= unit.sections[of].size {
            return Err(damaged(at, "relocation outside of its section"));
        }
        all.push(Relocation { offset, kind, symbol, addend: addend.cast_signed(), at });
    }
    Ok(all)
}
