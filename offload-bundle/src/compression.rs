//! Compresses payloads as the containers do, and decompresses them without trusting recorded sizes.

use std::io::Read;
use std::num::NonZero;
use std::ops::Range;

use miniz_oxide::inflate::TINFLStatus;
use zstd::zstd_safe::CParameter;

/// The four bytes that a Zstandard frame starts with.
pub(crate) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Why a payload cannot be compressed or decompressed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum CompressionError {
    /// The compressor fails.
    #[error("compression failed: {0}")]
    Compressor(String),
    /// The recorded size is larger than the stored bytes can expand to.
    #[error("{stored} compressed bytes cannot become {size}")]
    ImpossibleSize {
        /// Bytes stored.
        stored: usize,
        /// Bytes recorded.
        size: u64,
    },
    /// The payload has another size than recorded.
    #[error("compressed payload of {actual} bytes where {recorded} were recorded")]
    SizeMismatch {
        /// Its bytes.
        actual: usize,
        /// Bytes recorded.
        recorded: u64,
    },
    /// The decompressor rejects the payload.
    #[error("damaged compressed payload: {0}")]
    Damaged(String),
    /// A damaged LZ4 block.
    #[error("damaged compressed payload")]
    DamagedBlock,
    /// The payload is larger than memory can be.
    #[error("payload too large")]
    TooLarge,
}

fn damaged(error: impl std::fmt::Display) -> CompressionError {
    CompressionError::Damaged(error.to_string())
}

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
pub(crate) fn zstd(data: &[u8], level: i32) -> Result<Vec<u8>, CompressionError> {
    zstd::bulk::compress(data, level).map_err(|e| CompressionError::Compressor(e.to_string()))
}

/// Compresses as a Zstandard frame with matches far apart, as LLVM does for HIP's bundles: code objects of several GPUs resemble each other.
pub(crate) fn zstd_long(data: &[u8], level: i32) -> Result<Vec<u8>, CompressionError> {
    let failed = |e: std::io::Error| CompressionError::Compressor(e.to_string());
    let mut compressor = zstd::bulk::Compressor::new(level).map_err(failed)?;
    let long = CParameter::EnableLongDistanceMatching(true);
    compressor.set_parameter(long).map_err(failed)?;
    compressor.compress(data).map_err(failed)
}

/// The least size in bytes of a piece that a thread compresses.
const PIECE: usize = 1 << 20;
/// The largest number of pieces.
const PIECES: u32 = 16;

/// Compresses as a Zstandard frame in pieces, by up to `threads` threads. The pieces, and so the bytes, depend on the content alone, not on
/// the number of threads.
pub(crate) fn zstd_in_pieces(data: &[u8], level: i32, threads: NonZero<u32>) -> Result<Vec<u8>, CompressionError> {
    let piece = u32::try_from((data.len() / PIECES as usize).max(PIECE)).unwrap_or(u32::MAX);
    let compress = || {
        let mut compressor = zstd::bulk::Compressor::new(level)?;
        compressor.set_parameter(CParameter::NbWorkers(threads.get().min(PIECES)))?;
        compressor.set_parameter(CParameter::JobSize(piece))?;
        compressor.compress(data)
    };
    compress().map_err(|e: std::io::Error| CompressionError::Compressor(e.to_string()))
}

/// The same bytes as [`zstd`], in a smaller buffer: text such as PTX shrinks to a tenth.
///
/// With room for incompressible text, though never touched, the heap outgrows what allocators keep: when fatbins are built one
/// after the other, half of the time went into returning memory to the system and getting it back.
pub(crate) fn zstd_of_text(text: &[u8], level: i32) -> Result<Vec<u8>, CompressionError> {
    // As long as more than a block of room is left, the end of the buffer does not influence the compressor: the bytes are the same.
    const SPARE: usize = 160 << 10;
    let room = text.len() / 8 + SPARE;
    if zstd::compress_bound(text.len()) <= room {
        return zstd(text, level);
    }
    let mut out = Vec::with_capacity(room);
    let mut compressor = zstd::bulk::Compressor::new(level).map_err(|e| CompressionError::Compressor(e.to_string()))?;
    match compressor.compress_to_buffer(text, &mut out) {
        Ok(len) if len + SPARE <= room => Ok(out),
        _ => zstd(text, level),
    }
}

/// Compresses as a zlib stream of a level from 0 to 9.
pub(crate) fn zlib(data: &[u8], level: u8) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec_zlib(data, level.min(9))
}

/// Compresses as an LZ4 block. The bytes differ from NVIDIA's encoder's; the contents do not.
pub(crate) fn lz4(data: &[u8]) -> Vec<u8> {
    lz4_flex::block::compress(data)
}

