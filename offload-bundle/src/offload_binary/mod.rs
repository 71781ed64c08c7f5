//! LLVM's offload binary: device images with a few strings that describe them, as clang embeds them in host objects.
//!
//! Layout from LLVM's `llvm/Object/OffloadBinary.h`, versions 1 (LLVM 14 to 22), 2 (23) and 3 (24). All numbers are
//! little endian, all offsets count from the start of the blob:
//!
//! - header: magic `10 FF 10 AD`, u32 version, u64 size of the blob, then in version 1 u64 offset and u64 size of the
//!   one entry, in versions 2 and 3 u64 offset of the entries and u64 number of them; version 3 adds u64 inflated size,
//!   0 if the blob is not compressed;
//! - entry, 40 bytes: u16 image kind, u16 offload kind, u32 flags, u64 offset and u64 number of the string pairs,
//!   u64 offset and u64 size of the image;
//! - string pair: u64 offset of the key, u64 offset of the value, from version 2 on u64 length of the value;
//! - a string table, and the images, each 8-aligned.

use std::fmt;
use std::ops::BitOr;

use crate::FormatError;
use crate::bytes::{c_str, slice, u16_at, u32_at, u64_at, utf8, zeros_from};

mod newer;

pub(crate) use newer::inflated_size;
pub use newer::{Form, Packing, inflate, write_all};

/// The four bytes that an offload binary starts with.
pub const MAGIC: [u8; 4] = crate::file_kind::OFFLOAD_BINARY_MAGIC;

const HEADER_SIZE: u64 = 32;
const ENTRY_SIZE: u64 = 40;
/// The number of HIP in LLVM 14 to 20.
const FORMER_HIP: u16 = 3;
const STRING_PAIR_SIZE_V1: u64 = 16;
const STRING_PAIR_SIZE_V2: u64 = 24;

/// What an image is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ImageKind {
    /// Not recorded.
    None,
    /// An object file of the target.
    Object,
    /// LLVM bitcode.
    Bitcode,
    /// An ELF file for an NVIDIA GPU.
    Cubin,
    /// NVIDIA's container.
    Fatbin,
    /// PTX text.
    Ptx,
    /// A SPIR-V module.
    Spirv,
}

impl ImageKind {
    const ALL: [ImageKind; 7] = [
        ImageKind::None,
        ImageKind::Object,
        ImageKind::Bitcode,
        ImageKind::Cubin,
        ImageKind::Fatbin,
        ImageKind::Ptx,
        ImageKind::Spirv,
    ];

    /// The number in an entry.
    fn code(self) -> u16 {
        self as u16
    }

    fn from_code(code: u16) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Display for ImageKind {
    /// LLVM's short names, which are also the usual file extensions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ImageKind::None => "none",
            ImageKind::Object => "o",
            ImageKind::Bitcode => "bc",
            ImageKind::Cubin => "cubin",
            ImageKind::Fatbin => "fatbin",
            ImageKind::Ptx => "s",
            ImageKind::Spirv => "spv",
        })
    }
}

/// The programming models that an image is for: a bit mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct OffloadKinds(pub u16);

impl OffloadKinds {
    /// OpenMP target offloading.
    pub const OPENMP: OffloadKinds = OffloadKinds(1);
    /// CUDA.
    pub const CUDA: OffloadKinds = OffloadKinds(2);
    /// HIP.
    pub const HIP: OffloadKinds = OffloadKinds(4);
    /// SYCL.
    pub const SYCL: OffloadKinds = OffloadKinds(8);

    const NAMES: [(OffloadKinds, &'static str); 4] =
        [(Self::OPENMP, "openmp"), (Self::CUDA, "cuda"), (Self::HIP, "hip"), (Self::SYCL, "sycl")];

    /// Whether all of `kinds` are in `self`.
    pub fn contains(self, kinds: OffloadKinds) -> bool {
        self.0 & kinds.0 == kinds.0
    }
}

impl BitOr for OffloadKinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        OffloadKinds(self.0 | other.0)
    }
}

impl fmt::Display for OffloadKinds {
    /// `cuda`, `openmp+cuda`; `none` for the empty mask.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::NAMES.iter().filter(|(kind, _)| self.contains(*kind)).map(|(_, name)| (*name).to_owned());
        let rest = self.0 & !0xf;
        let unnamed = (rest != 0).then(|| format!("{rest:#x}"));
        let names: Vec<String> = named.chain(unnamed).collect();
        f.pad(if names.is_empty() { "none".to_owned() } else { names.join("+") }.as_str())
    }
}

