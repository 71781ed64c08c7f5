//! Bundles as files and sections store them: several one behind another, some of them compressed.

use std::borrow::Cow;

use super::compressed::Packed;
use super::{BundleEntry, COMPRESSED_MAGIC, HIP_ALIGNMENT, header, read_all, read_one};
use crate::bytes::{slice, zeros_from};
use crate::elf_edit::{ReplacementPart, range};
use crate::error::{EditError, FormatError};

/// One of the bundles that lie one behind another.
#[derive(Debug, Clone, Copy)]
pub struct StoredBundle<'a> {
    /// Where it starts in the data.
    pub offset: u64,
    /// All of it, as stored.
    pub bytes: &'a [u8],
    packed: Option<Packed<'a>>,
}

/// Finds the bundles in `data`, compressed ones too, with nothing but zeros between them.
///
/// # Errors
/// Data that is not a bundle, a bundle that extends beyond it, and a damaged header of a compressed one. Offsets are those in `data`.
pub fn bundles(data: &[u8]) -> Result<Vec<StoredBundle<'_>>, FormatError> {
    let mut found = Vec::new();
    let mut start = zeros_from(data, 0);
    while start < data.len() as u64 {
        let bundle = bundle_at(data, start)?;
        let end = start + bundle.bytes.len() as u64;
        found.push(bundle);
        start = end + zeros_from(data, end);
    }
    Ok(found)
}

/// The bundle at `start`, whatever follows it.
///
/// # Errors
/// Those of [`bundles`].
pub(crate) fn bundle_at(data: &[u8], start: u64) -> Result<StoredBundle<'_>, FormatError> {
    let rest = slice(data, start, (data.len() as u64).saturating_sub(start), "the bundle")?;
    let packed = match rest.starts_with(&COMPRESSED_MAGIC) {
        true => Some(Packed::read(rest).map_err(|error| error.shifted(start))?),
        false => None,
    };
    let end = match &packed {
        Some(packed) => start + packed.total,
        None => read_one(data, start, &mut Vec::new())?,
    };
    Ok(StoredBundle { offset: start, bytes: range(data, start, end), packed })
}

impl<'a> StoredBundle<'a> {
    /// Whether it is compressed.
    pub fn is_compressed(&self) -> bool {
        self.packed.is_some()
    }

    /// The size in bytes that a compressed one records for the bundle; 0 for others.
    pub(crate) fn inflated_size(&self) -> u64 {
        self.packed.map_or(0, |packed| packed.size)
    }

    /// The bundle, decompressed if it is compressed: see [`read_all`].
    ///
    /// # Errors
    /// A damaged compressed bundle: its size and its digest must match. The offset is one in the data that holds the bundle.
    pub fn plain(&self) -> Result<Cow<'a, [u8]>, FormatError> {
        match &self.packed {
            Some(packed) => packed.inflate().map(Cow::Owned).map_err(|error| error.shifted(self.offset)),
            None => Ok(Cow::Borrowed(self.bytes)),
        }
    }

    /// The bundle without some of its entries, in the same form and with the same alignment. `goes` has one value for each entry, `base` is
    /// where the data with the bundle starts in the file.
    ///
    /// # Errors
    /// A damaged bundle, or a compressed one that would become larger.
    pub(crate) fn without(&self, goes: &[bool], base: u64) -> Result<Vec<ReplacementPart>, FormatError> {
        let plain = self.plain()?;
        let entries = read_all(&plain).map_err(|error| error.shifted(self.offset))?;
        let alignment = alignment(&entries);
        let stay = entries.iter().zip(goes).filter(|(_, goes)| !**goes).map(|(entry, _)| entry);
        let stay: Vec<&BundleEntry<'_>> = stay.collect();
        let sizes: Vec<(&str, u64)> = stay.iter().map(|entry| (entry.id, entry.image.len() as u64)).collect();
        let table = header(&sizes, alignment);
        let mut size = table.len() as u64;
        let mut parts = vec![ReplacementPart::Bytes(table)];
        // Where the images lie among the parts: in the file, or in the decompressed bundle.
        let origin = if self.is_compressed() { 0 } else { base.saturating_add(self.offset) };
        for entry in stay {
            let padding = size.next_multiple_of(alignment) - size;
            parts.push(ReplacementPart::Bytes(vec![0; usize::try_from(padding).unwrap_or(0)]));
            let from = origin.saturating_add(entry.offset);
            parts.push(ReplacementPart::Range(from, from.saturating_add(entry.image.len() as u64)));
            size = size.saturating_add(padding).saturating_add(entry.image.len() as u64);
        }
        // Images of a damaged bundle may overlap.
        let most = plain.len() as u64;
        if size > most {
            return Err(FormatError::new(self.offset, EditError::LargerBundle { size, most }));
        }
        let Some(packed) = &self.packed else { return Ok(parts) };
        let mut bundle = Vec::with_capacity(plain.len());
        parts.iter().for_each(|part| bundle.extend_from_slice(part.bytes(&plain)));
        let packed = packed.repack(&bundle, self.bytes.len() as u64).map_err(|error| error.shifted(self.offset))?;
        Ok(vec![ReplacementPart::Bytes(packed)])
    }
}

