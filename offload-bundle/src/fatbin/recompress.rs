//! Stores the payload of an entry in another form.

use super::entry::Compression;
use super::{EntryKind, FatbinEntry, flag};
use crate::FormatError;
use crate::bytes::pad_to_8;
use crate::bytes::put;
use crate::compression::{self, CompressionError, decompress};
use crate::cubin;

/// How payloads are to be stored: the modes of `fatbinary`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreMode {
    /// As they are.
    None,
    /// As LZ4 blocks, which every driver reads.
    Speed,
    /// As Zstandard frames of level 5.
    Balance,
    /// As Zstandard frames of level 19.
    Size,
}

/// The entry with its payload stored in this mode, padded; `None` if that changes nothing, or if it cannot be done: LTO-IR that NVIDIA
/// scrambled, and kinds that are unknown here.
///
/// An entry that is compressed already and would not become smaller in the mode `Size` stays as it is.
///
/// # Errors
/// A damaged payload, and one of more than 4 GiB. Offsets are those of the entry.
pub(crate) fn restored(entry: &FatbinEntry<'_>, mode: StoreMode) -> Result<Option<Vec<u8>>, FormatError> {
    let is_known = matches!(entry.kind, EntryKind::Ptx | EntryKind::Elf | EntryKind::LtoIr | EntryKind::RelocatablePtx);
    if !is_known || entry.flags & flag::SCRAMBLED != 0 || is_stored_so(entry, mode) {
        return Ok(None);
    }
    let failed = |error: CompressionError| FormatError::new(entry.payload_offset, error);
    let whole = original(entry).map_err(failed)?;
    let (stored, bit) = match mode {
        StoreMode::None => (whole.clone(), 0),
        StoreMode::Speed => (compression::lz4(&whole), flag::LZ4),
        StoreMode::Balance => (compression::zstd(&whole, 5).map_err(failed)?, flag::ZSTD),
        StoreMode::Size => (compression::zstd(&whole, 19).map_err(failed)?, flag::ZSTD),
    };
    let is_no_gain = entry.compression != Compression::None && stored.len() >= entry.stored.len();
    if mode == StoreMode::Size && is_no_gain || stored == entry.stored {
        return Ok(None);
    }
    let too_large = || FormatError::unsupported(entry.offset, "compressed payload of more than 4 GiB");
    let compressed = if bit == 0 { 0 } else { u32::try_from(stored.len()).map_err(|_| too_large())? };
    let uncompressed = if bit == 0 { 0 } else { whole.len() as u64 };
    let methods = flag::ZLIB | flag::LZ4 | flag::LZ4_FRAME | flag::ZSTD;
    let mut out = entry.header.to_vec();
    put(&mut out, 0x08, &(stored.len() as u64).next_multiple_of(8).to_le_bytes());
    put(&mut out, 0x10, &compressed.to_le_bytes());
    put(&mut out, 0x28, &(entry.flags & !methods | bit).to_le_bytes());
    put(&mut out, 0x38, &uncompressed.to_le_bytes());
    let header = out.len();
    out.extend_from_slice(&stored);
    // The header may be of any size; the payload alone is padded.
    let mut padded = out.split_off(header);
    pad_to_8(&mut padded);
    out.append(&mut padded);
    Ok(Some(out))
}

/// Whether the method alone tells that the entry is in this mode.
fn is_stored_so(entry: &FatbinEntry<'_>, mode: StoreMode) -> bool {
    match mode {
        StoreMode::None => entry.compression == Compression::None,
        StoreMode::Speed => entry.compression == Compression::Lz4,
        StoreMode::Balance | StoreMode::Size => false,
    }
}

/// The payload as it was before it was stored: PTX with its final NUL, a cubin without the container's padding.
fn original(entry: &FatbinEntry<'_>) -> Result<Vec<u8>, CompressionError> {
    let Some(method) = entry.compression.method() else {
        let stored = entry.stored;
        let size = match entry.kind {
            EntryKind::Elf => cubin::exact_size(stored),
            EntryKind::Ptx | EntryKind::RelocatablePtx => {
                stored.iter().position(|byte| *byte == 0).map_or(stored.len(), |nul| nul + 1)
            }
            _ => stored.len(),
        };
        return Ok(stored.get(..size).unwrap_or(stored).to_vec());
    };
    decompress(method, entry.stored, entry.uncompressed_size)
}
