//! Encodes one entry: its header with name and options, and its stored payload.

use std::borrow::Cow;
use std::io;
use std::num::NonZero;

use super::{Compression, ENTRY_HEADER_SIZE, EntryKind, flag, ptx_squeeze};
use crate::FormatError;
use crate::arch::{ArchFeature, GpuArch};
use crate::bytes::{pad_to_8, padding_to_8};
use crate::compression;
use crate::compression::CompressionError;
use crate::cubin::Cubin;
use crate::ltoir;

/// An entry that only needs to be put behind the others.
#[derive(Debug, Clone)]
pub(super) struct WrittenEntry<'a> {
    /// With its tail.
    pub(super) header: Vec<u8>,
    /// Without its padding.
    pub(super) payload: Cow<'a, [u8]>,
}

impl WrittenEntry<'_> {
    /// Header, payload and padding, in bytes.
    pub(super) fn size(&self) -> u64 {
        (self.header.len() as u64).saturating_add((self.payload.len() as u64).next_multiple_of(8))
    }

    /// Header and payload to the start of `out`, which has room for them and zeros behind.
    pub(super) fn copy_to(&self, out: &mut [u8]) {
        let (header, rest) = out.split_at_mut(self.header.len());
        header.copy_from_slice(&self.header);
        rest[..self.payload.len()].copy_from_slice(&self.payload);
    }

    /// Header, payload and padding, in one piece.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        [&self.header, &*self.payload, padding_to_8(self.payload.len())].concat()
    }

    /// Header, payload and padding.
    pub(super) fn write_to(&self, out: &mut impl io::Write) -> io::Result<()> {
        out.write_all(&self.header)?;
        out.write_all(&self.payload)?;
        out.write_all(padding_to_8(self.payload.len()))
    }
}

/// What differs between the kinds of entries.
#[derive(Debug, Clone)]
pub(super) struct Description {
    pub(super) kind: EntryKind,
    pub(super) arch: GpuArch,
    /// Major, minor.
    pub(super) code_version: (u16, u16),
    /// All but those of the suffix and of compression.
    pub(super) flags: u64,
    /// Not written if it is empty.
    pub(super) identifier: Vec<u8>,
    pub(super) block: Block,
}

/// What stands in the option block.
#[derive(Debug, Clone)]
pub(super) enum Block {
    None,
    Options(Vec<u8>),
    Compat(Vec<u8>),
}

impl Description {
    /// That of a cubin, without the flags that all entries of a fatbin share.
    pub(super) fn of_cubin(image: &Cubin<'_>, arch: GpuArch, identifier: &[u8]) -> Self {
        let finalizable = image.finalizable();
        let compat = image.nv_compat().filter(|_| finalizable);
        Self {
            kind: EntryKind::Elf,
            arch,
            code_version: (1, u16::from(image.abi_version())),
            flags: if finalizable { flag::FINALIZABLE } else { 0 },
            identifier: identifier.to_vec(),
            block: compat.map_or(Block::None, |compat| Block::Compat(compat.to_vec())),
        }
    }

    /// That of code with options for a compiler of the driver or of a linker.
    pub(super) fn of_code(
        kind: EntryKind,
        arch: GpuArch,
        version: (u16, u16),
        identifier: &[u8],
        options: &[u8],
    ) -> Self {
        let block = Block::Options(options.to_vec());
        Self { kind, arch, code_version: version, flags: 0, identifier: identifier.to_vec(), block }
    }
}

/// How a payload is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Store {
    /// As it is.
    Plain,
    /// Compressed, even if it becomes larger, as nvFatbin does.
    Packed(Packing),
    /// Compressed if it becomes smaller, else as it is.
    Smaller(Packing),
}

/// How a payload is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// As a Zstandard frame of this level.
    Zstd(i32),
    /// As a Zstandard frame of this level, in pieces by up to that many threads.
    ZstdInPieces(i32, NonZero<u32>),
    /// As an LZ4 block.
    Lz4,
}

/// The size in bytes above which nvFatbin compresses a cubin by default.
pub(super) const LARGEST_PLAIN_CUBIN: usize = 10_000_000;

/// The largest payload in bytes of an LZ4 block: `LZ4_MAX_INPUT_SIZE` of its reference library.
const LARGEST_LZ4_BLOCK: usize = 0x7e00_0000;

