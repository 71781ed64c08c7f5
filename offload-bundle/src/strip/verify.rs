//! A last look at the result: what is to stay is there, byte for byte.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::Choice;
use super::edits::range;
use super::headers::Displaced;
use super::tables::{PT_LOAD, SEGMENT_SIZE, Segment, Tables};
use crate::error::{EditError, FileError, FormatError};
use crate::listing::{self, Row};

/// Our own reader must find in `after` the images of `before` that were to stay, and nothing else; returns how many they are.
pub(super) fn images(before: &[u8], after: &[u8], choice: &Choice) -> Result<usize, FileError> {
    let mut expected = contents(before)?;
    expected.retain(|image| !choice.drops(&image.row));
    let found = contents(after).map_err(|error| {
        let member = error.member().map(str::to_owned);
        FileError::Format { member, error: FormatError::new(0, EditError::Unreadable(error.to_string())) }
    })?;
    if let Some(Image { row, .. }) = found.iter().find(|image| choice.drops(&image.row)) {
        let error = EditError::NotStrippable { image: row.image.clone(), target: row.target.clone() };
        return Err(FileError::Format { member: row.member.clone(), error: FormatError::new(0, error) });
    }
    let is_same = |(old, new): (&Image, &Image)| old.row == new.row && old.bytes.is_same(before, &new.bytes, after);
    if found.len() != expected.len() || !expected.iter().zip(&found).all(is_same) {
        return Err(FormatError::new(0, EditError::ImagesLost).into());
    }
    Ok(found.len())
}

/// An image without its place, and its bytes.
struct Image {
    row: Row,
    bytes: Bytes,
}

/// Where the bytes of an image are.
enum Bytes {
    /// In the file.
    In(Range<usize>),
    /// In what a container of the file was decompressed to, by their digest.
    Unpacked(u64),
}

impl Bytes {
    fn of(stored: &[u8], data: &[u8]) -> Self {
        let start = stored.as_ptr().addr().wrapping_sub(data.as_ptr().addr());
        match data.get(start..start.saturating_add(stored.len())) {
            Some(found) if std::ptr::eq(found, stored) => Bytes::In(start..start + stored.len()),
            _ => {
                let mut hasher = DefaultHasher::new();
                stored.hash(&mut hasher);
                Bytes::Unpacked(hasher.finish())
            }
        }
    }

    fn is_same(&self, data: &[u8], other: &Bytes, other_data: &[u8]) -> bool {
        match (self, other) {
            (Bytes::In(range), Bytes::In(other)) => data.get(range.clone()) == other_data.get(other.clone()),
            (Bytes::Unpacked(digest), Bytes::Unpacked(other)) => digest == other,
            (Bytes::In(range), Bytes::Unpacked(digest)) => {
                let mut hasher = DefaultHasher::new();
                data.get(range.clone()).unwrap_or_default().hash(&mut hasher);
                hasher.finish() == *digest
            }
            (Bytes::Unpacked(_), Bytes::In(_)) => other.is_same(other_data, self, data),
        }
    }
}

fn contents(data: &[u8]) -> Result<Vec<Image>, FileError> {
    let mut contents = Vec::new();
    listing::visit(data, crate::archive::reject_thin_members, |found| {
        contents.push(Image { row: Row { offset: 0, ..found.row.clone() }, bytes: Bytes::of(found.stored(), data) });
        Ok(())
    })?;
    Ok(contents)
}

/// Whatever the program had in memory outside of the stretches that were `changed` must be there afterwards, at the same address.
pub(super) fn memory(
    before: &[u8],
    after: &[u8],
    changed: Vec<(u64, u64)>,
    displaced: Option<Displaced>,
) -> Result<(), FormatError> {
    const ELF_HEADER: u64 = 64;
    let (old, new) = (Tables::read(before)?, Tables::read(after)?);
    // What may differ: the headers, and what was changed.
    let mut free = vec![(0, ELF_HEADER), (old.segments_at, old.segments_at + old.segments.len() as u64 * SEGMENT_SIZE)];
    // What was displaced is the same elsewhere, and new program headers stand in its place, as far as its end.
    free.extend(displaced.map(|displaced| (old.segments_at, displaced.to)));
    if let Some(Displaced { from, to, target }) = displaced
        && range(before, from, to) != loaded_at(after, &new.segments, &old.segments, target, to - from)
    {
        return Err(FormatError::new(from, EditError::Layout));
    }
    free.extend(changed);
    free.sort_unstable();
    for segment in old.segments.iter().filter(|segment| segment.kind == PT_LOAD) {
        let end = segment.offset.saturating_add(segment.file_size);
        let mut at = segment.offset;
        for &(from, to) in free.iter().chain([&(end, end)]) {
            let stop = from.clamp(at, end);
            check_stretch(before, segment, at, stop, after, &new.segments)?;
            at = to.clamp(at, end);
        }
    }
    Ok(())
}

/// The bytes `at..stop` of the old file are loaded from the new one, too.
fn check_stretch(
    before: &[u8],
    segment: &Segment,
    at: u64,
    stop: u64,
    after: &[u8],
    segments: &[Segment],
) -> Result<(), FormatError> {
    if at >= stop {
        return Ok(());
    }
    if loaded(after, segments, segment.address_of(at), stop - at) != Some(range(before, at, stop)) {
        return Err(FormatError::new(at, EditError::Layout));
    }
    Ok(())
}

/// The bytes that `file` has in memory at an address.
fn loaded<'a>(file: &'a [u8], segments: &[Segment], address: u64, len: u64) -> Option<&'a [u8]> {
    segments.iter().filter(|segment| segment.kind == PT_LOAD).find_map(|segment| {
        let skipped = address.checked_sub(segment.address)?;
        let offset = segment.offset.checked_add(skipped)?;
        let end = offset.checked_add(len)?;
        segment.holds(offset, end).then(|| range(file, offset, end))
    })
}

/// The same, given where the bytes would be in the file as it was.
fn loaded_at<'a>(file: &'a [u8], segments: &[Segment], old: &[Segment], offset: u64, len: u64) -> &'a [u8] {
    let address = old.iter().find(|segment| segment.holds(offset, offset.saturating_add(len)));
    address.and_then(|segment| loaded(file, segments, segment.address_of(offset), len)).unwrap_or_default()
}