/// The largest size that `stored` bytes can expand to in each form.
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
/// Allocates as the output grows, and rejects at once a size that the stored bytes cannot expand to.
pub(crate) fn decompress(how: Method, stored: &[u8], size: u64) -> Result<Vec<u8>, CompressionError> {
    if size > limit(how, stored.len()) {
        return Err(CompressionError::ImpossibleSize { stored: stored.len(), size });
    }
    let data = match how {
        Method::Zlib => inflate(stored, size)?,
        Method::Lz4 => lz4_block(stored, size)?,
        Method::Lz4Frame => read_at_most(lz4_flex::frame::FrameDecoder::new(stored), stored.len(), size)?,
        Method::Zstd => match zstd_at_once(stored, size) {
            Some(data) => data,
            None => read_at_most(zstd_decoder(stored)?, stored.len(), size)?,
        },
    };
    if data.len() as u64 != size {
        return Err(CompressionError::SizeMismatch { actual: data.len(), recorded: size });
    }
    Ok(data)
}

/// Decompresses `stored`, which must become `size` bytes, and returns those of a range.
///
/// What follows them is not decompressed where the form allows that.
pub(crate) fn part(how: Method, stored: &[u8], size: u64, range: Range<u64>) -> Result<Vec<u8>, CompressionError> {
    if size > limit(how, stored.len()) {
        return Err(CompressionError::ImpossibleSize { stored: stored.len(), size });
    }
    let room = |number: u64| usize::try_from(number).map_err(|_| CompressionError::TooLarge);
    let (start, end) = (room(range.start)?, room(range.end)?);
    if how != Method::Zstd {
        let mut data = decompress(how, stored, size)?;
        data.truncate(end);
        return Ok(data.split_off(start.min(data.len())));
    }
    let mut decoder = zstd_decoder(stored)?;
    std::io::copy(&mut decoder.by_ref().take(range.start), &mut std::io::sink()).map_err(damaged)?;
    let mut data = Vec::new();
    decoder.take(range.end.saturating_sub(range.start)).read_to_end(&mut data).map_err(damaged)?;
    if start.saturating_add(data.len()) != end {
        return Err(CompressionError::SizeMismatch { actual: start.saturating_add(data.len()), recorded: size });
    }
    Ok(data)
}

/// Decompresses the first `len` bytes, or all if there are fewer, and no more than that takes.
pub(crate) fn start(how: Method, stored: &[u8], len: usize) -> Result<Vec<u8>, CompressionError> {
    let read = |reader: &mut dyn Read| {
        let mut data = Vec::new();
        reader.take(len as u64).read_to_end(&mut data).map_err(damaged)?;
        Ok(data)
    };
    match how {
        Method::Zlib => match miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(stored, len) {
            Ok(data) => Ok(data),
            Err(error) if error.status == TINFLStatus::HasMoreOutput => Ok(error.output),
            Err(error) => Err(damaged(error)),
        },
        Method::Lz4 => lz4_start(stored, len).ok_or(CompressionError::DamagedBlock),
        Method::Lz4Frame => read(&mut lz4_flex::frame::FrameDecoder::new(stored)),
        Method::Zstd => read(&mut zstd_decoder(stored)?),
    }
}

/// Decompresses the first `len` bytes of an LZ4 block: sequences of literals and a match with a distance of two bytes. `None` if the
/// block is damaged.
fn lz4_start(stored: &[u8], len: usize) -> Option<Vec<u8>> {
    const SHORTEST_MATCH: usize = 4;
    let mut out = Vec::with_capacity(len);
    let mut rest = stored;
    while out.len() < len && !rest.is_empty() {
        let (&token, behind) = rest.split_first()?;
        let (literals, behind) = lz4_length(usize::from(token >> 4), behind)?;
        let (copied, behind) = behind.split_at_checked(literals)?;
        out.extend_from_slice(copied.get(..copied.len().min(len - out.len()))?);
        // The last sequence has no match.
        let Some((&[low, high], behind)) = behind.split_first_chunk() else { break };
        let distance = usize::from(u16::from_le_bytes([low, high]));
        let (more, behind) = lz4_length(usize::from(token & 15), behind)?;
        for _ in 0..more.saturating_add(SHORTEST_MATCH).min(len - out.len()) {
            let byte = *out.get(out.len().checked_sub(distance)?)?;
            out.push(byte);
        }
        rest = behind;
    }
    Some(out)
}

/// Reads a length: 15 continues in the following bytes, up to the first that is not 255.
fn lz4_length(first: usize, mut rest: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = first;
    let mut goes_on = first == 15;
    while goes_on {
        let (&byte, behind) = rest.split_first()?;
        length = length.checked_add(usize::from(byte))?;
        goes_on = byte == 255;
        rest = behind;
    }
    Some((length, rest))
}

fn zstd_decoder(stored: &[u8]) -> Result<impl Read + '_, CompressionError> {
    zstd::stream::read::Decoder::with_buffer(stored).map(zstd::Decoder::single_frame).map_err(damaged)
}

/// Decompresses a frame of exactly `size` bytes and keeps nothing: `see` gets each piece and where it begins.
pub(crate) fn zstd_in_order(stored: &[u8], size: u64, see: &mut dyn FnMut(u64, &[u8])) -> Result<(), CompressionError> {
    let mut decoder = zstd_decoder(stored)?;
    let mut buffer = vec![0; 128 << 10];
    let mut actual = 0_u64;
    loop {
        let read = decoder.read(&mut buffer).map_err(damaged)?;
        see(actual, buffer.get(..read).unwrap_or_default());
        actual = actual.saturating_add(read as u64);
        // One that is larger than recorded may never end.
        if read == 0 || actual > size {
            break;
        }
    }
    if actual == size {
        return Ok(());
    }
    Err(CompressionError::SizeMismatch { actual: usize::try_from(actual).unwrap_or(usize::MAX), recorded: size })
}