/// Why an entry cannot be written.
#[derive(Debug)]
pub(super) enum EncodeError {
    /// The compressor fails.
    Compression(CompressionError),
    /// The header has 32 bits for the size of a compressed payload.
    CompressedSize(usize),
    /// The header has 32 bits for the sizes of names and options.
    TextSize,
}

impl From<EncodeError> for FormatError {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::Compression(error) => FormatError::new(0, error),
            EncodeError::CompressedSize(_) => FormatError::unsupported(0, "compressed payload of more than 4 GiB"),
            EncodeError::TextSize => FormatError::unsupported(0, "name or options of more than 4 GiB"),
        }
    }
}

/// Encodes an entry whose payload needs no change but compression.
pub(super) fn encode<'a>(
    description: &Description,
    payload: Cow<'a, [u8]>,
    store: Store,
) -> Result<WrittenEntry<'a>, EncodeError> {
    let packed = match store {
        Store::Plain => None,
        Store::Packed(packing) => Some(pack(description.kind, &payload, packing)?),
        Store::Smaller(Packing::Lz4) if payload.len() > LARGEST_LZ4_BLOCK => None,
        Store::Smaller(packing) => {
            let packed = pack(description.kind, &payload, packing)?;
            // Padding counts: both forms end at a multiple of 8.
            let is_smaller = packed.0.len().next_multiple_of(8) < payload.len().next_multiple_of(8);
            Some(packed).filter(|(packed, _)| is_smaller && u32::try_from(packed.len()).is_ok())
        }
    };
    let mut flags = description.flags | feature_flags(description.arch.feature);
    let mut sizes = Sizes { padded: 0, compressed: 0, uncompressed: 0 };
    let payload = match packed {
        Some((packed, bit)) => {
            sizes.compressed = u32::try_from(packed.len()).map_err(|_| EncodeError::CompressedSize(packed.len()))?;
            sizes.uncompressed = payload.len() as u64;
            flags |= bit;
            Cow::Owned(packed)
        }
        None => payload,
    };
    sizes.padded = (payload.len() as u64).next_multiple_of(8);
    let header = entry_header(description, flags, &sizes)?;
    Ok(WrittenEntry { header, payload })
}

/// The compressed payload, and the flag of its form.
fn pack(kind: EntryKind, payload: &[u8], packing: Packing) -> Result<(Vec<u8>, u64), EncodeError> {
    let packed = match packing {
        Packing::Lz4 => return Ok((compression::lz4(payload), flag::LZ4)),
        Packing::Zstd(level) if kind == EntryKind::Ptx => compression::zstd_of_text(payload, level),
        Packing::Zstd(level) => compression::zstd(payload, level),
        Packing::ZstdInPieces(level, threads) => compression::zstd_in_pieces(payload, level, threads),
    };
    Ok((packed.map_err(EncodeError::Compression)?, flag::ZSTD))
}

/// Encodes an entry with the stored payload of another fatbin, whose flags record the compression.
pub(super) fn encode_stored<'a>(
    description: &Description,
    stored: Cow<'a, [u8]>,
    compression: Compression,
    uncompressed: u64,
) -> Result<WrittenEntry<'a>, EncodeError> {
    let mut sizes = Sizes { padded: (stored.len() as u64).next_multiple_of(8), compressed: 0, uncompressed: 0 };
    if compression != Compression::None {
        sizes.compressed = u32::try_from(stored.len()).map_err(|_| EncodeError::CompressedSize(stored.len()))?;
        sizes.uncompressed = uncompressed;
    }
    let header = entry_header(description, description.flags, &sizes)?;
    Ok(WrittenEntry { header, payload: stored })
}

