//! HIP's bundles: code objects of several GPUs in one container, as `clang-offload-bundler` makes them.
//!
//! Layout from clang's documentation of the bundler: the magic `__CLANG_OFFLOAD_BUNDLE__`, u64 number of entries, then for each entry u64
//! offset of its image from the start of the bundle, u64 size of the image, u64 length of its id, and the id; then the images, each at a
//! multiple of an alignment. All numbers are little endian. The first entry by convention is the host's, without an image. HIP's runtime
//! requires an alignment of 4096.
//!
//! A compressed bundle is a header and the compressed bundle: the magic `CCOB`, u16 version, u16 method (0 zlib, 1 Zstandard), from version
//! 2 on the size of all of it, the size of the bundle, and the first 8 bytes of its MD5. Both sizes have 4 bytes, in version 3 8.

use std::borrow::Cow;
use std::fmt;

use md5::{Digest, Md5};

use crate::FormatError;
use crate::bytes::{slice, u16_at, u32_at, u64_at, utf8, zeros_from};
use crate::compression::{self, Method};

/// The 24 bytes that a bundle starts with.
pub const MAGIC: [u8; 24] = *b"__CLANG_OFFLOAD_BUNDLE__";

/// The four bytes that a compressed bundle starts with.
pub const COMPRESSED_MAGIC: [u8; 4] = *b"CCOB";

/// The alignment of images in bytes that HIP's runtime requires.
pub const HIP_ALIGNMENT: u64 = 4096;

/// An image of a bundle, borrowed from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleEntry<'a> {
    /// What it is for, as the bundle records it.
    pub id: &'a str,
    /// The image; of no bytes for the host.
    pub image: &'a [u8],
    /// Where the image starts, in bytes from the start of the data given.
    pub offset: u64,
}

/// An id taken apart: `hip-amdgcn-amd-amdhsa--gfx90a:xnack+`.
///
/// Displayed in the form that the bundler writes, with all its parts, empty ones too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BundleId<'a> {
    /// `host`, `hip`, `hipv4` or `openmp`.
    pub kind: &'a str,
    /// The instruction set, `amdgcn`.
    pub arch: &'a str,
    /// `amd`.
    pub vendor: &'a str,
    /// `amdhsa`.
    pub os: &'a str,
    /// Mostly empty; `gnu` of the host.
    pub environment: &'a str,
    /// The processor with its features, `gfx90a:xnack+`; empty for the host.
    pub target: &'a str,
}

impl<'a> BundleId<'a> {
    /// Takes apart an id in any of the forms that the versions of the bundler wrote: with an environment, an empty or `unknown` one, or
    /// none in front of the target. `None` for a text of less than four parts.
    ///
    /// ```
    /// use offload_bundle::hip_bundle::BundleId;
    ///
    /// let id = BundleId::parse("hip-amdgcn-amd-amdhsa-gfx90a:xnack+").expect("an id");
    /// assert_eq!(id.target, "gfx90a:xnack+");
    /// assert_eq!(id.to_string(), "hip-amdgcn-amd-amdhsa--gfx90a:xnack+");
    /// ```
    pub fn parse(id: &'a str) -> Option<Self> {
        let mut parts = id.splitn(5, '-');
        let [kind, arch, vendor, os] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let rest = parts.next().unwrap_or_default();
        // A feature that is off ends with a minus, too.
        let (environment, target) =
            if is_processor(rest) { ("", rest) } else { rest.split_once('-').unwrap_or((rest, "")) };
        let environment = if environment == "unknown" { "" } else { environment };
        Some(Self { kind, arch, vendor, os, environment, target })
    }

    /// Whether it is for HIP, in either of its two spellings.
    pub fn is_hip(&self) -> bool {
        matches!(self.kind, "hip" | "hipv4")
    }
}

fn is_processor(text: &str) -> bool {
    ["gfx", "sm_", "amdgcnspirv"].iter().any(|start| text.starts_with(start))
}

impl fmt::Display for BundleId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, arch, vendor, os, environment, target } = self;
        write!(f, "{kind}-{arch}-{vendor}-{os}-{environment}-{target}")
    }
}

