//! Results of a device link that are kept beside its merged bitcode: machine code of partitions and facts about the unit, each under the
//! key by which a later link finds it.
//!
//! They are the content of the section [`SECTION`] of a relocatable object. It is a sequence of blocks, because `ld -r` puts the sections
//! of several objects one behind the other, with or without zeros between them. All numbers are little endian.
//!
//! | bytes of a block | meaning |
//! | --- | --- |
//! | 0..8 | `FATLKEPT` |
//! | 8..12 | the version, 1 |
//! | 12..16 | number of entries |
//! | 16..24 | bytes of the block, a multiple of 16 |
//! | 24.. | the table, 88 bytes for each entry, with the keys in ascending order |
//! | behind it | the stored bytes of the entries, and zeros up to the end |
//!
//! | bytes of an entry in the table | meaning |
//! | --- | --- |
//! | 0..32 | the key |
//! | 32..40 | where its stored bytes start, counted from the start of the block |
//! | 40..48 | number of stored bytes |
//! | 48..56 | size of the content; it is compressed with Zstandard if this is another number |
//! | 56..88 | BLAKE3 of the key, the size (8 bytes) and the stored bytes |
//!
//! The checksum covers the key, so that no content can be found under another one, and the size, which tells whether it is compressed.
//! It detects damage, not malice.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use rayon::prelude::*;

use crate::bytes::{slice, u32_at, u64_at, zeros_from};
use crate::compression::{self, Method};
use crate::error::FormatError;

/// The name of the section.
pub const SECTION: &str = ".fatlink.results";

/// What the start and the size of a block are multiples of: the alignment that the section needs.
pub const ALIGNMENT: u64 = 16;

const MAGIC: &[u8; 8] = b"FATLKEPT";
const VERSION: u32 = 1;
const HEADER_SIZE: u64 = 24;
const ENTRY_SIZE: u64 = 88;
const KEY_SIZE: usize = 32;

/// Above this level, machine code shrinks by a few percent more and takes several times as long.
const LEVEL: i32 = 3;

/// The largest content that is compressed. A checksum is no proof of who wrote an entry, so that without a limit, few bytes could expand to
/// more than memory holds.
const LARGEST_COMPRESSED: u64 = 1 << 30;

/// Writes the entries as one block. Its bytes depend on the entries alone.
///
/// Entries are compressed side by side, on rayon's threads.
pub fn write(entries: &BTreeMap<[u8; KEY_SIZE], Vec<u8>>) -> Vec<u8> {
    let contents: Vec<(&[u8; KEY_SIZE], &Vec<u8>)> = entries.iter().collect();
    let stored: Vec<Cow<'_, [u8]>> =
        contents.par_iter().map(|(_, content)| stored_form(content, LARGEST_COMPRESSED)).collect();
    let data_offset = HEADER_SIZE + ENTRY_SIZE * entries.len() as u64;
    let data_size: u64 = stored.iter().map(|stored| stored.len() as u64).sum();
    let size = (data_offset + data_size).next_multiple_of(ALIGNMENT);

    let mut block = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    block.extend_from_slice(MAGIC);
    block.extend_from_slice(&VERSION.to_le_bytes());
    // No memory holds a map of more entries than this number can count.
    block.extend_from_slice(&u32::try_from(entries.len()).unwrap_or(u32::MAX).to_le_bytes());
    block.extend_from_slice(&size.to_le_bytes());
    let mut offset = data_offset;
    for ((key, content), stored) in contents.iter().zip(&stored) {
        let size = content.len() as u64;
        block.extend_from_slice(*key);
        for number in [offset, stored.len() as u64, size] {
            block.extend_from_slice(&number.to_le_bytes());
        }
        block.extend_from_slice(checksum(key, size, stored).as_bytes());
        offset += stored.len() as u64;
    }
    for stored in &stored {
        block.extend_from_slice(stored);
    }
    block.resize(block.len().next_multiple_of(ALIGNMENT as usize), 0);
    block
}