/// One device image of an offload binary, borrowed from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffloadImage<'a> {
    /// What the image is made of.
    pub image_kind: ImageKind,
    /// The programming models it is for.
    pub offload_kinds: OffloadKinds,
    /// Flags of the entry; bit 0 (from version 2 on): there is no image, only strings.
    pub flags: u32,
    /// Keys and values in the file's order: `triple`, `arch`, `feature` and whatever else.
    pub strings: Vec<(&'a str, &'a str)>,
    /// The image.
    pub image: &'a [u8],
    /// Where the image starts, in bytes from the start of the data given to [`read_all`].
    pub image_offset: u64,
}

impl<'a> OffloadImage<'a> {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        let pair = self.strings.iter().find(|(name, _)| *name == key);
        pair.map(|(_, value)| *value)
    }

    /// The target triple, empty if there is none.
    pub fn triple(&self) -> &'a str {
        self.get("triple").unwrap_or("")
    }

    /// The architecture, empty if there is none.
    pub fn arch(&self) -> &'a str {
        self.get("arch").unwrap_or("")
    }
}

/// Reads offload binaries that lie back to back, with or without zeros between and behind them.
///
/// # Errors
/// Anything that is not an offload binary of a known version, lies outside the data, or is compressed: see [`inflate`].
/// Offsets are relative to `data`.
pub fn read_all(data: &[u8]) -> Result<Vec<OffloadImage<'_>>, FormatError> {
    let mut images = Vec::new();
    let mut start = 0;
    loop {
        start += zeros_from(data, start);
        if start >= data.len() as u64 {
            return Ok(images);
        }
        let blob = Blob::at(data, start)?;
        blob.read(&mut images).map_err(|e| e.shifted(start))?;
        start += blob.data.len() as u64;
    }
}

fn header_size(version: u32) -> u64 {
    HEADER_SIZE + if version >= 3 { 8 } else { 0 }
}

fn string_pair_size(version: u32) -> u64 {
    if version == 1 { STRING_PAIR_SIZE_V1 } else { STRING_PAIR_SIZE_V2 }
}

/// One offload binary with its header taken apart.
struct Blob<'a> {
    /// Exactly the blob.
    data: &'a [u8],
    /// Where it starts in the data given to the reader.
    start: u64,
    version: u32,
    entries_offset: u64,
    entry_count: u64,
}

impl<'a> Blob<'a> {
    /// The blob at `start`, which must not be compressed.
    fn at(data: &'a [u8], start: u64) -> Result<Self, FormatError> {
        let blob = Self::frame(data, start)?;
        blob.refuse_compressed()?;
        Ok(blob)
    }

    /// The blob at `start`, compressed or not.
    fn frame(data: &'a [u8], start: u64) -> Result<Self, FormatError> {
        let header = slice(data, start, HEADER_SIZE, "the header of the offload binary")?;
        if !header.starts_with(&MAGIC) {
            return Err(FormatError::wrong_format(start, "no offload binary (wrong magic)"));
        }
        let version = u32_at(header, 4, "version")?;
        let size = u64_at(header, 8, "size")?;
        let second = u64_at(header, 24, "entries")?;
        let minimum = header_size(version);
        if !(1..=3).contains(&version) {
            let what = format!("offload binary of unknown version {version}");
            return Err(FormatError::unsupported(start.saturating_add(4), what));
        }
        if size < minimum {
            let what = format!("offload binary with an impossible size of {size} bytes");
            return Err(FormatError::damaged(start.saturating_add(8), what));
        }
        Ok(Blob {
            data: slice(data, start, size, "the offload binary")?,
            start,
            version,
            entries_offset: u64_at(header, 16, "entries")?,
            // Version 1 has one entry and records its size there.
            entry_count: if version == 1 { 1 } else { second },
        })
    }

    /// The size before compression, 0 if it is not compressed.
    fn inflated_size(&self) -> Result<u64, FormatError> {
        match self.version {
            3 => u64_at(self.data, HEADER_SIZE, "inflated size"),
            _ => Ok(0),
        }
    }

    fn refuse_compressed(&self) -> Result<(), FormatError> {
        if self.inflated_size()? == 0 {
            return Ok(());
        }
        let what = "compressed offload binary (version 3), which is not supported";
        Err(FormatError::unsupported(self.start.saturating_add(HEADER_SIZE), what))
    }

    /// Appends the images; errors are relative to the blob.
    fn read(&self, images: &mut Vec<OffloadImage<'a>>) -> Result<(), FormatError> {
        // Entries that share one table of strings could let a small blob allocate very much memory.
        let mut strings_left = self.data.len() as u64 / STRING_PAIR_SIZE_V1;
        for index in 0..self.entry_count {
            let offset =
                index.checked_mul(ENTRY_SIZE).and_then(|at| at.checked_add(self.entries_offset)).unwrap_or(u64::MAX);
            let image = self.read_entry(offset)?;
            strings_left = strings_left
                .checked_sub(image.strings.len() as u64)
                .ok_or_else(|| FormatError::damaged(offset, "offload entries with more strings than fit"))?;
            images.push(image);
        }
        Ok(())
    }