/// Whether the data starts as a bundle does, compressed or not.
pub fn is_bundle(data: &[u8]) -> bool {
    data.starts_with(&MAGIC) || data.starts_with(&COMPRESSED_MAGIC)
}

/// Reads bundles that lie one behind another with zeros between them, as in the section `.hip_fatbin`.
///
/// # Errors
/// Data that is not a bundle, a bundle that extends beyond it, and a compressed one: see [`inflate`]. Offsets are those in `data`.
pub fn read_all(data: &[u8]) -> Result<Vec<BundleEntry<'_>>, FormatError> {
    let mut entries = Vec::new();
    let mut start = zeros_from(data, 0);
    while start < data.len() as u64 {
        let end = read_one(data, start, &mut entries)?;
        start = end + zeros_from(data, end);
    }
    Ok(entries)
}

/// Appends the entries of the bundle at `start`, and returns its end.
fn read_one<'a>(data: &'a [u8], start: u64, entries: &mut Vec<BundleEntry<'a>>) -> Result<u64, FormatError> {
    let bundle = slice(data, start, data.len() as u64 - start, "the bundle")?;
    if bundle.starts_with(&COMPRESSED_MAGIC) {
        return Err(FormatError::wrong_format(start, "compressed bundle where a plain one is wanted"));
    }
    let shifted = |error: FormatError| error.shifted(start);
    let mut end = 0;
    for fields in table(bundle).map_err(shifted)? {
        let Fields { id, offset, size, behind } = fields;
        let image = slice(bundle, offset, size, "the image of the entry").map_err(shifted)?;
        entries.push(BundleEntry { id, image, offset: start + offset });
        end = end.max(behind).max(offset + size);
    }
    Ok(start + end.max(TABLE))
}

/// Where the entries start in a bundle.
const TABLE: u64 = MAGIC.len() as u64 + 8;

/// An image as the table of a bundle describes it.
struct Fields<'a> {
    id: &'a str,
    offset: u64,
    size: u64,
    /// Where the next one starts.
    behind: u64,
}

/// Reads the table of the bundle at the start of `bundle`, without checking that the images are there.
fn table(bundle: &[u8]) -> Result<Vec<Fields<'_>>, FormatError> {
    const ENTRY_SIZE: u64 = 24;
    if !bundle.starts_with(&MAGIC) {
        return Err(FormatError::wrong_format(0, "no bundle (wrong magic)"));
    }
    let count = u64_at(bundle, MAGIC.len() as u64, "the number of entries")?;
    let mut at = TABLE;
    let mut found = Vec::new();
    for _ in 0..count {
        // A count that lies ends here, at the end of the data.
        let fixed = slice(bundle, at, ENTRY_SIZE, "the entry of the bundle")?;
        let [offset, size, id_len] = [u64_at(fixed, 0, "")?, u64_at(fixed, 8, "")?, u64_at(fixed, 16, "")?];
        let id = slice(bundle, at + ENTRY_SIZE, id_len, "the id of the entry")?;
        let id = utf8(id, at + ENTRY_SIZE, "the id of the entry")?;
        at += ENTRY_SIZE + id_len;
        found.push(Fields { id, offset, size, behind: at });
    }
    Ok(found)
}

/// The id of an image, and where the bundle that holds it starts.
pub(crate) struct FoundId {
    pub(crate) id: String,
    pub(crate) offset: u64,
}

/// The ids of all images but empty ones, of compressed bundles too, of which only the first bytes are decompressed.
///
/// # Errors
/// Data that is not a bundle, and a bundle that ends too early. Offsets are those in `data`.
pub(crate) fn ids(data: &[u8]) -> Result<Vec<FoundId>, FormatError> {
    let mut found = Vec::new();
    let mut start = zeros_from(data, 0);
    while start < data.len() as u64 {
        let bundle = slice(data, start, data.len() as u64 - start, "the bundle")?;
        let mut add = |table: Vec<Fields<'_>>| {
            let images = table.iter().filter(|fields| fields.size > 0);
            found.extend(images.map(|fields| FoundId { id: fields.id.to_owned(), offset: start }));
        };
        let end = if bundle.starts_with(&COMPRESSED_MAGIC) {
            let packed = Packed::read(bundle).map_err(|error| error.shifted(start))?;
            add(table(&packed.table().map_err(|error| error.shifted(start))?)?);
            start + packed.total
        } else {
            add(table(bundle).map_err(|error| error.shifted(start))?);
            read_one(data, start, &mut Vec::new())?
        };
        start = end + zeros_from(data, end);
    }
    Ok(found)
}