/// The content compressed, or as it is if that is not smaller or if it has more than `most` bytes.
fn stored_form(content: &[u8], most: u64) -> Cow<'_, [u8]> {
    let is_small = content.len() as u64 <= most;
    let packed = is_small.then(|| compression::zstd(content, LEVEL).ok()).flatten();
    match packed.filter(|packed| packed.len() < content.len()) {
        Some(packed) => Cow::Owned(packed),
        None => Cow::Borrowed(content),
    }
}

fn checksum(key: &[u8; KEY_SIZE], size: u64, stored: &[u8]) -> blake3::Hash {
    blake3::Hasher::new().update(key).update(&size.to_le_bytes()).update(stored).finalize()
}

/// The results that a section keeps, borrowed from it.
#[derive(Clone)]
pub struct KeptResults<'a> {
    /// In the order of their keys; those of one key in the order of their blocks.
    entries: Vec<Entry<'a>>,
    keys: usize,
}

/// One entry, of which the place in the block is checked and the content is not.
#[derive(Clone, Copy)]
struct Entry<'a> {
    /// Where the stored bytes start in the section.
    at: u64,
    key: &'a [u8; KEY_SIZE],
    stored: &'a [u8],
    size: u64,
    checksum: &'a [u8; blake3::OUT_LEN],
}

impl<'a> KeptResults<'a> {
    /// Reads the tables of all blocks of a section. The contents are read by [`KeptResults::get`].
    ///
    /// # Errors
    /// Anything but blocks of a known version, with zeros between and behind them; a table that contradicts itself or names bytes outside of
    /// its block. The offset is one in the section.
    pub fn parse(section: &'a [u8]) -> Result<Self, FormatError> {
        let mut entries = Vec::new();
        let mut start = 0;
        loop {
            start += zeros_from(section, start);
            if start >= section.len() as u64 {
                break;
            }
            let block = block_at(section, start)?;
            read_table(block, start, &mut entries).map_err(|e| e.shifted(start))?;
            start += block.len() as u64;
        }
        // Stable: of several blocks with a key, the first comes first.
        entries.sort_by_key(|entry| entry.key);
        let keys = entries.chunk_by(|a, b| a.key == b.key).count();
        Ok(Self { entries, keys })
    }

