//! Reads fatbins.

use super::entry::feature_of_flags;
use super::{Compression, ENTRY_HEADER_SIZE, EntryKind, FILE_HEADER_SIZE, FatbinEntry, MAGIC, concatenation};
use crate::FormatError;
use crate::arch::GpuArch;
use crate::bytes::{slice, u16_at, u32_at, u64_at, zeros_from};

/// One fatbin: a file header and its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container<'a> {
    /// Where its header starts, in bytes from the start of the data given.
    pub offset: u64,
    /// Its entries in order. For a concatenation there is one for each of its parts.
    pub entries: Vec<FatbinEntry<'a>>,
}

/// Reads the entries of fatbins that lie back to back, with or without zeros between and behind them.
///
/// # Errors
/// Data that is not a fatbin, or one that extends beyond it; offsets are relative to `data`.
pub fn read(data: &[u8]) -> Result<Vec<FatbinEntry<'_>>, FormatError> {
    let containers = read_containers(data)?;
    Ok(containers.into_iter().flat_map(|container| container.entries).collect())
}

/// The same by fatbin: the driver chooses among the entries of one.
///
/// # Errors
/// Those of [`read`].
pub fn read_containers(data: &[u8]) -> Result<Vec<Container<'_>>, FormatError> {
    let mut containers = Vec::new();
    let mut at = zeros_from(data, 0);
    while at < data.len() as u64 {
        let (container, end) = read_container(data, at)?;
        containers.push(container);
        at = end + zeros_from(data, end);
    }
    Ok(containers)
}

/// The entries of the container at `start`, whatever follows it.
///
/// # Errors
/// Those of [`read`].
pub(crate) fn entries_at(data: &[u8], start: u64) -> Result<Vec<FatbinEntry<'_>>, FormatError> {
    read_container(data, start).map(|(container, _)| container.entries)
}

/// The bytes of the container at `start`.
///
/// # Errors
/// Those of [`read`].
pub(crate) fn container_at(data: &[u8], start: u64) -> Result<&[u8], FormatError> {
    let (_, end) = read_container(data, start)?;
    slice(data, start, end.saturating_sub(start), "the fatbin")
}

/// The container at `start`, and where it ends.
fn read_container(data: &[u8], start: u64) -> Result<(Container<'_>, u64), FormatError> {
    let header = slice(data, start, FILE_HEADER_SIZE, "the header of the fatbin")?;
    if !header.starts_with(&MAGIC) {
        return Err(FormatError::wrong_format(start, "no fatbin (wrong magic)"));
    }
    let header_size = u64::from(u16_at(header, 6, "header size")?);
    if header_size < FILE_HEADER_SIZE {
        return Err(FormatError::damaged(start + 6, format!("fatbin with a header of {header_size} bytes")));
    }
    let size = u64_at(header, 8, "size")?;
    let first = start.saturating_add(header_size);
    let contents = slice(data, first, size, "the body of the fatbin")?;
    let mut entries = Vec::new();
    let mut at = 0;
    while at < size {
        let (entry, entry_size) = read_entry(contents, at, first).map_err(|e| e.shifted(first))?;
        if entry.kind == concatenation::KIND {
            entries.extend(concatenation::parts(&entry)?);
        } else {
            entries.push(entry);
        }
        at += entry_size;
    }
    Ok((Container { offset: start, entries }, first + size))
}

/// The entry at `at`, and its size; errors are relative to `contents`, which start at `first` of the data given.
fn read_entry(contents: &[u8], at: u64, first: u64) -> Result<(FatbinEntry<'_>, u64), FormatError> {
    let fixed = slice(contents, at, ENTRY_HEADER_SIZE, "the header of the fatbin entry")?;
    let header_size = u64::from(u32_at(fixed, 4, "header size")?);
    if header_size < ENTRY_HEADER_SIZE {
        let what = format!("fatbin entry with a header of {header_size} bytes");
        return Err(FormatError::damaged(at + 4, what));
    }
    let header = slice(contents, at, header_size, "the header of the fatbin entry")?;
    let padded_size = u64_at(fixed, 8, "payload size")?;
    let payload_at = at.saturating_add(header_size);
    let padded = slice(contents, payload_at, padded_size, "the payload of the fatbin entry")?;
    let entry = entry(header, padded, first.saturating_add(at)).map_err(|e| e.shifted(at))?;
    Ok((entry, header_size + padded_size))
}

/// The entry of a header with its tail and a payload, which starts at `offset`; errors are relative to the header.
pub(super) fn entry<'a>(header: &'a [u8], payload: &'a [u8], offset: u64) -> Result<FatbinEntry<'a>, FormatError> {
    let header_size = header.len() as u64;
    let flags = u64_at(header, 0x28, "flags")?;
    let kind = EntryKind::from_code(u16_at(header, 0, "kind")?);
    let compression = Compression::from_flags(flags);
    let exact_size = match (compression, u32_at(header, 0x10, "compressed size")?) {
        (Compression::None, _) => payload.len() as u64,
        (_, size) => u64::from(size),
    };
    let block = option_block(header, kind)?;
    let is_cubin = kind == EntryKind::Elf;
    Ok(FatbinEntry {
        kind,
        arch: GpuArch { number: u32_at(header, 0x1c, "architecture")?, feature: feature_of_flags(flags) },
        code_version: (u16_at(header, 0x1a, "version")?, u16_at(header, 0x18, "version")?),
        flags,
        identifier: identifier(header)?,
        options: block.filter(|_| !is_cubin),
        compat: block.filter(|_| is_cubin),
        compression,
        stored: slice(payload, 0, exact_size, "the compressed payload").map_err(|e| e.shifted(header_size))?,
        uncompressed_size: u64_at(header, 0x38, "uncompressed size")?,
        header,
        offset,
        payload_offset: offset.saturating_add(header_size),
        part: None,
    })
}

fn identifier(header: &[u8]) -> Result<Option<&[u8]>, FormatError> {
    let offset = u64::from(u32_at(header, 0x20, "name offset")?);
    let len = u64::from(u32_at(header, 0x24, "name length")?);
    if offset == 0 {
        return Ok(None);
    }
    slice(header, offset, len, "the name of the fatbin entry").map(Some)
}

/// The text of the option block: {u32 offset, u32 length}, and for cubins a zero byte in front of it.
fn option_block(header: &[u8], kind: EntryKind) -> Result<Option<&[u8]>, FormatError> {
    // That of a concatenation holds the headers of its parts.
    if kind == concatenation::KIND {
        return Ok(None);
    }
    let block = u64::from(u32_at(header, 0x14, "option offset")?);
    if block == 0 {
        return Ok(None);
    }
    let offset = u64::from(u32_at(header, block, "the option block")?);
    let len = u64::from(u32_at(header, block + 4, "the option block")?);
    let skipped = u64::from(kind == EntryKind::Elf);
    slice(header, offset + skipped, len, "the option text of the fatbin entry").map(Some)
}
