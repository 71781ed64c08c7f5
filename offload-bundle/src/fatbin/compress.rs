//! Compression of payloads, and decompression that trusts no number it reads.

use std::io::Read;

use super::Compression;

/// Compresses as `fatbinary` of CUDA 13 does by default.
pub(super) fn zstd(data: &[u8], level: i32) -> Result<Vec<u8>, String> {
    zstd::bulk::compress(data, level).map_err(|e| format!("compression failed: {e}"))
}

/// The most bytes that `stored` bytes can hold in each format, by the format's own limits.
fn limit(how: Compression, stored: usize) -> u64 {
    let ratio = match how {
        Compression::None => 1,
        // One length byte of a match stands for 255 bytes.
        Compression::Lz4 | Compression::Lz4Frame => 255,
        Compression::Zlib => 1032,
        // A block of 128 KiB of one repeated byte takes 4.
        Compression::Zstd => 32 * 1024,
    };
    (stored as u64).saturating_mul(ratio).saturating_add(64)
}

/// Decompresses `stored`, which must become exactly `size` bytes.
///
/// Memory is taken as the output grows; a size that the stored bytes cannot become is refused at once.
pub(super) fn decompress(how: Compression, stored: &[u8], size: u64) -> Result<Vec<u8>, String> {
    if size > limit(how, stored.len()) {
        return Err(format!("{} compressed bytes cannot become {size}", stored.len()));
    }
    let data = match how {
        Compression::None => stored.to_vec(),
        Compression::Zlib => inflate(stored, size)?,
        Compression::Lz4 => lz4_block(stored, size)?,
        Compression::Lz4Frame => read_at_most(lz4_flex::frame::FrameDecoder::new(stored), size)?,
        Compression::Zstd => read_at_most(zstd_decoder(stored)?, size)?,
    };
    if data.len() as u64 != size {
        return Err(format!("compressed payload of {} bytes where {size} were recorded", data.len()));
    }
    Ok(data)
}

fn zstd_decoder(stored: &[u8]) -> Result<impl Read + '_, String> {
    zstd::stream::read::Decoder::with_buffer(stored)
        .map(|decoder| decoder.single_frame())
        .map_err(|e| format!("damaged compressed payload: {e}"))
}

/// Reads to the end, but stops behind the first byte that is too much.
fn read_at_most(reader: impl Read, size: u64) -> Result<Vec<u8>, String> {
    let mut data = Vec::new();
    reader
        .take(size.saturating_add(1))
        .read_to_end(&mut data)
        .map_err(|e| format!("damaged compressed payload: {e}"))?;
    Ok(data)
}

fn lz4_block(stored: &[u8], size: u64) -> Result<Vec<u8>, String> {
    let size = usize::try_from(size).map_err(|_| "payload too large".to_owned())?;
    lz4_flex::block::decompress(stored, size).map_err(|e| format!("damaged compressed payload: {e}"))
}

fn inflate(stored: &[u8], size: u64) -> Result<Vec<u8>, String> {
    let size = usize::try_from(size).map_err(|_| "payload too large".to_owned())?;
    miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(stored, size)
        .map_err(|e| format!("damaged compressed payload: {e}"))
}

/// Compresses as an LZ4 block; other encoders than NVIDIA's make other bytes of the same content.
pub(super) fn lz4(data: &[u8]) -> Vec<u8> {
    lz4_flex::block::compress(data)
}
