//! How to unwind a kernel (`.debug_frame`): records that relocations bind to its code.

use std::collections::BTreeMap;

use super::Copied;
use crate::bytes::{u32_at, u64_at};
use crate::error::FormatError;

/// What copies add.
#[derive(Default)]
pub(super) struct FrameCopies {
    pub frames: Vec<u8>,
    /// By section of relocations.
    pub relocations: BTreeMap<usize, Vec<u8>>,
}

/// A relocation, with the section that has it.
struct Relocation<'r> {
    section: usize,
    offset: u64,
    symbol: u32,
    bytes: &'r [u8],
}

/// Copies the records of kernels, to follow those that are there. They refer to the original's common part. `tables` are the sections with
/// relocations, by number.
///
/// # Errors
/// A damaged section.
pub(super) fn copies(
    frames: &[u8],
    tables: &[(usize, Vec<&[u8]>)],
    copied: &Copied,
) -> Result<FrameCopies, FormatError> {
    let mut relocations = Vec::new();
    for (section, entries) in tables {
        for bytes in entries {
            let (offset, symbol) = (u64_at(bytes, 0, "a relocation")?, u32_at(bytes, 12, "a relocation")?);
            relocations.push(Relocation { section: *section, offset, symbol, bytes });
        }
    }
    relocations.sort_by_key(|relocation| (relocation.offset, relocation.section));
    let mut copies = FrameCopies::default();
    if !relocations.iter().any(|relocation| copied.of(relocation.symbol).next().is_some()) {
        return Ok(copies);
    }
    let mut rest = &relocations[..];
    for (start, end) in records(frames)? {
        let before = rest.partition_point(|relocation| relocation.offset < start);
        let inside = rest.partition_point(|relocation| relocation.offset < end);
        let own = &rest[before.min(inside)..inside];
        rest = &rest[inside..];
        let Some(bound) = own.iter().find(|relocation| copied.of(relocation.symbol).next().is_some()) else { continue };
        for copy in copied.of(bound.symbol) {
            let moved = (frames.len() as u64 + copies.frames.len() as u64).wrapping_sub(start);
            copies.frames.extend_from_slice(&frames[start as usize..end as usize]);
            for relocation in own {
                let bytes = copies.relocations.entry(relocation.section).or_default();
                bytes.extend(relocation.offset.wrapping_add(moved).to_le_bytes());
                bytes.extend_from_slice(&relocation.bytes[8..12]);
                bytes.extend(copy.symbol(relocation.symbol).to_le_bytes());
                bytes.extend_from_slice(&relocation.bytes[16..]);
            }
        }
    }
    Ok(copies)
}

/// Where each record begins and ends.
fn records(frames: &[u8]) -> Result<Vec<(u64, u64)>, FormatError> {
    let what = "a record of .debug_frame";
    let (mut all, mut at, size) = (Vec::new(), 0, frames.len() as u64);
    while at < size {
        let (head, length) = match u32_at(frames, at, what)? {
            u32::MAX => (12, u64_at(frames, at + 4, what)?),
            length => (4, length.into()),
        };
        let end = length.checked_add(head).and_then(|length| at.checked_add(length)).filter(|end| *end <= size);
        let end = end.ok_or_else(|| FormatError::truncated(at, what))?;
        all.push((at, end));
        at = end;
    }
    Ok(all)
}
