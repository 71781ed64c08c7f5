//! Stretches of a file that get other bytes.

use crate::bytes::put;
use crate::error::{EditError, FormatError};

/// A stretch of a file that gets other bytes, at most as many.
pub(crate) struct Replacement {
    /// Its offset in the file.
    pub offset: u64,
    /// Its size in bytes before the edit.
    pub len: u64,
    /// The new contents.
    pub parts: Vec<ReplacementPart>,
}

/// A part of the new contents of a stretch.
pub(crate) enum ReplacementPart {
    /// New bytes.
    Bytes(Vec<u8>),
    /// A stretch of the original file, as start and end offset: containers of gigabytes are not copied.
    Range(u64, u64),
}

impl ReplacementPart {
    /// Its bytes, given the original file.
    pub fn bytes<'a>(&'a self, data: &'a [u8]) -> &'a [u8] {
        match self {
            ReplacementPart::Bytes(bytes) => bytes,
            ReplacementPart::Range(from, to) => range(data, *from, *to),
        }
    }
}

impl Replacement {
    /// The end of the stretch.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// Size of the new contents in bytes.
    pub fn size(&self) -> u64 {
        let size = |part: &ReplacementPart| match part {
            ReplacementPart::Bytes(bytes) => bytes.len() as u64,
            ReplacementPart::Range(from, to) => to.saturating_sub(*from),
        };
        self.parts.iter().map(size).fold(0, u64::saturating_add)
    }

    /// Rejects new contents that are larger than the stretch, behind which other bytes stay where they are.
    pub fn require_room(&self) -> Result<(), FormatError> {
        if self.size() <= self.len {
            return Ok(());
        }
        Err(FormatError::new(self.offset, EditError::LargerFatbin { size: self.size(), most: self.len }))
    }

    /// Writes the new contents into `file`, a copy of `data`, and fills the rest of the stretch with zeros.
    pub fn write(&self, data: &[u8], file: &mut [u8]) {
        let mut at = self.offset;
        for part in &self.parts {
            let bytes = part.bytes(data);
            put(file, at, bytes);
            at = at.saturating_add(bytes.len() as u64);
        }
        let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(data.len());
        if let Some(rest) = file.get_mut(index(at)..index(self.end())) {
            rest.fill(0);
        }
    }
}

/// The data with its edits, sorted by offset, where what lies behind one may move.
pub(crate) fn spliced(data: &[u8], edits: &[Replacement]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(data.len());
    let mut at = 0;
    for edit in edits {
        bytes.extend_from_slice(range(data, at, edit.offset));
        edit.parts.iter().for_each(|part| bytes.extend_from_slice(part.bytes(data)));
        at = edit.end();
    }
    bytes.extend_from_slice(range(data, at, data.len() as u64));
    bytes
}

/// `data[from..to]`, clipped to the data.
pub(crate) fn range(data: &[u8], from: u64, to: u64) -> &[u8] {
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(data.len());
    data.get(index(from)..index(to)).unwrap_or_default()
}
