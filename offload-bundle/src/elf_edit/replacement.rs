//! Stretches of a file that get other bytes.

use super::tables::put;

/// A stretch of a file that gets other bytes, at most as many.
pub(crate) struct Replacement {
    /// Where it starts in the file.
    pub offset: u64,
    /// How many bytes it has now.
    pub len: u64,
    /// What stands there afterwards.
    pub parts: Vec<ReplacementPart>,
}

/// A part of what stands in a stretch of a file afterwards.
pub(crate) enum ReplacementPart {
    /// New bytes.
    Bytes(Vec<u8>),
    /// A stretch of the file as it was, by its first byte and the one behind it. Containers of gigabytes are not copied.
    Range(u64, u64),
}

impl ReplacementPart {
    /// Its bytes, given the file as it was.
    pub fn bytes<'a>(&'a self, data: &'a [u8]) -> &'a [u8] {
        match self {
            ReplacementPart::Bytes(bytes) => bytes,
            ReplacementPart::Range(from, to) => range(data, *from, *to),
        }
    }
}

impl Replacement {
    /// Where the stretch ends.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// How many bytes it has afterwards.
    pub fn size(&self) -> u64 {
        let size = |part: &ReplacementPart| match part {
            ReplacementPart::Bytes(bytes) => bytes.len() as u64,
            ReplacementPart::Range(from, to) => to.saturating_sub(*from),
        };
        self.parts.iter().map(size).fold(0, u64::saturating_add)
    }

    /// Writes it into `file`, which is a copy of `data`, with zeros behind it.
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

/// `data[from..to]`, as much of it as there is.
pub(crate) fn range(data: &[u8], from: u64, to: u64) -> &[u8] {
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(data.len());
    data.get(index(from)..index(to)).unwrap_or_default()
}
