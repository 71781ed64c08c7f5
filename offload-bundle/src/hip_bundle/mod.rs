//! HIP's bundles: code objects of several GPUs in one container, as `clang-offload-bundler` makes them.
//!
//! Layout from clang's documentation of the bundler: the magic `__CLANG_OFFLOAD_BUNDLE__`, u64 number of entries, then for each entry u64
//! offset of its image from the start of the bundle, u64 size of the image, u64 length of its id, and the id; then the images, each at a
//! multiple of an alignment. All numbers are little endian. The first entry by convention is the host's, without an image. HIP's runtime
//! requires an alignment of 4096.
//!
//! A compressed bundle is a header and the compressed bundle: the magic `CCOB`, u16 version, u16 method (0 zlib, 1 Zstandard), from version
//! 2 on the size of all of it, the size of the bundle, and the first 8 bytes of its MD5. Both sizes have 4 bytes, in version 3 8.

mod compressed;
mod id;
mod stored;

use std::borrow::Cow;

use crate::FormatError;
use crate::bytes::{slice, u64_at, utf8, zeros_from};

pub use compressed::{CompressedMethod, CompressedVersion, compress};
pub use id::BundleId;
pub(crate) use stored::bundle_at;
pub use stored::{StoredBundle, bundles};

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

/// Whether the data starts as a bundle does, compressed or not.
pub fn is_bundle(data: &[u8]) -> bool {
    data.starts_with(&MAGIC) || data.starts_with(&COMPRESSED_MAGIC)
}

/// Whether an image is SPIR-V, which the runtime compiles for its GPU.
pub fn is_spirv(image: &[u8]) -> bool {
    image.starts_with(&0x0723_0203_u32.to_le_bytes())
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

/// Writes a bundle of images, each with its id, in this order. `alignment` is 1 or a power of 2; HIP requires [`HIP_ALIGNMENT`].
pub fn write(entries: &[(&str, &[u8])], alignment: u64) -> Vec<u8> {
    let sizes: Vec<(&str, u64)> = entries.iter().map(|(id, image)| (*id, image.len() as u64)).collect();
    let mut out = header(&sizes, alignment);
    for (_, image) in entries {
        out.resize(out.len().next_multiple_of(usize::try_from(alignment.max(1)).unwrap_or(1)), 0);
        out.extend_from_slice(image);
    }
    out
}

/// The part of a bundle in front of its images, given their ids and sizes.
fn header(entries: &[(&str, u64)], alignment: u64) -> Vec<u8> {
    let ids_size: u64 = entries.iter().map(|(id, _)| 24 + id.len() as u64).sum();
    let mut offset = TABLE + ids_size;
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    for (id, size) in entries {
        offset = offset.next_multiple_of(alignment.max(1));
        for number in [offset, *size, id.len() as u64] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(id.as_bytes());
        // Images of a damaged bundle may overlap, so that their sizes add up to more than the data.
        offset = offset.saturating_add(*size);
    }
    out
}

/// Decompresses the compressed ones of several bundles, as [`read_all`] needs them; borrowed if none is compressed.
///
/// Each starts at a multiple of [`HIP_ALIGNMENT`] then.
///
/// # Errors
/// Data that is not a bundle, or a damaged compressed one: sizes and the digest must match. Offsets are those in `data`.
pub fn inflate(data: &[u8]) -> Result<Cow<'_, [u8]>, FormatError> {
    let found = bundles(data)?;
    if !found.iter().any(StoredBundle::is_compressed) {
        return Ok(Cow::Borrowed(data));
    }
    let mut out = Vec::new();
    for bundle in found {
        out.resize(out.len().next_multiple_of(HIP_ALIGNMENT as usize), 0);
        out.extend_from_slice(&bundle.plain()?);
    }
    Ok(Cow::Owned(out))
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