    fn read_entry(&self, offset: u64) -> Result<OffloadImage<'a>, FormatError> {
        let entry = slice(self.data, offset, ENTRY_SIZE, "the offload entry")?;
        let kind = u16_at(entry, 0, "image kind")?;
        let image_kind = ImageKind::from_code(kind)
            .ok_or_else(|| FormatError::unsupported(offset, format!("unknown image kind {kind}")))?;
        let image_offset = u64_at(entry, 24, "image offset")?;
        let image_size = u64_at(entry, 32, "image size")?;
        let image = slice(self.data, image_offset, image_size, "the device image")?;
        let strings = self.read_strings(u64_at(entry, 8, "strings")?, u64_at(entry, 16, "strings")?)?;
        let mut offload_kinds = OffloadKinds(u16_at(entry, 2, "offload kind")?);
        // The number of HIP up to clang 20, when kinds were no mask. Nothing is for AMD's GPUs and CUDA.
        let is_for_amd = || strings.iter().any(|(key, value)| *key == "triple" && value.contains("-amd-"));
        if offload_kinds.0 == FORMER_HIP && is_for_amd() {
            offload_kinds = OffloadKinds::HIP;
        }
        Ok(OffloadImage {
            image_kind,
            offload_kinds,
            flags: u32_at(entry, 4, "flags")?,
            strings,
            image,
            image_offset: image_offset.saturating_add(self.start),
        })
    }

    fn read_strings(&self, offset: u64, count: u64) -> Result<Vec<(&'a str, &'a str)>, FormatError> {
        let pair_size = string_pair_size(self.version);
        // An impossible count fails here, before anything is allocated for it.
        let table_size = count.saturating_mul(pair_size);
        let table = slice(self.data, offset, table_size, "the string table")?;
        let mut strings = Vec::new();
        for pair in (0..count).map(|index| index * pair_size) {
            let key = c_str(self.data, u64_at(table, pair, "key")?, "a key")?;
            let value = u64_at(table, pair + 8, "value")?;
            let value = if self.version == 1 {
                c_str(self.data, value, "a value")?
            } else {
                let len = u64_at(table, pair + 16, "value")?;
                utf8(slice(self.data, value, len, "a value")?, value, "a value")?
            };
            strings.push((key, value));
        }
        Ok(strings)
    }
}

/// An image to [`write()`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageToWrite<'a> {
    /// What the image is made of.
    pub image_kind: ImageKind,
    /// The programming models it is for.
    pub offload_kinds: OffloadKinds,
    /// Flags of the entry.
    pub flags: u32,
    /// Keys and values, written in this order; none may hold a NUL (what follows one would be lost).
    pub strings: Vec<(&'a str, &'a str)>,
    /// The image.
    pub image: &'a [u8],
}

/// Writes one image as an offload binary of version 1, the version that LLVM 14 to 22 read.
///
/// The result is a multiple of 8 bytes long, so that several can be put back to back.
pub fn write(image: &ImageToWrite<'_>) -> Vec<u8> {
    newer::blob(std::slice::from_ref(image), 1)
}

/// NUL-terminated strings; one that ends another shares its bytes, as in the string tables of ELF files.
struct StringTable<'a> {
    bytes: Vec<u8>,
    offsets: Vec<(&'a str, u64)>,
}

impl<'a> StringTable<'a> {
    fn new(mut texts: Vec<&'a str>) -> Self {
        // Backwards and descending, a string comes right behind the longest one that it ends.
        texts.sort_by(|a, b| b.bytes().rev().cmp(a.bytes().rev()));
        texts.dedup();
        // The empty string is the table's first byte.
        texts.retain(|text| !text.is_empty());
        let mut table = StringTable { bytes: vec![0], offsets: Vec::new() };
        let mut previous = "";
        for text in texts {
            if previous.ends_with(text) {
                let offset = table.bytes.len() - 1 - text.len();
                table.offsets.push((text, offset as u64));
                continue;
            }
            table.offsets.push((text, table.bytes.len() as u64));
            table.bytes.extend_from_slice(text.as_bytes());
            table.bytes.push(0);
            previous = text;
        }
        table
    }

    fn offset_of(&self, text: &str) -> u64 {
        let found = self.offsets.iter().find(|(known, _)| *known == text);
        found.map_or(0, |(_, offset)| *offset)
    }
}

#[cfg(test)]
mod tests;
