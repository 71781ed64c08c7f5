//! Checks the result before the caller gets it: the images that stay are there, byte for byte.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::Choice;
use crate::error::{EditError, FileError, FormatError};
use crate::listing::{self, Row};

/// Compares the images that this crate's readers find in `after` with those of `before` that stay, and returns their number.
pub(super) fn images(before: &[u8], after: &[u8], choice: &Choice, dropped: &[Row]) -> Result<usize, FileError> {
    let mut expected = contents(before)?;
    // Entries that were chosen by their place are told by it.
    let by_place: HashSet<PlaceKey<'_>> = dropped.iter().map(place_key).collect();
    match choice.only {
        Some(_) => expected.retain(|image| !by_place.contains(&place_key(&image.row))),
        None => expected.retain(|image| !choice.drops(&image.row, None)),
    }
    let found = contents(after).map_err(|error| {
        let member = error.member().map(str::to_owned);
        FileError::Format { member, error: FormatError::new(0, EditError::Unreadable(error.to_string())) }
    })?;
    let is_left = |image: &&KeptImage| choice.only.is_none() && choice.drops(&image.row, None);
    if let Some(KeptImage { row, .. }) = found.iter().find(is_left) {
        let error = EditError::NotStrippable { image: row.image.clone(), target: row.target.clone() };
        return Err(FileError::Format { member: row.member.clone(), error: FormatError::new(0, error) });
    }
    let is_same = |(old, new): (&KeptImage, &KeptImage)| {
        old.without_place() == new.without_place() && old.bytes.is_same(before, &new.bytes, after)
    };
    if found.len() != expected.len() || !expected.iter().zip(&found).all(is_same) {
        return Err(FormatError::new(0, EditError::ImagesLost).into());
    }
    Ok(found.len())
}

/// What tells an image of the file from the others.
type PlaceKey<'r> = (&'r Option<String>, &'r Option<String>, u64, &'r str, u64);

fn place_key(row: &Row) -> PlaceKey<'_> {
    (&row.member, &row.section, row.offset, &row.target, row.size)
}

/// An image with its bytes.
struct KeptImage {
    row: Row,
    bytes: Bytes,
    /// Whether it is a part of a concatenation, of which it takes another share when others go.
    is_part: bool,
}

impl KeptImage {
    /// What does not depend on other images.
    fn without_place(&self) -> Row {
        let size = if self.is_part { 0 } else { self.row.size };
        Row { offset: 0, size, ..self.row.clone() }
    }
}

/// Where the bytes of an image are.
enum Bytes {
    /// In the file.
    In(Range<usize>),
    /// In the decompressed form of a container, by their digest.
    Unpacked(u64),
}

impl Bytes {
    fn of(stored: &[u8], data: &[u8]) -> Self {
        let start = stored.as_ptr().addr().wrapping_sub(data.as_ptr().addr());
        match data.get(start..start.saturating_add(stored.len())) {
            Some(found) if std::ptr::eq(found, stored) => Bytes::In(start..start + stored.len()),
            _ => Bytes::Unpacked(digest(stored)),
        }
    }

    fn is_same(&self, data: &[u8], other: &Bytes, other_data: &[u8]) -> bool {
        match (self, other) {
            (Bytes::In(range), Bytes::In(other)) => data.get(range.clone()) == other_data.get(other.clone()),
            (Bytes::Unpacked(digest), Bytes::Unpacked(other)) => digest == other,
            (Bytes::In(range), Bytes::Unpacked(other)) => digest(data.get(range.clone()).unwrap_or_default()) == *other,
            (Bytes::Unpacked(_), Bytes::In(_)) => other.is_same(other_data, self, data),
        }
    }
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn contents(data: &[u8]) -> Result<Vec<KeptImage>, FileError> {
    let mut contents = Vec::new();
    listing::visit(data, crate::archive::reject_thin_members, |found| {
        let is_part = found.is_part();
        let bytes = if is_part { Bytes::Unpacked(digest(&found.payload()?)) } else { Bytes::of(found.stored(), data) };
        contents.push(KeptImage { row: found.row.clone(), bytes, is_part });
        Ok(())
    })?;
    Ok(contents)
}