/// Writes a bundle of images, each with its id, in this order. `alignment` is 1 or a power of 2; HIP requires [`HIP_ALIGNMENT`].
pub fn write(entries: &[(&str, &[u8])], alignment: u64) -> Vec<u8> {
    let alignment = alignment.max(1);
    let ids_size: u64 = entries.iter().map(|(id, _)| 24 + id.len() as u64).sum();
    let mut offset = MAGIC.len() as u64 + 8 + ids_size;
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    for (id, image) in entries {
        offset = offset.next_multiple_of(alignment);
        for number in [offset, image.len() as u64, id.len() as u64] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(id.as_bytes());
        offset += image.len() as u64;
    }
    for (_, image) in entries {
        out.resize(out.len().next_multiple_of(usize::try_from(alignment).unwrap_or(1)), 0);
        out.extend_from_slice(image);
    }
    out
}

/// The version of a compressed bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompressedVersion {
    /// Without its own size, so that nothing can follow it.
    V1,
    /// Up to 4 GiB.
    V2,
    /// Of any size; the default of LLVM 22's bundler.
    V3,
}

/// How a bundle is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompressedMethod {
    /// A zlib stream, of this level from 0 to 9.
    Zlib(u8),
    /// A Zstandard frame, of this level; the bundler's is 3.
    Zstd(i32),
}

/// Compresses a bundle.
///
/// # Errors
/// A failing compressor, or a bundle too large for its version.
pub fn compress(bundle: &[u8], version: CompressedVersion, method: CompressedMethod) -> Result<Vec<u8>, FormatError> {
    let (number, packed) = match method {
        CompressedMethod::Zlib(level) => (0u16, compression::zlib(bundle, level)),
        CompressedMethod::Zstd(level) => (1, compression::zstd(bundle, level).map_err(|e| FormatError::new(0, e))?),
    };
    let small = |size: usize| {
        u32::try_from(size)
            .map_err(|_| FormatError::unsupported(0, "bundle of 4 GiB or more: version 3 has room for it"))
    };
    let mut out = COMPRESSED_MAGIC.to_vec();
    out.extend_from_slice(&version.number().to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    let total = version.header_size() as usize + packed.len();
    match version {
        CompressedVersion::V1 => out.extend_from_slice(&small(bundle.len())?.to_le_bytes()),
        CompressedVersion::V2 => {
            out.extend_from_slice(&small(total)?.to_le_bytes());
            out.extend_from_slice(&small(bundle.len())?.to_le_bytes());
        }
        CompressedVersion::V3 => {
            out.extend_from_slice(&(total as u64).to_le_bytes());
            out.extend_from_slice(&(bundle.len() as u64).to_le_bytes());
        }
    }
    out.extend_from_slice(&digest(bundle));
    out.extend_from_slice(&packed);
    Ok(out)
}

/// The first 8 bytes of the MD5.
fn digest(bundle: &[u8]) -> [u8; 8] {
    let digest = Md5::digest(bundle);
    digest.first_chunk().copied().unwrap_or_default()
}

impl CompressedVersion {
    fn number(self) -> u16 {
        match self {
            CompressedVersion::V1 => 1,
            CompressedVersion::V2 => 2,
            CompressedVersion::V3 => 3,
        }
    }

    fn header_size(self) -> u64 {
        match self {
            CompressedVersion::V1 => 20,
            CompressedVersion::V2 => 24,
            CompressedVersion::V3 => 32,
        }
    }
}

/// Decompresses the compressed ones of several bundles, as [`read_all`] needs them; borrowed if none is compressed.
///
/// Each starts at a multiple of [`HIP_ALIGNMENT`] then.
///
/// # Errors
/// Data that is not a bundle, or a damaged compressed one: sizes and the digest must match. Offsets are those in `data`.
pub fn inflate(data: &[u8]) -> Result<Cow<'_, [u8]>, FormatError> {
    let mut pieces: Vec<Cow<'_, [u8]>> = Vec::new();
    let mut has_compressed = false;
    let mut start = zeros_from(data, 0);
    while start < data.len() as u64 {
        let rest = slice(data, start, data.len() as u64 - start, "the bundle")?;
        let end = if rest.starts_with(&COMPRESSED_MAGIC) {
            has_compressed = true;
            let (plain, size) = inflate_one(rest).map_err(|error| error.shifted(start))?;
            pieces.push(Cow::Owned(plain));
            start + size
        } else {
            let end = read_one(data, start, &mut Vec::new())?;
            pieces.push(Cow::Borrowed(slice(data, start, end - start, "the bundle")?));
            end
        };
        start = end + zeros_from(data, end);
    }
    if !has_compressed {
        return Ok(Cow::Borrowed(data));
    }
    let mut out = Vec::new();
    for piece in pieces {
        out.resize(out.len().next_multiple_of(HIP_ALIGNMENT as usize), 0);
        out.extend_from_slice(&piece);
    }
    Ok(Cow::Owned(out))
}

