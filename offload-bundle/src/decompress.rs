//! Compression as the containers use it, and decompression that trusts no number it reads.

use std::io::Read;

/// The four bytes that a Zstandard frame starts with.
pub(crate) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A compressed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// A zlib stream.
    Zlib,
    /// A bare LZ4 block.
    Lz4,
    /// An LZ4 frame.
    Lz4Frame,
    /// A Zstandard frame.
    Zstd,
}

/// Compresses as a Zstandard frame with its content's size, as `ZSTD_compress` does.
pub(crate) fn zstd(data: &[u8], level: i32) -> Result<Vec<u8>, String> {
    zstd::bulk::compress(data, level).map_err(|e| format!("compression failed: {e}"))
}

/// The same bytes as [`zstd`], in a smaller buffer: text such as PTX becomes a tenth.
///
/// With room for text that does not shrink at all, though never touched, the heap outgrows what allocators keep: building one fatbin
/// after the other, half of the time went into giving memory back and getting it again.
pub(crate) fn zstd_of_text(text: &[u8], level: i32) -> Result<Vec<u8>, String> {
    // As long as more than a block's worth of room is left the compressor does not notice the end: the bytes stay the same.
    const SPARE: usize = 160 << 10;
    let room = text.len() / 8 + SPARE;
    if zstd::compress_bound(text.len()) <= room {
        return zstd(text, level);
    }
    let mut out = Vec::with_capacity(room);
    let mut compressor = zstd::bulk::Compressor::new(level).map_err(|e| format!("compression failed: {e}"))?;
    match compressor.compress_to_buffer(text, &mut out) {
        Ok(len) if len + SPARE <= room => Ok(out),
        _ => zstd(text, level),
    }
}

/// Compresses as a zlib stream of a level from 0 to 9.
pub(crate) fn zlib(data: &[u8], level: u8) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec_zlib(data, level.min(9))
}

/// Compresses as an LZ4 block; other encoders than NVIDIA's make other bytes of the same content.
pub(crate) fn lz4(data: &[u8]) -> Vec<u8> {
    lz4_flex::block::compress(data)
}

/// The most bytes that `stored` bytes can hold in each form, by the form's own limits.
fn limit(how: Method, stored: usize) -> u64 {
    let ratio = match how {
        // One length byte of a match stands for 255 bytes.
        Method::Lz4 | Method::Lz4Frame => 255,
        Method::Zlib => 1032,
        // A block of 128 KiB of one repeated byte takes 4.
        Method::Zstd => 32 * 1024,
    };
    (stored as u64).saturating_mul(ratio).saturating_add(64)
}

/// Decompresses `stored`, which must become exactly `size` bytes.
///
/// Memory is taken as the output grows; a size that the stored bytes cannot become is refused at once.
pub(crate) fn decompress(how: Method, stored: &[u8], size: u64) -> Result<Vec<u8>, String> {
    if size > limit(how, stored.len()) {
        return Err(format!("{} compressed bytes cannot become {size}", stored.len()));
    }
    let data = match how {
        Method::Zlib => inflate(stored, size)?,
        Method::Lz4 => lz4_block(stored, size)?,
        Method::Lz4Frame => read_at_most(lz4_flex::frame::FrameDecoder::new(stored), size)?,
        Method::Zstd => read_at_most(zstd_decoder(stored)?, size)?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_makes_no_difference() {
        let mut state = 1u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        // From text that shrinks to nothing, by way of some that just fits, to some that does not shrink.
        for part in (0..10).map(|part| part * 24_000).chain([600_000]) {
            let mut text: Vec<u8> = (0..part).map(|_| noise()).collect();
            text.resize(600_000, b'a');
            // Of each strategy of the compressor one level, and those of the modes.
            for level in [1, 3, 5, 7, 12, 13, 16, 19, 22] {
                assert_eq!(zstd_of_text(&text, level), zstd(&text, level), "{part} bytes of noise, level {level}");
            }
        }
        assert_eq!(zstd_of_text(b"", 5), zstd(b"", 5));
    }
}