/// What code shrinks to, at most. Room for more is made only as the output grows.
const RATIO: usize = 16;

/// Decompresses a frame of exactly `size` bytes into a buffer of this size, in less time than a stream takes. `None` if the stream has to
/// find out what is wrong with it, or if the output may be far larger than the input.
fn zstd_at_once(stored: &[u8], size: u64) -> Option<Vec<u8>> {
    let room = usize::try_from(size).ok().filter(|size| *size <= stored.len().saturating_mul(RATIO))?;
    let frame = stored.get(..zstd::zstd_safe::find_frame_compressed_size(stored).ok()?)?;
    let data = zstd::bulk::decompress(frame, room).ok()?;
    (data.len() == room).then_some(data)
}

/// Reads to the end, but at most one byte more than `size`.
fn read_at_most(reader: impl Read, stored: usize, size: u64) -> Result<Vec<u8>, CompressionError> {
    let room = usize::try_from(size).unwrap_or(usize::MAX).min(stored.saturating_mul(RATIO));
    // A byte more, for the read that finds the end.
    let mut data = Vec::with_capacity(room.saturating_add(1));
    reader.take(size.saturating_add(1)).read_to_end(&mut data).map_err(damaged)?;
    Ok(data)
}

fn lz4_block(stored: &[u8], size: u64) -> Result<Vec<u8>, CompressionError> {
    let size = usize::try_from(size).map_err(|_| CompressionError::TooLarge)?;
    lz4_flex::block::decompress(stored, size).map_err(damaged)
}

fn inflate(stored: &[u8], size: u64) -> Result<Vec<u8>, CompressionError> {
    let size = usize::try_from(size).map_err(|_| CompressionError::TooLarge)?;
    miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(stored, size).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_threads_does_not_change_the_bytes() {
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 28) as u8
        };
        let data: Vec<u8> = (0..5 << 20).map(|_| noise()).collect();
        let by = |threads| zstd_in_pieces(&data, 1, NonZero::new(threads).unwrap()).unwrap();
        let packed = by(1);
        assert_eq!(decompress(Method::Zstd, &packed, data.len() as u64).unwrap(), data);
        for threads in [2, 16, u32::MAX] {
            assert!(by(threads) == packed, "{threads} threads");
        }
        assert_eq!(zstd_in_pieces(b"short", 5, NonZero::<u32>::MIN), zstd(b"short", 5));
    }

    #[test]
    fn a_frame_at_once_is_what_a_stream_makes_of_it() {
        let data: Vec<u8> = (0..300_000_u32).flat_map(|number| number.wrapping_mul(number).to_le_bytes()).collect();
        let packed = zstd(&data, 5).unwrap();
        let size = data.len() as u64;
        let behind = [&packed[..], b"another frame"].concat();
        for stored in [&packed, &behind] {
            assert!(zstd_at_once(stored, size).is_some_and(|found| found == data));
            assert_eq!(decompress(Method::Zstd, stored, size).unwrap(), data);
            for wrong in [size - 1, size + 1] {
                assert_eq!(zstd_at_once(stored, wrong), None);
                assert!(decompress(Method::Zstd, stored, wrong).is_err(), "{wrong}");
            }
        }
        for end in (0..packed.len()).step_by(997) {
            assert_eq!(zstd_at_once(&packed[..end], size), None, "{end}");
            assert!(decompress(Method::Zstd, &packed[..end], size).is_err(), "{end}");
        }
    }

    #[test]
    fn the_start_of_every_form() {
        let text: Vec<u8> =
            (0..40_000u32).flat_map(|number| (number * number / 7 % 1000).to_string().into_bytes()).collect();
        let mut frame = lz4_flex::frame::FrameEncoder::new(Vec::new());
        std::io::Write::write_all(&mut frame, &text).expect("memory");
        for data in [&text[..], &text[..50], &[b'a'; 3000], b""] {
            let forms = [
                (Method::Zlib, zlib(data, 6)),
                (Method::Lz4, lz4(data)),
                (Method::Zstd, zstd(data, 5).expect("a compressor")),
            ];
            for (how, stored) in forms {
                for len in [0, 1, 4, 17, 64, 300, 20_000, 1_000_000] {
                    let found = start(how, &stored, len).expect("what was compressed");
                    assert_eq!(found, data[..len.min(data.len())], "{how:?} {len}");
                }
            }
        }
        let stored = frame.finish().expect("memory");
        assert_eq!(start(Method::Lz4Frame, &stored, 64).expect("what was compressed"), text[..64]);
        // A match in front of the first byte.
        assert_eq!(lz4_start(&[0x10, b'a', 2, 0, 0, 0], 64), None);
        assert_eq!(lz4_start(&[0xf0, 255], 64), None);
    }

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
