//! One entry of a fatbin.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::flag;
use super::recompress::METHODS;
use crate::FormatError;
use crate::arch::{ArchFeature, GpuArch};
use crate::compression::{self, CompressionError, Method, decompress};

/// What an entry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// PTX text.
    Ptx,
    /// A cubin.
    Elf,
    /// A cubin of the time before ELF.
    OldElf,
    /// NVVM IR for link-time optimization.
    LtoIr,
    /// An index of a library.
    Index,
    /// PTX to be linked, with its host references.
    RelocatablePtx,
    /// Tile IR.
    TileIr,
    /// A kind that this crate does not know.
    Unknown(u16),
}

impl EntryKind {
    const CODES: [(u16, EntryKind); 7] = [
        (1, EntryKind::Ptx),
        (2, EntryKind::Elf),
        (4, EntryKind::OldElf),
        (8, EntryKind::LtoIr),
        (0x20, EntryKind::Index),
        (0x40, EntryKind::RelocatablePtx),
        (0x80, EntryKind::TileIr),
    ];

    pub(super) fn from_code(code: u16) -> Self {
        let known = Self::CODES.iter().find(|(known, _)| *known == code);
        known.map_or(EntryKind::Unknown(code), |(_, kind)| *kind)
    }

    /// Whether it may hold machine code or other code that a GPU runs, and this crate cannot read it.
    pub fn is_unread_code(self) -> bool {
        matches!(self, EntryKind::TileIr | EntryKind::Unknown(_))
    }

    pub(super) fn code(self) -> u16 {
        if let EntryKind::Unknown(code) = self {
            return code;
        }
        let known = Self::CODES.iter().find(|(_, kind)| *kind == self);
        known.map_or(0, |(code, _)| *code)
    }
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            EntryKind::Ptx => "ptx",
            EntryKind::Elf => "cubin",
            EntryKind::OldElf => "old cubin",
            EntryKind::LtoIr => "ltoir",
            EntryKind::Index => "index",
            EntryKind::RelocatablePtx => "relocatable ptx",
            EntryKind::TileIr => "tile ir",
            EntryKind::Unknown(code) => return write!(f, "kind {code:#x}"),
        };
        f.pad(name)
    }
}

/// How a payload is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    None,
    /// A zlib stream.
    Zlib,
    /// A bare LZ4 block.
    Lz4,
    /// An LZ4 frame.
    Lz4Frame,
    /// A Zstandard frame.
    Zstd,
}

impl Compression {
    const FLAGS: [(u64, Compression); 4] = [
        (flag::ZLIB, Compression::Zlib),
        (flag::LZ4, Compression::Lz4),
        (flag::LZ4_FRAME, Compression::Lz4Frame),
        (flag::ZSTD, Compression::Zstd),
    ];

    pub(super) fn method(self) -> Option<Method> {
        match self {
            Compression::None => None,
            Compression::Zlib => Some(Method::Zlib),
            Compression::Lz4 => Some(Method::Lz4),
            Compression::Lz4Frame => Some(Method::Lz4Frame),
            Compression::Zstd => Some(Method::Zstd),
        }
    }

    pub(super) fn from_flags(flags: u64) -> Self {
        let set = Self::FLAGS.iter().find(|(bit, _)| flags & bit != 0);
        set.map_or(Compression::None, |(_, compression)| *compression)
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Compression::None => "none",
            Compression::Zlib => "zlib",
            Compression::Lz4 => "lz4",
            Compression::Lz4Frame => "lz4 frame",
            Compression::Zstd => "zstd",
        })
    }
}

/// The place of an image in a concatenation: an entry whose images are compressed as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part<'a> {
    /// Where the image is in the payload once that is decompressed, in bytes.
    pub range: Range<u64>,
    /// The size in bytes of that payload.
    pub whole: u64,
    /// Where the header of the concatenation starts, in bytes from the start of the data given.
    pub concatenation: u64,
    /// The first 64 bytes of that header.
    pub(super) header: &'a [u8],
}

/// One image of a fatbin, borrowed from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FatbinEntry<'a> {
    /// Its contents.
    pub kind: EntryKind,
    /// The architecture, with the suffix that the flags record.
    pub arch: GpuArch,
    /// Major and minor version: the `.version` of PTX, the ABI of a cubin (1 and `EI_ABIVERSION`), the version of LTO-IR.
    pub code_version: (u16, u16),
    /// The raw flags.
    pub flags: u64,
    /// The name of the source file, as recorded; not necessarily UTF-8.
    pub identifier: Option<&'a [u8]>,
    /// The compiler options for PTX or LTO-IR, as recorded; `None` for cubins.
    pub options: Option<&'a [u8]>,
    /// A copy of `.nv.compat`, for cubins that the driver may finalize.
    pub compat: Option<&'a [u8]>,
    /// How `stored` is compressed.
    pub compression: Compression,
    /// The payload as stored: exact if it is compressed, else with up to 7 zeros of padding. Of a part of a concatenation the payload of
    /// all its parts.
    pub stored: &'a [u8],
    /// Size in bytes before compression; 0 if the payload is not compressed.
    pub uncompressed_size: u64,
    /// The raw header with its tail.
    pub header: &'a [u8],
    /// Where the entry's header starts, in bytes from the start of the data given.
    pub offset: u64,
    /// Where `stored` starts, in bytes from the start of the data given. Of a part of a concatenation, which has no place of its own in
    /// there, where its header starts.
    pub payload_offset: u64,
    /// Its place among the images that it shares a payload with, if it does.
    pub part: Option<Part<'a>>,
}

