//! Stores the payload of an entry in another form.

use std::borrow::Cow;

use super::encode::WrittenEntry;
use super::entry::Compression;
use super::{EntryKind, FatbinEntry, flag};
use crate::FormatError;
use crate::bytes::put;
use crate::compression::{self, CompressionError, decompress};
use crate::cubin;

/// The flags of all methods.
pub(super) const METHODS: u64 = flag::ZLIB | flag::LZ4 | flag::LZ4_FRAME | flag::ZSTD;

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

impl StoreMode {
    /// The mode for payloads that are stored in a way, or for what is left of them.
    pub(super) fn of(compression: Compression) -> Self {
        match compression {
            Compression::None => StoreMode::None,
            Compression::Lz4 | Compression::Lz4Frame => StoreMode::Speed,
            Compression::Zlib | Compression::Zstd => StoreMode::Balance,
        }
    }
}

/// The entry with its payload stored in this mode, padded; `None` if that changes nothing, or if it cannot be done: LTO-IR that NVIDIA
/// scrambled, and kinds that are unknown here. A part of a concatenation gets an entry of its own.
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
    let (stored, bit) = packed(&whole, mode).map_err(failed)?;
    let is_no_gain = entry.compression != Compression::None && stored.len() >= entry.stored.len();
    if entry.part.is_none() && (mode == StoreMode::Size && is_no_gain || *stored == *entry.stored) {
        return Ok(None);
    }
    written(entry, &whole, &stored, bit).map(|entry| Some(entry.to_bytes()))
}

/// The entry with its own payload: a part of a concatenation gets an entry of its own, compressed as that is.
///
/// # Errors
/// Those of [`restored`].
pub(super) fn alone<'a>(entry: &FatbinEntry<'a>) -> Result<WrittenEntry<'a>, FormatError> {
    if entry.part.is_none() {
        return Ok(WrittenEntry { header: entry.header.to_vec(), payload: Cow::Borrowed(entry.stored) });
    }
    let failed = |error: CompressionError| FormatError::new(entry.payload_offset, error);
    let whole = original(entry).map_err(failed)?;
    let (stored, bit) = packed(&whole, StoreMode::of(entry.compression)).map_err(failed)?;
    let WrittenEntry { header, payload } = written(entry, &whole, &stored, bit)?;
    Ok(WrittenEntry { header, payload: Cow::Owned(payload.into_owned()) })
}

/// The entry with this payload, which is stored by the method of this flag.
fn written<'s>(
    entry: &FatbinEntry<'_>,
    whole: &[u8],
    stored: &'s [u8],
    method: u64,
) -> Result<WrittenEntry<'s>, FormatError> {
    let small = |size: usize| {
        let too_large = || FormatError::unsupported(entry.offset, "compressed payload of more than 4 GiB");
        u32::try_from(size).map_err(|_| too_large())
    };
    let (compressed, uncompressed) = if method == 0 { (0, 0) } else { (small(stored.len())?, whole.len() as u64) };
    let mut header = entry.header.to_vec();
    // That of a part has the place of its image there.
    let header_size = small(header.len())?;
    put(&mut header, 0x04, &header_size.to_le_bytes());
    put(&mut header, 0x08, &(stored.len() as u64).next_multiple_of(8).to_le_bytes());
    put(&mut header, 0x10, &compressed.to_le_bytes());
    put(&mut header, 0x28, &(entry.flags & !METHODS | method).to_le_bytes());
    put(&mut header, 0x38, &uncompressed.to_le_bytes());
    Ok(WrittenEntry { header, payload: Cow::Borrowed(stored) })
}

/// The payload in the form of a mode, and the flag of its method.
pub(super) fn packed(whole: &[u8], mode: StoreMode) -> Result<(Cow<'_, [u8]>, u64), CompressionError> {
    Ok(match mode {
        StoreMode::None => (Cow::Borrowed(whole), 0),
        StoreMode::Speed => (Cow::Owned(compression::lz4(whole)), flag::LZ4),
        StoreMode::Balance => (Cow::Owned(compression::zstd(whole, 5)?), flag::ZSTD),
        StoreMode::Size => (Cow::Owned(compression::zstd(whole, 19)?), flag::ZSTD),
    })
}

/// Whether the method alone tells that the entry is in this mode. A part of a concatenation never is: it gets an entry of its own.
fn is_stored_so(entry: &FatbinEntry<'_>, mode: StoreMode) -> bool {
    match mode {
        _ if entry.part.is_some() => false,
        StoreMode::None => entry.compression == Compression::None,
        StoreMode::Speed => entry.compression == Compression::Lz4,
        StoreMode::Balance | StoreMode::Size => false,
    }
}

/// The payload as it was before it was stored: PTX with its final NUL, a cubin without the container's padding.
pub(super) fn original(entry: &FatbinEntry<'_>) -> Result<Vec<u8>, CompressionError> {
    let padded = match (entry.compression.method(), &entry.part) {
        (_, Some(part)) => part.image(entry.stored, entry.compression)?,
        (None, None) => Cow::Borrowed(entry.stored),
        (Some(method), None) => return decompress(method, entry.stored, entry.uncompressed_size),
    };
    let size = match entry.kind {
        EntryKind::Elf => cubin::exact_size(&padded),
        EntryKind::Ptx | EntryKind::RelocatablePtx => {
            padded.iter().position(|byte| *byte == 0).map_or(padded.len(), |nul| nul + 1)
        }
        _ => padded.len(),
    };
    Ok(padded.get(..size).unwrap_or(&padded).to_vec())
}
