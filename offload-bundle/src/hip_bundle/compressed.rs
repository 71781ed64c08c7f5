//! Compressed bundles: a header and the compressed bundle.

use md5::{Digest, Md5};

use super::COMPRESSED_MAGIC;
use crate::bytes::{slice, u16_at, u32_at, u64_at};
use crate::compression::{self, Method};
use crate::error::{EditError, FormatError};

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
        CompressedMethod::Zstd(level) => {
            (1, compression::zstd_long(bundle, level).map_err(|e| FormatError::new(0, e))?)
        }
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

/// A compressed bundle, by its header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packed<'a> {
    pub version: CompressedVersion,
    method: Method,
    stored: &'a [u8],
    /// Where that starts.
    stored_at: u64,
    /// Its size decompressed.
    pub size: u64,
    /// Its size with the header.
    pub total: u64,
    digest: &'a [u8],
}

impl<'a> Packed<'a> {
    /// That at the start of `data`; errors are relative to it.
    pub fn read(data: &'a [u8]) -> Result<Self, FormatError> {
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
        Ok(Self { version, method, stored, stored_at: header, size, total, digest })
    }

    /// The bundle; errors are relative to the compressed one.
    pub fn inflate(&self) -> Result<Vec<u8>, FormatError> {
        let decompressed = compression::decompress(self.method, self.stored, self.size);
        let plain = decompressed.map_err(|e| FormatError::new(self.stored_at, e))?;
        if digest(&plain) != self.digest {
            let what = "compressed bundle whose content does not have the recorded digest";
            return Err(FormatError::damaged(self.stored_at - 8, what));
        }
        Ok(plain)
    }

    /// Compresses another bundle in the same way, into at most `most` bytes. The level of the first one is not recorded: a high one is tried
    /// if the bundler's own does not do.
    ///
    /// # Errors
    /// Those of [`compress`], and a bundle that takes more.
    pub fn repack(&self, bundle: &[u8], most: u64) -> Result<Vec<u8>, FormatError> {
        let methods = match self.method {
            Method::Zlib => [CompressedMethod::Zlib(6), CompressedMethod::Zlib(9)],
            _ => [CompressedMethod::Zstd(3), CompressedMethod::Zstd(19)],
        };
        let mut size = 0;
        for method in methods {
            let packed = compress(bundle, self.version, method)?;
            size = packed.len() as u64;
            if size <= most {
                return Ok(packed);
            }
        }
        Err(FormatError::new(0, EditError::LargerBundle { size, most }))
    }
}