/// PTX in its stored form (see [`super::squeeze`]), in place if it is owned.
pub(super) fn squeezed(text: Cow<'_, [u8]>) -> Cow<'static, [u8]> {
    Cow::Owned(match text {
        Cow::Borrowed(text) => ptx_squeeze::squeeze(text),
        Cow::Owned(text) => ptx_squeeze::squeeze_in_place(text),
    })
}

/// Sizes of a payload; the last two are 0 if it is not compressed.
struct Sizes {
    padded: u64,
    compressed: u32,
    uncompressed: u64,
}

/// The header of an entry with its tail: the name, then the option block, each padded to 8.
fn entry_header(description: &Description, flags: u64, sizes: &Sizes) -> Result<Vec<u8>, EncodeError> {
    let mut tail = Vec::new();
    let name_at = if description.identifier.is_empty() { 0 } else { ENTRY_HEADER_SIZE };
    if name_at != 0 {
        tail.extend_from_slice(&description.identifier);
        tail.push(0);
        pad_to_8(&mut tail);
    }
    let block_at = small(ENTRY_HEADER_SIZE + tail.len() as u64)?;
    let has_block = append_block(&mut tail, block_at, &description.block)?;

    let mut header = Vec::with_capacity(64 + tail.len());
    header.extend_from_slice(&description.kind.code().to_le_bytes());
    header.extend_from_slice(&0x0101u16.to_le_bytes());
    header.extend_from_slice(&small(ENTRY_HEADER_SIZE + tail.len() as u64)?.to_le_bytes());
    header.extend_from_slice(&sizes.padded.to_le_bytes());
    header.extend_from_slice(&sizes.compressed.to_le_bytes());
    header.extend_from_slice(&(if has_block { block_at } else { 0 }).to_le_bytes());
    let (major, minor) = description.code_version;
    header.extend_from_slice(&minor.to_le_bytes());
    header.extend_from_slice(&major.to_le_bytes());
    header.extend_from_slice(&description.arch.number.to_le_bytes());
    header.extend_from_slice(&small(name_at)?.to_le_bytes());
    header.extend_from_slice(&small(description.identifier.len() as u64)?.to_le_bytes());
    for number in [flags, 0, sizes.uncompressed] {
        header.extend_from_slice(&number.to_le_bytes());
    }
    header.extend_from_slice(&tail);
    Ok(header)
}

/// Appends {u32 offset of the text, u32 its length, text, NUL}, or for a cubin a zero in front of the text instead of the NUL.
fn append_block(tail: &mut Vec<u8>, block_at: u32, block: &Block) -> Result<bool, EncodeError> {
    let (text, before, behind): (&[u8], &[u8], &[u8]) = match block {
        Block::None => return Ok(false),
        Block::Options(text) => (text, &[], &[0]),
        Block::Compat(bytes) => (bytes, &[0], &[]),
    };
    let text_at = small(u64::from(block_at) + 8)?;
    tail.extend_from_slice(&text_at.to_le_bytes());
    tail.extend_from_slice(&small(text.len() as u64)?.to_le_bytes());
    tail.extend_from_slice(before);
    tail.extend_from_slice(text);
    tail.extend_from_slice(behind);
    pad_to_8(tail);
    Ok(true)
}

fn small(number: u64) -> Result<u32, EncodeError> {
    u32::try_from(number).map_err(|_| EncodeError::TextSize)
}

fn feature_flags(feature: ArchFeature) -> u64 {
    match feature {
        ArchFeature::Plain => 0,
        ArchFeature::Family => flag::FAMILY,
        ArchFeature::Accelerated => flag::ACCELERATED,
    }
}

/// The version behind the first `.version`, wherever that stands, as nvFatbin reads it: as C strings and numbers go, and of the minor
/// version one digit.
pub(super) fn ptx_version(text: &[u8]) -> Option<(u16, u16)> {
    const DIRECTIVE: &[u8] = b".version";
    let found = memchr::memmem::find(text, DIRECTIVE)?;
    // Text behind a NUL is ignored, and most texts have theirs at the very end. A later NUL ends the number below.
    if memchr::memchr(0, text.get(..found)?).is_some() {
        return None;
    }
    let rest = text.get(found + DIRECTIVE.len()..)?;
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = rest.iter().position(|byte| !is_space(byte))?;
    let rest = rest.get(start..)?;
    let dot = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let digits = std::str::from_utf8(rest.get(..dot)?).ok()?;
    // A number too large for C's `long` is the largest one.
    let major = if digits.is_empty() { 0 } else { digits.parse::<i64>().unwrap_or(i64::MAX) };
    let [b'.', minor, ..] = rest.get(dot..)? else { return None };
    minor.is_ascii_digit().then(|| (major as u16, u16::from(minor - b'0')))
}

/// The version that LTO-IR records behind its magic, as (major, minor).
pub(super) fn ltoir_version(bytes: &[u8]) -> Result<(u16, u16), FormatError> {
    let version = ltoir::version(bytes).ok_or_else(|| match bytes.len() {
        0..6 => FormatError::damaged(0, "LTO-IR of less than 6 bytes"),
        _ => FormatError::wrong_format(0, "no LTO-IR (wrong magic)"),
    })?;
    Ok((version.major.into(), version.minor.into()))
}