/// The compressed bundle at the start of `data` decompressed, and its own size; errors are relative to it.
fn inflate_one(data: &[u8]) -> Result<(Vec<u8>, u64), FormatError> {
    let Packed { method, stored, stored_at, size, total, digest: recorded } = Packed::read(data)?;
    let plain = compression::decompress(method, stored, size).map_err(|e| FormatError::new(stored_at, e))?;
    if digest(&plain) != recorded {
        let what = "compressed bundle whose content does not have the recorded digest";
        return Err(FormatError::damaged(stored_at - 8, what));
    }
    Ok((plain, total))
}

/// A compressed bundle, by its header.
struct Packed<'a> {
    method: Method,
    stored: &'a [u8],
    /// Where that starts.
    stored_at: u64,
    /// Its size decompressed.
    size: u64,
    /// Its size with the header.
    total: u64,
    digest: &'a [u8],
}

impl<'a> Packed<'a> {
    /// That at the start of `data`; errors are relative to it.
    fn read(data: &'a [u8]) -> Result<Self, FormatError> {
        let what = "the header of the compressed bundle";
        let version = match u16_at(data, 4, what)? {
            1 => CompressedVersion::V1,
            2 => CompressedVersion::V2,
            3 => CompressedVersion::V3,
            version => {
                return Err(FormatError::unsupported(4, format!("compressed bundle of unknown version {version}")));
            }
        };
        let method = match u16_at(data, 6, what)? {
            0 => Method::Zlib,
            1 => Method::Zstd,
            method => {
                return Err(FormatError::unsupported(6, format!("bundle compressed by the unknown method {method}")));
            }
        };
        let (total, size) = match version {
            CompressedVersion::V1 => (data.len() as u64, u64::from(u32_at(data, 8, what)?)),
            CompressedVersion::V2 => (u64::from(u32_at(data, 8, what)?), u64::from(u32_at(data, 12, what)?)),
            CompressedVersion::V3 => (u64_at(data, 8, what)?, u64_at(data, 16, what)?),
        };
        let header = version.header_size();
        let digest = slice(data, header - 8, 8, what)?;
        let stored =
            total.checked_sub(header).ok_or_else(|| FormatError::damaged(8, "compressed bundle without a body"))?;
        let stored = slice(data, header, stored, "the compressed bundle")?;
        Ok(Self { method, stored, stored_at: header, size, total, digest })
    }

