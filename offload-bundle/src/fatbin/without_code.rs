//! Large cubins without their machine code: a reader of their tables needs a small part of them.

use std::borrow::Cow;
use std::ops::Range;

use object::Endianness;
use object::elf::{FileHeader64, SHF_EXECINSTR, SHT_PROGBITS, SectionHeader64};
use object::read::elf::{FileHeader, SectionHeader};

use super::{Compression, EntryKind, FatbinEntry};
use crate::FormatError;
use crate::compression::{self, Method};
use crate::cubin;
use crate::elf_sections::{self, ElfParts};

/// The size in bytes from which on an image takes too much memory to hold several at once. Those of NCCL 2.32 have up to 160 MB.
const LARGE: u64 = 16 << 20;

impl<'a> FatbinEntry<'a> {
    /// The payload for a reader of its tables. Zeros stand for the machine code of a large cubin: they take no memory.
    ///
    /// # Errors
    /// Those of [`FatbinEntry::payload`].
    pub(crate) fn payload_for_tables(&self) -> Result<Cow<'a, [u8]>, FormatError> {
        let is_large =
            self.kind == EntryKind::Elf && self.compression == Compression::Zstd && self.uncompressed_size > LARGE;
        let image =
            (is_large && self.part.is_none()).then(|| without_code(self.stored, self.uncompressed_size)).flatten();
        image.map_or_else(|| self.payload(), |image| Ok(Cow::Owned(image)))
    }
}

/// A compressed cubin of `size` bytes without its code; `None` if it is damaged. It is decompressed twice: the table of its sections is the last
/// that comes.
fn without_code(stored: &[u8], size: u64) -> Option<Vec<u8>> {
    let start = compression::start(Method::Zstd, stored, size_of::<FileHeader64<Endianness>>()).ok()?;
    let header = FileHeader64::<Endianness>::parse(start.as_slice()).ok()?;
    let endian = header.endian().ok()?;
    let mut parts = ElfParts::of_header(header, endian)?;
    let mut table = vec![0; usize::try_from(parts.table.end.checked_sub(parts.table.start)?).ok()?];
    // This also shows that it is as large as recorded.
    read(stored, size, &[parts.table.clone()], |at, bytes| put(&mut table, at - parts.table.start, bytes))?;
    let count = usize::from(header.e_shnum(endian));
    let (sections, _) = object::slice_from_bytes::<SectionHeader64<Endianness>>(&table, count).ok()?;
    let is_code = |section: &&SectionHeader64<Endianness>| {
        section.sh_type(endian) == SHT_PROGBITS && section.sh_flags(endian).contains(SHF_EXECINSTR)
    };
    for section in sections.iter().filter(|section| cubin::is_in_file(section.sh_type(endian).0)) {
        parts.add(section.sh_offset(endian), section.sh_size(endian), is_code(&section))?;
    }
    let left = elf_sections::between(&parts.apart()?, size);
    let mut image = vec![0; usize::try_from(size).ok()?];
    read(stored, size, &left, |at, bytes| put(&mut image, at, bytes))?;
    // The names are among what was left. A flag alone, which may be damaged, does not make a section code.
    let names = header.section_strings(endian, image.as_slice(), sections).ok()?;
    let is_named_code =
        |section: &SectionHeader64<_>| section.name(endian, names).is_ok_and(|name: &[u8]| name.starts_with(b".text."));
    sections.iter().filter(is_code).all(is_named_code).then_some(image)
}

/// Decompresses, and passes on what is in these ranges, which are in order.
fn read(stored: &[u8], size: u64, ranges: &[Range<u64>], mut take: impl FnMut(u64, &[u8])) -> Option<()> {
    let mut see = |at: u64, bytes: &[u8]| {
        for range in ranges {
            let (start, end) = (range.start.max(at), range.end.min(at + bytes.len() as u64));
            let inside = |place: u64| usize::try_from(place - at).ok();
            if start < end
                && let Some(part) = inside(start).zip(inside(end)).and_then(|(start, end)| bytes.get(start..end))
            {
                take(start, part);
            }
        }
    };
    compression::zstd_in_order(stored, size, &mut see).ok()
}

fn put(image: &mut [u8], at: u64, bytes: &[u8]) {
    let place = usize::try_from(at).ok().and_then(|at| image.get_mut(at..at.checked_add(bytes.len())?));
    if let Some(place) = place {
        place.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::samples;

    /// A cubin with 16 bytes of code, which its sections say to be code.
    fn sample() -> Vec<u8> {
        let mut cubin = samples::cubin("sm_90".parse().expect("an architecture"), false);
        let table = usize::try_from(u64::from_le_bytes(cubin[40..48].try_into().expect("8 bytes"))).expect("an offset");
        cubin[table + 64 + 8] = 6;
        cubin
    }

    #[test]
    fn everything_but_the_code() {
        let whole = sample();
        let stored = compression::zstd(&whole, 3).expect("compressed");
        let image = without_code(&stored, whole.len() as u64).expect("an image");
        let differing: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != image[*at]).collect();
        assert_eq!((whole.len(), differing), (image.len(), (64..80).collect()));
        let read = |bytes| cubin::parse(bytes).map(|cubin| (cubin.symbols().to_vec(), cubin.shape())).expect("a cubin");
        assert_eq!(read(&whole), read(&image));
    }

    #[test]
    fn what_is_not_as_recorded_is_left_to_the_other_reader() {
        let whole = sample();
        let stored = compression::zstd(&whole, 3).expect("compressed");
        assert_eq!(without_code(&stored, whole.len() as u64 + 1), None);
        assert_eq!(without_code(&stored[..stored.len() - 1], whole.len() as u64), None);
        assert_eq!(without_code(b"text", 4), None);
    }

    proptest! {
        #[test]
        fn a_damaged_cubin_reads_as_it_would_whole(at in 0..900_usize, value in any::<u8>()) {
            let mut whole = sample();
            if let Some(byte) = whole.get_mut(at) { *byte = value }
            let stored = compression::zstd(&whole, 3).expect("compressed");
            if let Some(image) = without_code(&stored, whole.len() as u64) {
                let read = |bytes| cubin::parse(bytes).map(|cubin| (cubin.symbols().to_vec(), cubin.shape()));
                prop_assert_eq!(read(&whole), read(&image));
            }
        }
    }
}