impl<'a> FatbinEntry<'a> {
    /// The payload, decompressed.
    ///
    /// PTX comes without its final NUL. An uncompressed cubin may have up to 7 zeros behind it, as its size is not recorded.
    ///
    /// # Errors
    /// A damaged payload, one that is not as long as recorded, or scrambled LTO-IR. Offsets are those of [`FatbinEntry::offset`].
    pub fn payload(&self) -> Result<Cow<'a, [u8]>, FormatError> {
        if self.flags & flag::SCRAMBLED != 0 && self.compression != Compression::None {
            let what = "LTO-IR that NVIDIA's writer scrambled after compressing it cannot be read";
            return Err(FormatError::unsupported(self.payload_offset, what));
        }
        let failed = |error| FormatError::new(self.payload_offset, error);
        let payload = match (self.compression.method(), &self.part) {
            (_, Some(part)) => part.image(self.stored, self.compression).map_err(failed)?,
            (None, None) => Cow::Borrowed(self.stored),
            (Some(how), None) => {
                decompress(how, self.stored, self.uncompressed_size).map(Cow::Owned).map_err(failed)?
            }
        };
        Ok(match self.kind {
            EntryKind::Ptx | EntryKind::RelocatablePtx => without_nul(payload),
            _ => payload,
        })
    }

    /// The first bytes of the payload, at most `len`. Decompresses no more than necessary.
    ///
    /// # Errors
    /// Those of [`FatbinEntry::payload`], as far as they show there.
    pub(crate) fn payload_start(&self, len: usize) -> Result<Cow<'a, [u8]>, FormatError> {
        let failed = |error| FormatError::new(self.payload_offset, error);
        match (self.compression.method(), &self.part) {
            (_, Some(part)) => {
                let end = part.range.end.min(part.range.start.saturating_add(len as u64));
                part.of(self.stored, self.compression, part.range.start..end).map_err(failed)
            }
            (None, None) => Ok(Cow::Borrowed(self.stored.get(..len).unwrap_or(self.stored))),
            (Some(how), None) => compression::start(how, self.stored, len).map(Cow::Owned).map_err(failed),
        }
    }

    /// The bytes that the image takes as stored. Those of a concatenation share its payload in proportion to their size; the sum over all
    /// parts is the payload.
    pub fn stored_size(&self) -> u64 {
        let all = self.stored.len() as u64;
        let Some(part) = &self.part else { return all };
        let share = |end: u64| u128::from(all) * u128::from(end) / u128::from(part.whole.max(1));
        u64::try_from(share(part.range.end).saturating_sub(share(part.range.start))).unwrap_or(all)
    }

    /// The flags, apart from those that say how it is stored.
    pub(crate) fn flags_but_compression(&self) -> u64 {
        self.flags & !METHODS
    }

    /// Whether it was made with `-g`.
    pub fn is_debug(&self) -> bool {
        self.flags & flag::DEBUG != 0
    }

    /// Whether it is for a 64-bit host.
    pub fn is_64_bit(&self) -> bool {
        self.flags & flag::BITS_64 != 0
    }
}

impl Part<'_> {
    /// The image, with up to 7 zeros of padding.
    pub(super) fn image<'a>(&self, stored: &'a [u8], how: Compression) -> Result<Cow<'a, [u8]>, CompressionError> {
        self.of(stored, how, self.range.clone())
    }

    /// Bytes of the whole payload.
    fn of<'a>(&self, stored: &'a [u8], how: Compression, range: Range<u64>) -> Result<Cow<'a, [u8]>, CompressionError> {
        match how.method() {
            Some(how) => compression::part(how, stored, self.whole, range).map(Cow::Owned),
            None => {
                let place = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
                let bytes = place.and_then(|(start, end)| stored.get(start..end));
                bytes.map(Cow::Borrowed).ok_or(CompressionError::TooLarge)
            }
        }
    }
}

/// The architecture's suffix in the flags.
pub(super) fn feature_of_flags(flags: u64) -> ArchFeature {
    match (flags & flag::ACCELERATED != 0, flags & flag::FAMILY != 0) {
        (true, _) => ArchFeature::Accelerated,
        (_, true) => ArchFeature::Family,
        _ => ArchFeature::Plain,
    }
}

fn without_nul(text: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let end = memchr::memchr(0, &text).unwrap_or(text.len());
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(..end).unwrap_or(text)),
        Cow::Owned(mut text) => {
            text.truncate(end);
            Cow::Owned(text)
        }
    }
}
