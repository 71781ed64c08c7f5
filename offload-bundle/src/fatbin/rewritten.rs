//! Rewrites a fatbin in its file with other entries.

use super::{Container, FatbinEntry, StoreMode, concatenation, container_at};
use crate::FormatError;
use crate::bytes::{put, slice, u16_at};
use crate::elf_edit::{Replacement, ReplacementPart};

/// What becomes of an entry.
pub(crate) enum EntryEdit {
    /// It stays byte for byte; as a part of a concatenation that loses others, without them.
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

/// A fatbin in its file.
struct Place<'a, 'c> {
    bytes: &'a [u8],
    /// Where the data that holds it starts in the file.
    base: u64,
    container: &'c Container<'a>,
}

impl<'a, 'c> Place<'a, 'c> {
    fn new(data: &'a [u8], base: u64, container: &'c Container<'a>) -> Result<Self, FormatError> {
        Ok(Self { bytes: container_at(data, container.offset)?, base, container })
    }

    /// The entries as they are stored, those of a concatenation together, each with its stretch of the file.
    fn stored(&self) -> impl Iterator<Item = (&'c [FatbinEntry<'a>], ReplacementPart)> {
        let groups: Vec<_> = self.container.entries.chunk_by(|one, next| start(one) == start(next)).collect();
        let end = self.container.offset.saturating_add(self.bytes.len() as u64);
        let starts: Vec<u64> = groups.iter().filter_map(|group| group.first()).map(start).chain([end]).collect();
        let base = self.base;
        groups.into_iter().enumerate().map(move |(index, group)| {
            let place = |index: usize| base.saturating_add(starts.get(index).copied().unwrap_or(end));
            (group, ReplacementPart::Range(place(index), place(index + 1)))
        })
    }

    /// The edit that leaves these of its contents.
    fn replaced(&self, parts: Vec<ReplacementPart>) -> Result<Replacement, FormatError> {
        let header_size = u64::from(u16_at(self.bytes, 6, "header size")?);
        let mut header = slice(self.bytes, 0, header_size, "the header of the fatbin")?.to_vec();
        let offset = self.base.saturating_add(self.container.offset);
        let mut edit = Replacement { offset, len: self.bytes.len() as u64, parts };
        put(&mut header, 8, &edit.size().to_le_bytes());
        edit.parts.insert(0, ReplacementPart::Bytes(header));
        Ok(edit)
    }
}

/// Where what holds an entry starts: the entry, or the concatenation that it is a part of.
fn start(entry: &FatbinEntry<'_>) -> u64 {
    entry.part.as_ref().map_or(entry.offset, |part| part.concatenation)
}

/// The edit of one fatbin, with what becomes of each of its entries. `data` starts at `base` of the file.
///
/// # Errors
/// A container that is not in the data, and a concatenation that cannot be written without some of its images.
pub(crate) fn rewritten(
    data: &[u8],
    base: u64,
    container: &Container<'_>,
    mut entries: impl Iterator<Item = EntryEdit>,
) -> Result<Replacement, FormatError> {
    let place = Place::new(data, base, container)?;
    let mut parts = Vec::new();
    for (group, stretch) in place.stored() {
        let edits: Vec<EntryEdit> = entries.by_ref().take(group.len()).collect();
        if edits.iter().all(|edit| matches!(edit, EntryEdit::Keep)) {
            parts.push(stretch);
            continue;
        }
        let stays = group.iter().zip(&edits).filter(|(_, edit)| matches!(edit, EntryEdit::Keep));
        let stays: Vec<&FatbinEntry<'_>> = stays.map(|(entry, _)| entry).collect();
        if !stays.is_empty() {
            parts.push(ReplacementPart::Bytes(concatenation::of_parts(&stays)?));
        }
        parts.extend(edits.into_iter().filter_map(|edit| match edit {
            EntryEdit::Replace(bytes) => Some(ReplacementPart::Bytes(bytes)),
            EntryEdit::Keep | EntryEdit::Drop => None,
        }));
    }
    place.replaced(parts)
}

/// The edit of one fatbin that concatenates its images of one kind, if there are `fewest` or more, as `fatbinary --concat` does: the other
/// entries come first. `None` if no images go together, or all that do are concatenated.
///
/// # Errors
/// A container that is not in the data, a damaged payload, and images of more than 4 GiB.
pub(crate) fn concatenated(
    data: &[u8],
    base: u64,
    container: &Container<'_>,
    mode: StoreMode,
    fewest: usize,
) -> Result<Option<Replacement>, FormatError> {
    let place = Place::new(data, base, container)?;
    let groups = concatenation::groups(&container.entries, fewest);
    if groups.iter().all(|group| group.iter().all(|entry| entry.part.is_some())) {
        return Ok(None);
    }
    let is_in_group = |entry: &FatbinEntry<'_>| groups.iter().flatten().any(|other| other.offset == entry.offset);
    let mut parts = Vec::new();
    for (entries, stretch) in place.stored() {
        let left: Vec<&FatbinEntry<'_>> = entries.iter().filter(|entry| !is_in_group(entry)).collect();
        if left.len() == entries.len() {
            parts.push(stretch);
        } else if !left.is_empty() {
            parts.push(ReplacementPart::Bytes(concatenation::of_parts(&left)?));
        }
    }
    for group in &groups {
        parts.push(ReplacementPart::Bytes(concatenation::of_images(group, mode)?));
    }
    place.replaced(parts).map(Some)
}
