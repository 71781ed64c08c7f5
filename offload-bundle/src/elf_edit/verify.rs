//! Checks that an edited program has the same contents in memory as before.

use super::program_headers::Displaced;
use super::replacement::range;
use super::tables::{FILE_HEADER_SIZE, PT_LOAD, SEGMENT_SIZE, Segment, Tables};
use crate::error::{EditError, FormatError};

/// Compares the program's memory before and after the edit: outside of the `changed` stretches every byte must keep its address.
pub(super) fn memory(
    before: &[u8],
    after: &[u8],
    changed: Vec<(u64, u64)>,
    displaced: Option<Displaced>,
) -> Result<(), FormatError> {
    let (old, new) = (Tables::read(before)?, Tables::read(after)?);
    // The headers and the changed stretches may differ.
    let mut free =
        vec![(0, FILE_HEADER_SIZE), (old.segments_at, old.segments_at + old.segments.len() as u64 * SEGMENT_SIZE)];
    // The displaced stretch is compared at its new place; new program headers take its old place.
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

/// Checks that the bytes `at..stop` of the old file are loaded from the new one, too.
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

/// The same, given the offset of the bytes in the original file.
fn loaded_at<'a>(file: &'a [u8], segments: &[Segment], old: &[Segment], offset: u64, len: u64) -> &'a [u8] {
    let address = old.iter().find(|segment| segment.holds(offset, offset.saturating_add(len)));
    address.and_then(|segment| loaded(file, segments, segment.address_of(offset), len)).unwrap_or_default()
}
