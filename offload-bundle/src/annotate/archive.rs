//! Annotates the members of an archive and corrects its index of symbols.

use std::collections::BTreeMap;

use super::{Annotated, of_file};
use crate::bytes::slice;
use crate::error::{EditError, FormatError};
use crate::host_object::{self, FileKind};

const MAGIC_SIZE: u64 = 8;
const HEADER_SIZE: u64 = 60;
/// The member's size in its header, in decimal digits.
const SIZE_FIELD: std::ops::Range<usize> = 48..58;
/// Names of the index of symbols, with big-endian offsets of 4 and of 8 bytes.
const INDEX: [u8; 16] = *b"/               ";
const INDEX_64: [u8; 16] = *b"/SYM64/         ";
/// Marks a member whose name precedes its data; the length of the name follows.
const BSD_NAME: &[u8] = b"#1/";

/// Returns `None` if no member has device images.
pub(super) fn annotate(archive: &[u8], key: &str, value: &str) -> Result<Option<Annotated>, FormatError> {
    let mut out = slice(archive, 0, MAGIC_SIZE, "the magic")?.to_vec();
    let mut images = 0;
    // Old to new offset of each member's header.
    let mut places = BTreeMap::new();
    let mut indices = Vec::new();
    let mut at = MAGIC_SIZE;
    while at < archive.len() as u64 {
        let header = slice(archive, at, HEADER_SIZE, "the header of an archive member")?;
        let size = decimal(header.get(SIZE_FIELD).unwrap_or_default())
            .ok_or_else(|| FormatError::damaged(at + 48, "an archive member without a size"))?;
        let data = slice(archive, at + HEADER_SIZE, size, "an archive member")?;
        places.insert(at, out.len() as u64);
        let (name, content) = split_name(header, data).map_err(|e| e.shifted(at))?;
        let annotated = match host_object::file_kind(content) {
            FileKind::ElfRelocatable | FileKind::OffloadBinary => {
                of_file(content, key, value).map_err(|e| e.shifted(at + HEADER_SIZE + name.len() as u64))?
            }
            _ => None,
        };
        if let Some(width) = index_width(header) {
            indices.push((out.len() + 60, size, width));
        }
        let new = annotated.as_ref().map_or(content, |annotated| &annotated.bytes);
        images += annotated.as_ref().map_or(0, |annotated| annotated.images);
        append(&mut out, header, name, new);
        at = at.saturating_add(HEADER_SIZE).saturating_add(size).saturating_add(size % 2);
    }
    for (start, size, width) in indices {
        correct(&mut out, start, size, width, &places)?;
    }
    Ok((images > 0).then_some(Annotated { bytes: out, images }))
}

fn append(out: &mut Vec<u8>, header: &[u8], name: &[u8], content: &[u8]) {
    let start = out.len();
    out.extend_from_slice(header);
    let digits = format!("{:<10}", name.len() + content.len());
    if let Some(field) = out.get_mut(start + SIZE_FIELD.start..start + SIZE_FIELD.end) {
        // Ten digits suffice for files that fit into memory.
        field.iter_mut().zip(digits.bytes()).for_each(|(place, digit)| *place = digit);
    }
    out.extend_from_slice(name);
    out.extend_from_slice(content);
    if out.len() % 2 == 1 {
        out.push(b'\n');
    }
}

/// Splits a member into its BSD name, if it has one, and its contents.
fn split_name<'a>(header: &[u8], data: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), FormatError> {
    let Some(digits) = header.get(..16).and_then(|name| name.strip_prefix(BSD_NAME)) else { return Ok((&[], data)) };
    let length = decimal(digits).and_then(|length| usize::try_from(length).ok());
    let (name, content) = length
        .and_then(|length| data.split_at_checked(length))
        .ok_or_else(|| FormatError::damaged(0, "an archive member whose name goes beyond its end"))?;
    if name.starts_with(b"__.SYMDEF") {
        return Err(FormatError::new(0, EditError::BsdIndex));
    }
    Ok((name, content))
}

/// The width of the offsets in the index of symbols that this header belongs to, in bytes.
fn index_width(header: &[u8]) -> Option<usize> {
    match header.first_chunk::<16>() {
        Some(name) if *name == INDEX => Some(4),
        Some(name) if *name == INDEX_64 => Some(8),
        _ => None,
    }
}

/// Sets the offsets of an index to the new offsets of the members.
fn correct(
    out: &mut [u8],
    start: usize,
    size: u64,
    width: usize,
    places: &BTreeMap<u64, u64>,
) -> Result<(), FormatError> {
    let wrong = || FormatError::damaged(start as u64, "an index of symbols that names no members");
    let table =
        usize::try_from(size).ok().and_then(|size| out.get_mut(start..start.checked_add(size)?)).ok_or_else(wrong)?;
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let mut fields = table.chunks_exact_mut(width);
    let count = fields.next().map_or(0, |field| number(field));
    for _ in 0..count {
        let field = fields.next().ok_or_else(wrong)?;
        let new = places.get(&number(field)).ok_or_else(wrong)?;
        let bytes = new.to_be_bytes();
        if width == 4 && *new > u64::from(u32::MAX) {
            return Err(FormatError::new(start as u64, EditError::IndexOverflow));
        }
        field.copy_from_slice(bytes.get(8 - width..).unwrap_or_default());
    }
    Ok(())
}

fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.trim_end().parse().ok()
}
