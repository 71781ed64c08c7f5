//! Versions 2 and 3 of the format: many images in one blob, and compression of everything behind the header.
//!
//! LLVM 22 reads neither. Version 2 came with LLVM 23, version 3 with LLVM 24; what it writes is compared with the code that describes it,
//! as no tool at hand makes such files.

use std::borrow::Cow;

use super::{
    Blob, ENTRY_SIZE, HEADER_SIZE, ImageToWrite, MAGIC, StringTable, header_size, string_pair_size, zeros_from,
};
use crate::FormatError;
use crate::bytes::{pad_to_8, slice, u64_at};
use crate::compression;

/// What [`write_all`] makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// One blob of version 1 for each image, which LLVM 14 and later read.
    Version1,
    /// One blob of version 2.
    Version2,
    /// One blob of version 3.
    Version3(Packing),
}

/// How a blob of version 3 is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Packing {
    /// Not at all.
    Plain,
    /// As a Zstandard frame, of this level.
    Zstd(i32),
    /// As a zlib stream, of this level from 0 to 9.
    Zlib(u8),
}

/// Writes all images. The result is a multiple of 8 bytes long; of no images it is empty.
///
/// # Errors
/// A failing compressor.
pub fn write_all(images: &[ImageToWrite<'_>], form: Form) -> Result<Vec<u8>, FormatError> {
    if images.is_empty() {
        return Ok(Vec::new());
    }
    match form {
        Form::Version1 => Ok(images.iter().flat_map(super::write).collect()),
        Form::Version2 => Ok(blob(images, 2)),
        Form::Version3(Packing::Plain) => Ok(blob(images, 3)),
        Form::Version3(packing) => packed(&blob(images, 3), packing),
    }
}

/// One blob of these images, of which version 1 has one.
pub(super) fn blob(images: &[ImageToWrite<'_>], version: u32) -> Vec<u8> {
    let entries_at = header_size(version);
    let strings_at = entries_at + ENTRY_SIZE * images.len() as u64;
    let string_count: usize = images.iter().map(|image| image.strings.len()).sum();
    let pair_size = string_pair_size(version);
    let table_at = strings_at + pair_size * string_count as u64;
    let texts = images.iter().flat_map(|image| &image.strings).flat_map(|(key, value)| [*key, *value]);
    let table = StringTable::new(texts.collect());
    let images_at = (table_at + table.bytes.len() as u64).next_multiple_of(8);
    let images_size: u64 = images.iter().map(|image| image.image.len() as u64).sum();
    let size = (images_at + images_size).next_multiple_of(8);

    let mut out = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&version.to_le_bytes());
    // Version 1 records the size of its entry in place of their number.
    put(&mut out, &[size, entries_at, if version == 1 { ENTRY_SIZE } else { images.len() as u64 }]);
    if version >= 3 {
        put(&mut out, &[0]);
    }
    let (mut string_at, mut image_at) = (strings_at, images_at);
    for image in images {
        out.extend_from_slice(&image.image_kind.code().to_le_bytes());
        out.extend_from_slice(&image.offload_kinds.0.to_le_bytes());
        out.extend_from_slice(&image.flags.to_le_bytes());
        put(&mut out, &[string_at, image.strings.len() as u64, image_at, image.image.len() as u64]);
        string_at += pair_size * image.strings.len() as u64;
        image_at += image.image.len() as u64;
    }
    for (key, value) in images.iter().flat_map(|image| &image.strings) {
        let [key_at, value_at] = [key, value].map(|text| table_at + table.offset_of(text));
        put(&mut out, &[key_at, value_at]);
        if version >= 2 {
            put(&mut out, &[value.len() as u64]);
        }
    }
    out.extend_from_slice(&table.bytes);
    pad_to_8(&mut out);
    images.iter().for_each(|image| out.extend_from_slice(image.image));
    pad_to_8(&mut out);
    out
}

fn put(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// The blob with everything behind its header compressed: the header's size is then that of the compressed blob, and its last number the
/// size before.
fn packed(plain: &[u8], packing: Packing) -> Result<Vec<u8>, FormatError> {
    let header = header_size(3) as usize;
    let (head, body) = plain.split_at(header.min(plain.len()));
    let body = match packing {
        Packing::Plain => body.to_vec(),
        Packing::Zstd(level) => compression::zstd(body, level).map_err(|e| FormatError::new(0, e))?,
        Packing::Zlib(level) => compression::zlib(body, level),
    };
    let mut out = head.get(..8).unwrap_or_default().to_vec();
    put(&mut out, &[(header + body.len()) as u64]);
    out.extend_from_slice(head.get(16..32).unwrap_or_default());
    put(&mut out, &[plain.len() as u64]);
    out.extend_from_slice(&body);
    pad_to_8(&mut out);
    Ok(out)
}

/// The bytes that the compressed ones of several offload binaries record as their size before compression.
///
/// # Errors
/// Data that is not an offload binary.
pub(crate) fn inflated_size(data: &[u8]) -> Result<u64, FormatError> {
    let mut size = 0_u64;
    let mut start = zeros_from(data, 0);
    while start < data.len() as u64 {
        let blob = Blob::frame(data, start)?;
        size = size.saturating_add(blob.inflated_size()?);
        let end = start + blob.data.len() as u64;
        start = end + zeros_from(data, end);
    }
    Ok(size)
}

/// Decompresses the compressed ones of several offload binaries, as [`super::read_all`] needs them; borrowed if none is
/// compressed.
///
/// # Errors
/// Data that is not an offload binary, or a damaged compressed one. Offsets are those in `data`.
pub fn inflate(data: &[u8]) -> Result<Cow<'_, [u8]>, FormatError> {
    let mut out: Option<Vec<u8>> = None;
    let mut start = 0;
    loop {
        let skipped = zeros_from(data, start);
        let at = start + skipped;
        if at >= data.len() as u64 {
            return Ok(out.map_or(Cow::Borrowed(data), Cow::Owned));
        }
        let blob = Blob::frame(data, at)?;
        let inflated = blob.inflated_size()?;
        if inflated != 0 {
            let out = out.get_or_insert_with(|| data.get(..at as usize).unwrap_or_default().to_vec());
            out.resize(out.len().next_multiple_of(8), 0);
            out.extend(restored(&blob, inflated).map_err(|e| e.shifted(at))?);
        } else if let Some(out) = &mut out {
            out.resize(out.len().next_multiple_of(8), 0);
            out.extend_from_slice(blob.data);
        }
        start = at + blob.data.len() as u64;
    }
}

/// The blob as it was before it was compressed; errors are relative to it.
fn restored(blob: &Blob<'_>, inflated: u64) -> Result<Vec<u8>, FormatError> {
    let header = header_size(3);
    if blob.entries_offset != header {
        let what = format!("compressed offload binary whose entries start at {:#x}", blob.entries_offset);
        return Err(FormatError::damaged(16, what));
    }
    let stored = slice(blob.data, header, blob.data.len() as u64 - header, "the compressed entries")?;
    let size = inflated.checked_sub(header).ok_or_else(|| {
        FormatError::damaged(HEADER_SIZE, format!("offload binary of {inflated} bytes before compression"))
    })?;
    let how = if stored.starts_with(&compression::ZSTD_MAGIC) {
        compression::Method::Zstd
    } else {
        compression::Method::Zlib
    };
    let body = compression::decompress(how, stored, size).map_err(|e| FormatError::new(header, e))?;
    let mut out = slice(blob.data, 0, 8, "the header")?.to_vec();
    put(&mut out, &[inflated, header, u64_at(blob.data, 24, "entries")?, 0]);
    out.extend_from_slice(&body);
    Ok(out)
}
