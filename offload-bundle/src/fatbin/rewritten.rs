//! Rewrites a fatbin in its file with other entries.

use super::{Container, container_at};
use crate::FormatError;
use crate::bytes::{put, slice, u16_at};
use crate::elf_edit::{Replacement, ReplacementPart};

/// What becomes of an entry.
pub(crate) enum EntryEdit {
    /// It stays byte for byte.
    Keep,
    /// It goes.
    Drop,
    /// These bytes, its header among them, take its place.
    Replace(Vec<u8>),
}

impl EntryEdit {
    pub(crate) fn drop_if(goes: bool) -> Self {
        if goes { EntryEdit::Drop } else { EntryEdit::Keep }
    }
}

/// The edit of one fatbin, with what becomes of each of its entries. `data` starts at `base` of the file.
///
/// # Errors
/// A container that is not in the data.
pub(crate) fn rewritten(
    data: &[u8],
    base: u64,
    container: &Container<'_>,
    entries: impl Iterator<Item = EntryEdit>,
) -> Result<Replacement, FormatError> {
    let bytes = container_at(data, container.offset)?;
    let len = bytes.len() as u64;
    let header_size = u64::from(u16_at(bytes, 6, "header size")?);
    let mut header = slice(bytes, 0, header_size, "the header of the fatbin")?.to_vec();
    let place = |offset: u64| base.saturating_add(offset);
    let starts = container.entries.iter().map(|entry| entry.offset);
    let ends = starts.clone().skip(1).chain([container.offset.saturating_add(len)]);
    let parts = starts.zip(ends).zip(entries).filter_map(|((start, end), edit)| match edit {
        EntryEdit::Keep => Some(ReplacementPart::Range(place(start), place(end))),
        EntryEdit::Drop => None,
        EntryEdit::Replace(bytes) => Some(ReplacementPart::Bytes(bytes)),
    });
    let mut edit = Replacement { offset: place(container.offset), len, parts: parts.collect() };
    put(&mut header, 8, &edit.size().to_le_bytes());
    edit.parts.insert(0, ReplacementPart::Bytes(header));
    Ok(edit)
}