    /// The number of different keys.
    pub fn len(&self) -> usize {
        self.keys
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The keys in ascending order, each once, also those of damaged entries.
    pub fn keys(&self) -> impl Iterator<Item = &'a [u8; KEY_SIZE]> + '_ {
        self.entries.chunk_by(|a, b| a.key == b.key).filter_map(|same| Some(same.first()?.key))
    }

    /// A hash of everything that [`KeptResults::get`] may return.
    pub fn identity(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for Entry { key, size, checksum, .. } in &self.entries {
            hasher.update(*key).update(&size.to_le_bytes()).update(*checksum);
        }
        *hasher.finalize().as_bytes()
    }

    /// Whether there is an entry of a key, which may be damaged.
    pub fn contains(&self, key: &[u8; KEY_SIZE]) -> bool {
        self.entries.binary_search_by_key(&key, |entry| entry.key).is_ok()
    }

    /// The content under a key: of several blocks that hold it, from the first in which it is undamaged.
    pub fn get(&self, key: &[u8; KEY_SIZE]) -> Option<Vec<u8>> {
        let first = self.entries.partition_point(|entry| entry.key < key);
        let same = self.entries.get(first..)?.iter().take_while(|entry| entry.key == key);
        same.filter_map(Entry::content).next()
    }

    /// Checks the stored bytes of all entries, without decompressing them.
    ///
    /// # Errors
    /// An entry that does not have its checksum. The offset is that of its stored bytes in the section.
    pub fn check(&self) -> Result<(), FormatError> {
        let damaged = self.entries.iter().filter(|entry| !entry.has_checksum()).min_by_key(|entry| entry.at);
        match damaged {
            Some(entry) => Err(FormatError::damaged(entry.at, "a kept result does not have its checksum")),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for KeptResults<'_> {
    /// Without the contents.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys().map(|key| blake3::Hash::from_bytes(*key).to_hex());
        formatter.debug_list().entries(keys).finish()
    }
}

impl Entry<'_> {
    fn has_checksum(&self) -> bool {
        checksum(self.key, self.size, self.stored) == *self.checksum
    }

    /// The content, if it is undamaged.
    fn content(&self) -> Option<Vec<u8>> {
        if !self.has_checksum() {
            return None;
        }
        if self.stored.len() as u64 == self.size {
            return Some(self.stored.to_vec());
        }
        if self.size > LARGEST_COMPRESSED {
            return None;
        }
        compression::decompress(Method::Zstd, self.stored, self.size).ok()
    }
}

/// The whole block at `start`.
fn block_at(section: &[u8], start: u64) -> Result<&[u8], FormatError> {
    let header = slice(section, start, HEADER_SIZE, "the header of the kept results")?;
    if !header.starts_with(MAGIC) {
        return Err(FormatError::wrong_format(start, "no kept results (wrong magic)"));
    }
    let version = u32_at(header, 8, "version")?;
    if version != VERSION {
        let what = format!("kept results of unknown version {version}");
        return Err(FormatError::unsupported(start.saturating_add(8), what));
    }
    let size = u64_at(header, 16, "size")?;
    if size < HEADER_SIZE || !size.is_multiple_of(ALIGNMENT) {
        let what = format!("kept results with an impossible size of {size} bytes");
        return Err(FormatError::damaged(start.saturating_add(16), what));
    }
    slice(section, start, size, "the block of kept results")
}

/// Appends the entries of the block at `start` of the section; errors are relative to the block.
fn read_table<'a>(block: &'a [u8], start: u64, entries: &mut Vec<Entry<'a>>) -> Result<(), FormatError> {
    let count = u64::from(u32_at(block, 12, "number of entries")?);
    let table = slice(block, HEADER_SIZE, count * ENTRY_SIZE, "the table of kept results")?;
    let table_end = HEADER_SIZE + table.len() as u64;
    let mut previous: Option<&[u8; KEY_SIZE]> = None;
    for at in (HEADER_SIZE..table_end).step_by(ENTRY_SIZE as usize) {
        let entry = read_entry(block, at, table_end)?;
        if previous.is_some_and(|previous| previous >= entry.key) {
            return Err(FormatError::damaged(at, "kept results that are not in the order of their keys"));
        }
        previous = Some(entry.key);
        entries.push(Entry { at: entry.at.saturating_add(start), ..entry });
    }
    Ok(())
}

/// The entry whose row of the table is at `at`; its place and errors are relative to the block.
fn read_entry(block: &[u8], at: u64, table_end: u64) -> Result<Entry<'_>, FormatError> {
    let offset = u64_at(block, at + 32, "offset")?;
    let stored_size = u64_at(block, at + 40, "stored size")?;
    let size = u64_at(block, at + 48, "size")?;
    if offset < table_end {
        return Err(FormatError::damaged(at + 32, "a kept result inside of the table"));
    }
    if size < stored_size {
        return Err(FormatError::damaged(at + 40, "a kept result that is stored in more bytes than it has"));
    }
    // The place of the number, which may be far behind the end of the file.
    let outside = |error| FormatError { offset: at + 32, ..error };
    Ok(Entry {
        at: offset,
        key: array(block, at)?,
        stored: slice(block, offset, stored_size, "a kept result").map_err(outside)?,
        size,
        checksum: array(block, at + 56)?,
    })
}

/// The 32 bytes at `at`, which is in the table.
fn array(block: &[u8], at: u64) -> Result<&[u8; 32], FormatError> {
    let what = "the table of kept results";
    slice(block, at, 32, what)?.try_into().map_err(|_| FormatError::truncated(at, what))
}

#[cfg(test)]
mod tests;