/// The alignment of the images, at most that of HIP.
fn alignment(entries: &[BundleEntry<'_>]) -> u64 {
    let offsets = entries.iter().filter(|entry| !entry.image.is_empty()).map(|entry| entry.offset);
    offsets.fold(HIP_ALIGNMENT, |alignment, offset| alignment.min(1 << offset.trailing_zeros().min(12)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hip_bundle::{CompressedMethod, CompressedVersion, compress, write};

    const ENTRIES: [(&str, &[u8]); 3] = [
        ("host-x86_64-unknown-linux-gnu-", b""),
        ("hip-amdgcn-amd-amdhsa--gfx90a", &[1; 5000]),
        ("hip-amdgcn-amd-amdhsa--gfx1100", &[2; 3000]),
    ];

    fn without(data: &[u8], index: usize, goes: &[bool]) -> Vec<u8> {
        let bundle = bundles(data).unwrap()[index];
        let parts = bundle.without(goes, 0).unwrap();
        parts.iter().flat_map(|part| part.bytes(data).to_vec()).collect()
    }

    #[test]
    fn what_stays_is_written_as_if_nothing_else_had_been_there() {
        for alignment in [1, 256, HIP_ALIGNMENT] {
            let plain = write(&ENTRIES, alignment);
            let wanted = write(&[ENTRIES[0], ENTRIES[2]], alignment);
            let version = CompressedVersion::V3;
            let packed = compress(&plain, version, CompressedMethod::Zstd(3)).unwrap();
            let mut both = plain.clone();
            both.resize(plain.len().next_multiple_of(4096), 0);
            both.extend_from_slice(&packed);
            let found = bundles(&both).unwrap();
            assert_eq!(found.iter().map(StoredBundle::is_compressed).collect::<Vec<_>>(), [false, true]);
            let goes = [false, true, false];
            assert_eq!(without(&both, 0, &goes), wanted);
            let repacked = without(&both, 1, &goes);
            assert!(repacked.starts_with(&packed[..8]));
            assert_eq!(bundles(&repacked).unwrap()[0].plain().unwrap(), wanted);
        }
    }

    #[test]
    fn a_compressed_bundle_that_cannot_shrink_is_an_error() {
        let noise: Vec<u8> = (0..2000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let plain = write(&[("hip-amdgcn-amd-amdhsa--gfx90a", &noise)], 1);
        let packed = compress(&plain, CompressedVersion::V2, CompressedMethod::Zlib(6)).unwrap();
        let error = Packed::read(&packed).unwrap().repack(&plain, 100).unwrap_err();
        assert!(error.to_string().contains("would take"), "{error}");
    }
}
