//! The file of an entry: a header and the content. A file whose header or checksum does not match is treated as a miss.
//!
//! | bytes | meaning |
//! | --- | --- |
//! | 0..8 | `FATLINK\0` |
//! | 8..12 | [`FORMAT_VERSION`], little endian |
//! | 12..44 | the key |
//! | 44..52 | bytes of content, little endian |
//! | 52..84 | BLAKE3 of bytes 0..52 and the content |
//! | 84.. | the content |

use std::fs::File;
use std::io::{Read, Write};

use crate::sys::cache::key::{FORMAT_VERSION, Key};

const MAGIC: &[u8; 8] = b"FATLINK\0";

/// Bytes in front of the checksum.
const CHECKED: usize = 52;

/// Bytes in front of the content.
pub const HEADER: usize = CHECKED + 32;

/// Writes the entry of `key`.
pub fn write(file: &mut impl Write, key: &Key, content: &[u8]) -> std::io::Result<()> {
    let start = start(key, content.len() as u64);
    file.write_all(&start)?;
    file.write_all(&checksum(&start, content))?;
    file.write_all(content)
}

/// Reads the content, if the file is the complete and undamaged entry of `key`.
pub fn read(file: &mut File, key: &Key) -> Option<Vec<u8>> {
    let size = file.metadata().ok()?.len().checked_sub(HEADER as u64)?;
    let mut header = [0; HEADER];
    file.read_exact(&mut header).ok()?;
    // The size must match the file before memory is allocated for it.
    if header[..CHECKED] != start(key, size) {
        return None;
    }
    let mut content = Vec::new();
    content.try_reserve_exact(usize::try_from(size).ok()?).ok()?;
    // Reading one byte more shows whether the file has grown.
    file.take(size.saturating_add(1)).read_to_end(&mut content).ok()?;
    let whole = content.len() as u64 == size && header[CHECKED..] == checksum(&header[..CHECKED], &content);
    whole.then_some(content)
}

fn start(key: &Key, size: u64) -> [u8; CHECKED] {
    let mut bytes = [0; CHECKED];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[12..44].copy_from_slice(key.bytes());
    bytes[44..].copy_from_slice(&size.to_le_bytes());
    bytes
}

fn checksum(start: &[u8], content: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(start).update(content).finalize().as_bytes()
}