    /// As much of the bundle's start as its table takes, or more.
    fn table(&self) -> Result<Vec<u8>, FormatError> {
        const FIRST_LOOK: usize = 64 << 10;
        let mut len = FIRST_LOOK;
        loop {
            let start =
                compression::start(self.method, self.stored, len).map_err(|e| FormatError::new(self.stored_at, e))?;
            // Fewer bytes than requested are all that there are.
            if table(&start).is_ok() || start.len() < len || !start.starts_with(&MAGIC) {
                return Ok(start);
            }
            len = len.saturating_mul(16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VERSIONS: [CompressedVersion; 3] = [CompressedVersion::V1, CompressedVersion::V2, CompressedVersion::V3];

    #[test]
    fn ids_in_all_forms() {
        let cases = [
            ("hip-amdgcn-amd-amdhsa-gfx90a", "hip-amdgcn-amd-amdhsa--gfx90a"),
            ("hip-amdgcn-amd-amdhsa--gfx90a:sramecc-:xnack+", "hip-amdgcn-amd-amdhsa--gfx90a:sramecc-:xnack+"),
            ("hipv4-amdgcn-amd-amdhsa-unknown-gfx1030", "hipv4-amdgcn-amd-amdhsa--gfx1030"),
            ("host-x86_64-unknown-linux-gnu", "host-x86_64-unknown-linux-gnu-"),
            ("host-x86_64-unknown-linux-gnu-", "host-x86_64-unknown-linux-gnu-"),
            ("host-x86_64-pc-windows-msvc", "host-x86_64-pc-windows-msvc-"),
            ("host-x86_64-unknown-linux", "host-x86_64-unknown-linux--"),
            // A minus that is no separator.
            ("hip-amdgcn-amd-amdhsa-gfx906:xnack-", "hip-amdgcn-amd-amdhsa--gfx906:xnack-"),
            ("hip-amdgcn-amd-amdhsa-gfx908:sramecc-:xnack+", "hip-amdgcn-amd-amdhsa--gfx908:sramecc-:xnack+"),
            ("hip-spirv64-amd-amdhsa--amdgcnspirv", "hip-spirv64-amd-amdhsa--amdgcnspirv"),
            ("openmp-nvptx64-nvidia-cuda-sm_70", "openmp-nvptx64-nvidia-cuda--sm_70"),
        ];
        for (text, normalized) in cases {
            let id = BundleId::parse(text).expect(text);
            assert_eq!(id.to_string(), normalized);
            assert_eq!(BundleId::parse(normalized), Some(id));
            assert_eq!(id.is_hip(), text.starts_with("hip"));
        }
        assert_eq!(BundleId::parse("hip-amdgcn-amd"), None);
    }

    #[test]
    fn damage_is_found() {
        let plain =
            write(&[("host-x86_64-unknown-linux-gnu-", &[]), ("hip-amdgcn-amd-amdhsa--gfx90a", &[7; 900])], 256);
        for version in VERSIONS {
            let packed = compress(&plain, version, CompressedMethod::Zstd(3)).expect("a small bundle");
            assert!(inflate(&packed[..packed.len() - 1]).is_err());
            for at in 4..packed.len() {
                let mut damaged = packed.clone();
                damaged[at] ^= 0x40;
                // A few bits of a compressed stream mean nothing.
                assert!(inflate(&damaged).map_or(true, |found| *found == plain), "{version:?} {at}");
            }
        }
        assert!(read_all(&plain[..plain.len() - 1]).is_err());
        let mut damaged = plain;
        damaged[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(read_all(&damaged).is_err());
    }

    proptest! {
        #[test]
        fn bundles_are_read_back(
            entries in prop::collection::vec(("[a-z0-9:+-]{1,30}", prop::collection::vec(1u8.., 0..80)), 1..5),
            shift in 0u32..13,
            version in 0usize..3,
            is_zstd in any::<bool>(),
        ) {
            let given: Vec<(&str, &[u8])> = entries.iter().map(|(id, image)| (id.as_str(), &image[..])).collect();
            let plain = write(&given, 1 << shift);
            let method = if is_zstd { CompressedMethod::Zstd(3) } else { CompressedMethod::Zlib(6) };
            let packed = compress(&plain, VERSIONS[version], method).expect("a small bundle");
            prop_assert_eq!(&*inflate(&packed).expect("what was compressed"), &plain[..]);
            let two = if version == 0 { packed } else { [&packed[..], &[0; 5], &plain].concat() };
            let inflated = inflate(&two).expect("sound bundles");
            let read = read_all(&inflated).expect("sound bundles");
            prop_assert_eq!(read.len() % given.len(), 0);
            for (found, (id, image)) in read.iter().zip(given.iter().cycle()) {
                prop_assert_eq!((found.id, found.image), (*id, *image));
            }
            for found in read.iter().take(given.len()) {
                prop_assert_eq!(found.offset % (1 << shift), 0);
            }
        }
    }
}
