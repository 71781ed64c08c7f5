//! Concatenations: entries with several images whose payload is compressed as one, which `fatbinary --concat` of CUDA 13.5 writes.
//!
//! A concatenation has the header of an entry of the kind 0x100 and version 0.1, without an architecture or a name. Its option block is a
//! table: u32 number of images, u32 size of the table, then the header of each image with its tail, as that of an entry, but for u32 where the
//! image starts in the payload in place of the header's size, and its size there, which is a multiple of 8.
//!
//! Driver 580 passes over concatenations: `cuModuleLoadData` returns 209 for a fatbin of nothing else.

use std::ops::Range;

use super::recompress::{METHODS, StoreMode, original, packed};
use super::{ENTRY_HEADER_SIZE, EntryKind, FatbinEntry, Part, flag, read};
use crate::FormatError;
use crate::bytes::{pad_to_8, put, slice, u32_at, u64_at};

/// The kind of its entry.
pub(super) const KIND: EntryKind = EntryKind::Unknown(0x100);

/// Its number of images and its size, in bytes.
const TABLE_HEADER_SIZE: u64 = 8;

/// The images of a concatenation, at least one. Errors are relative to the data that its entry was read from.
pub(super) fn parts<'a>(concatenation: &FatbinEntry<'a>) -> Result<Vec<FatbinEntry<'a>>, FormatError> {
    let header = concatenation.header;
    let table_at = u64::from(u32_at(header, 0x14, "the table of the concatenation")?);
    let in_table = |error: FormatError| error.shifted(concatenation.offset.saturating_add(table_at));
    let size =
        u32_at(header, table_at + 4, "the table of the concatenation").map_err(|e| e.shifted(concatenation.offset))?;
    let table = slice(header, table_at, size.into(), "the table of the concatenation")
        .map_err(|e| e.shifted(concatenation.offset))?;
    let count = u32_at(table, 0, "the table of the concatenation").map_err(in_table)?;
    let (mut at, mut end) = (TABLE_HEADER_SIZE, 0);
    let mut parts = Vec::new();
    for _ in 0..count {
        let header = part_header(table, at).map_err(in_table)?;
        let place = concatenation.offset.saturating_add(table_at).saturating_add(at);
        let (image, range) = part(concatenation, header, place).map_err(|e| e.shifted(place))?;
        // Images that overlap could expand to any multiple of the payload.
        if range.start < end {
            return Err(FormatError::damaged(place, "image of a concatenation that overlaps the one before"));
        }
        end = range.end;
        parts.push(image);
        at += header.len() as u64;
    }
    // What this crate does not know must not be lost when the concatenation is written anew.
    if count == 0 || at != table.len() as u64 {
        let what = format!("concatenation of {count} images with a table of {} bytes", table.len());
        return Err(in_table(FormatError::damaged(0, what)));
    }
    Ok(parts)
}

/// The image of a header with its tail, which starts at `offset`, and its place in the payload. Errors are relative to the header.
fn part<'a>(
    concatenation: &FatbinEntry<'a>,
    header: &'a [u8],
    offset: u64,
) -> Result<(FatbinEntry<'a>, Range<u64>), FormatError> {
    let compression = concatenation.compression;
    let whole = match compression.method() {
        Some(_) => concatenation.uncompressed_size,
        None => concatenation.stored.len() as u64,
    };
    let start = u64::from(u32_at(header, 4, "the place of the image")?);
    let size = u64_at(header, 8, "the size of the image")?;
    let range = start..start.saturating_add(size);
    if range.end > whole {
        let what = format!("image of {size} bytes at {start} of a concatenation of {whole}");
        return Err(FormatError::damaged(4, what));
    }
    let image = read::entry(header, concatenation.stored, offset)?;
    if image.kind == KIND || image.compression.method().is_some() {
        return Err(FormatError::unsupported(0, "image of a concatenation that is compressed by itself"));
    }
    let fixed = concatenation.header.get(..ENTRY_HEADER_SIZE as usize).unwrap_or_default();
    let image = FatbinEntry {
        compression,
        uncompressed_size: if compression.method().is_some() { size } else { 0 },
        payload_offset: offset,
        part: Some(Part { range: range.clone(), whole, concatenation: concatenation.offset, header: fixed }),
        ..image
    };
    Ok((image, range))
}

/// The header with its tail that starts at `at` of the table. It does not record its size: its tail ends with its name or its options.
fn part_header(table: &[u8], at: u64) -> Result<&[u8], FormatError> {
    const WHAT: &str = "the header of the image in the concatenation";
    let fixed = slice(table, at, ENTRY_HEADER_SIZE, WHAT)?;
    let name = (u32_at(fixed, 0x20, WHAT)?, u32_at(fixed, 0x24, WHAT)?);
    let block = u64::from(u32_at(fixed, 0x14, WHAT)?);
    let text = match block {
        0 => (0, 0),
        _ => (u32_at(table, at + block, WHAT)?, u32_at(table, at + block + 4, WHAT)?),
    };
    // Each has one byte more: the NUL behind a name or options, or the zero in front of what a cubin has in their place.
    let end = |(start, len): (u32, u32)| (u64::from(start) + u64::from(len) + 1).next_multiple_of(8);
    let ends = [name, text].into_iter().filter(|(start, _)| *start != 0).map(end);
    slice(table, at, ends.fold(ENTRY_HEADER_SIZE, u64::max), WHAT)
}

/// The bytes of a concatenation of these images, which are what is left of one.
///
/// # Errors
/// A damaged payload, and one of more than 4 GiB.
pub(super) fn of_parts(images: &[&FatbinEntry<'_>]) -> Result<Vec<u8>, FormatError> {
    let Some((first, part)) = images.first().and_then(|first| Some((first, first.part.as_ref()?))) else {
        return Ok(Vec::new());
    };
    let room = first.stored.len();
    let mode = StoreMode::of(first.compression);
    let whole = write(images, part.header.to_vec(), mode)?;
    // What is left in a container in memory has to fit there.
    let is_larger = mode == StoreMode::Balance && whole.len() > room + first.header.len();
    if is_larger { write(images, part.header.to_vec(), StoreMode::Size) } else { Ok(whole) }
}

/// The images of a fatbin that `fatbinary --concat` puts together, at least `fewest` each.
pub(super) fn groups<'e, 'a>(entries: &'e [FatbinEntry<'a>], fewest: usize) -> Vec<Vec<&'e FatbinEntry<'a>>> {
    let kinds = [(EntryKind::Ptx, 0), (EntryKind::Elf, 0), (EntryKind::Elf, flag::FINALIZABLE)];
    let of_kind = |kind: (EntryKind, u64)| {
        let is_own = move |entry: &&FatbinEntry<'_>| kind == (entry.kind, entry.flags & flag::FINALIZABLE);
        entries.iter().filter(is_own).filter(|entry| is_complete(entry)).collect()
    };
    kinds.map(of_kind).into_iter().filter(|group: &Vec<_>| group.len() >= fewest).collect()
}

/// The bytes of a concatenation of these images.
///
/// # Errors
/// A damaged payload, and one of more than 4 GiB.
pub(super) fn of_images(images: &[&FatbinEntry<'_>], mode: StoreMode) -> Result<Vec<u8>, FormatError> {
    write(images, header(images), mode)
}

/// Whether its header is all that a table can hold.
fn is_complete(entry: &FatbinEntry<'_>) -> bool {
    part_header(entry.header, 0).is_ok_and(|header| header.len() == entry.header.len())
}

/// The first bytes of the header of a concatenation, without sizes.
fn header(images: &[&FatbinEntry<'_>]) -> Vec<u8> {
    let common = flag::BITS_64 | flag::DEBUG | flag::CUDA | flag::OPENCL;
    let common = common | flag::HOST_LINUX | flag::HOST_MAC | flag::HOST_WINDOWS;
    let flags = images.first().map_or(0, |first| first.flags & common);
    let mut header = vec![0; ENTRY_HEADER_SIZE as usize];
    put(&mut header, 0x00, &KIND.code().to_le_bytes());
    put(&mut header, 0x02, &0x0101_u16.to_le_bytes());
    put(&mut header, 0x14, &(ENTRY_HEADER_SIZE as u32).to_le_bytes());
    put(&mut header, 0x18, &1_u16.to_le_bytes());
    put(&mut header, 0x28, &flags.to_le_bytes());
    header
}

/// A concatenation behind the 64 bytes of this header.
fn write(images: &[&FatbinEntry<'_>], mut out: Vec<u8>, mode: StoreMode) -> Result<Vec<u8>, FormatError> {
    let at = images.first().map_or(0, |first| first.offset);
    let small =
        |size: usize| u32::try_from(size).map_err(|_| FormatError::unsupported(at, "concatenation of more than 4 GiB"));
    let mut table = vec![0; TABLE_HEADER_SIZE as usize];
    let mut payload = Vec::new();
    for image in images {
        let failed = |error| FormatError::new(image.payload_offset, error);
        let mut bytes = original(image).map_err(failed)?;
        pad_to_8(&mut bytes);
        let mut header = image.header.to_vec();
        put(&mut header, 0x04, &small(payload.len())?.to_le_bytes());
        put(&mut header, 0x08, &(bytes.len() as u64).to_le_bytes());
        put(&mut header, 0x10, &0_u32.to_le_bytes());
        put(&mut header, 0x28, &(image.flags & !METHODS).to_le_bytes());
        put(&mut header, 0x38, &0_u64.to_le_bytes());
        table.append(&mut header);
        payload.append(&mut bytes);
    }
    let size = small(table.len())?;
    put(&mut table, 0, &small(images.len())?.to_le_bytes());
    put(&mut table, 4, &size.to_le_bytes());
    let (stored, bit) = packed(&payload, mode).map_err(|error| FormatError::new(at, error))?;
    let flags = u64_at(&out, 0x28, "flags")? & !METHODS | bit;
    let header_size = small(out.len())?.saturating_add(size);
    put(&mut out, 0x04, &header_size.to_le_bytes());
    put(&mut out, 0x08, &(stored.len() as u64).next_multiple_of(8).to_le_bytes());
    put(&mut out, 0x10, &(if bit == 0 { 0 } else { small(stored.len())? }).to_le_bytes());
    put(&mut out, 0x28, &flags.to_le_bytes());
    put(&mut out, 0x38, &(if bit == 0 { 0 } else { payload.len() as u64 }).to_le_bytes());
    out.append(&mut table);
    out.extend_from_slice(&stored);
    // Headers are multiples of 8.
    pad_to_8(&mut out);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{BuilderOptions, Compression, FatbinBuilder, FatbinWriter, read};
    use super::*;
    use crate::arch::{ArchFeature, GpuArch};
    use crate::recompress::{concatenate, recompress};
    use crate::samples;
    use crate::strip::{Choice, strip};

    /// What an image is, wherever it is stored.
    type Contents = (EntryKind, GpuArch, Vec<u8>, Vec<u8>, Vec<u8>);

    fn contents(data: &[u8]) -> Vec<Contents> {
        let of = |entry: &FatbinEntry<'_>| {
            let payload = original(entry).expect("a sound payload");
            let text = |text: Option<&[u8]>| text.unwrap_or_default().to_vec();
            (entry.kind, entry.arch, payload, text(entry.identifier), text(entry.options.or(entry.compat)))
        };
        let mut contents: Vec<Contents> = read(data).expect("a sound fatbin").iter().map(of).collect();
        contents.sort_by(|a, b| (a.1, &a.2, &a.3, &a.4).cmp(&(b.1, &b.2, &b.3, &b.4)));
        contents
    }

    /// A fatbin with a cubin or PTX of each number, some of which have names and options.
    fn fatbin(images: &[(bool, u32, u8)]) -> Vec<u8> {
        let mut writer = FatbinWriter::new(BuilderOptions { compress_all: true, ..BuilderOptions::default() });
        for (is_ptx, number, text) in images {
            let feature = if number % 2 == 1 { ArchFeature::Accelerated } else { ArchFeature::Plain };
            let arch = GpuArch { number: *number, feature };
            let name = "a.cu".repeat(usize::from(text % 4));
            let options = "-O3 ".repeat(usize::from(text / 4 % 4));
            let ptx = format!(".version 8.7\n.target sm_90\n.global .u32 x{};\n", "y".repeat((*text).into()));
            let added = match is_ptx {
                true => writer.add_ptx(arch, ptx.as_bytes(), &name, &options),
                false => writer.add_cubin(arch, samples::cubin(arch, false), &name),
            };
            added.expect("a sound image");
        }
        writer.finish()
    }

    proptest! {
        #[test]
        fn the_images_stay_the_same(
            images in prop::collection::vec((any::<bool>(), 75u32..122, any::<u8>()), 0..7),
            mode in prop_oneof![Just(StoreMode::Speed), Just(StoreMode::Balance), Just(StoreMode::Size)],
        ) {
            let single = fatbin(&images);
            let together = concatenate(&single, mode).expect("a sound fatbin");
            // PTX, cubins, and those that the driver may finalize: one alone has nothing to go together with.
            let kinds = images.iter().map(|(is_ptx, number, _)| if *is_ptx { 0 } else { 1 + number / 100 });
            let kinds: Vec<u32> = kinds.collect();
            let has_two = |kind| kinds.iter().filter(|other| **other == kind).count() > 1;
            prop_assert_eq!(together.changed > 0, (0..=2).any(has_two));
            if together.changed == 0 {
                return Ok(());
            }
            prop_assert_eq!(contents(&single), contents(&together.bytes));
            let entries = read(&together.bytes).expect("what was written");
            let stored: u64 = entries.iter().map(FatbinEntry::stored_size).sum();
            prop_assert!(stored < together.bytes.len() as u64);
            let again = concatenate(&together.bytes, mode).expect("what was written");
            prop_assert_eq!(again.changed, 0);
            let apart = recompress(&together.bytes, StoreMode::Balance).expect("what was written");
            prop_assert_eq!(contents(&single), contents(&apart.bytes));
            prop_assert!(read(&apart.bytes).expect("what was written").iter().all(|entry| entry.part.is_none()));
            let mut builder = FatbinBuilder::new(BuilderOptions::default());
            entries.iter().for_each(|entry| builder.add_entry(entry).expect("a sound payload"));
            prop_assert_eq!(contents(&single), contents(&builder.finish().expect("entries")));
        }

        #[test]
        fn what_is_left_of_a_concatenation_is_one(
            images in prop::collection::vec((any::<bool>(), 75u32..122, any::<u8>()), 2..7),
            dropped in 75u32..122,
        ) {
            let together = concatenate(&fatbin(&images), StoreMode::Balance).expect("a sound fatbin");
            let before = if together.changed > 0 { together.bytes } else { fatbin(&images) };
            let arch = images.first().map_or(dropped, |(_, number, _)| *number);
            let drop = vec![format!("sm_{arch}").parse().expect("a selector")];
            let choice = Choice { drop, allow_empty: true, ..Choice::default() };
            let Ok(after) = strip(&before, &choice) else { return Ok(()) };
            let is_left = |contents: &Contents| contents.1 != GpuArch::plain(arch);
            let left: Vec<Contents> = contents(&before).into_iter().filter(is_left).collect();
            prop_assert_eq!(left, contents(&after.bytes));
            let parts = |data: &[u8]| {
                let entries = read(data).expect("a sound fatbin");
                entries.iter().filter(|entry| entry.arch != GpuArch::plain(arch) && entry.part.is_some()).count()
            };
            prop_assert_eq!(parts(&before), parts(&after.bytes));
        }
    }

    /// Two images as `fatbinary --concat` of CUDA 13.5 stores them, with payloads of 8 bytes, uncompressed.
    fn by_hand() -> Vec<u8> {
        let mut table = [2_u32, 8 + 2 * 64].map(u32::to_le_bytes).concat();
        for (place, number) in [(0_u32, 80_u32), (8, 90)] {
            let mut header = vec![0; 64];
            put(&mut header, 0x00, &1_u16.to_le_bytes());
            put(&mut header, 0x02, &0x0101_u16.to_le_bytes());
            put(&mut header, 0x04, &place.to_le_bytes());
            put(&mut header, 0x08, &8_u64.to_le_bytes());
            put(&mut header, 0x18, &[0, 0, 9, 0]);
            put(&mut header, 0x1c, &number.to_le_bytes());
            put(&mut header, 0x28, &0x11_u64.to_le_bytes());
            table.extend(header);
        }
        let mut entry = vec![0; 64];
        put(&mut entry, 0x00, &0x100_u16.to_le_bytes());
        put(&mut entry, 0x02, &0x0101_u16.to_le_bytes());
        put(&mut entry, 0x04, &(64 + table.len() as u32).to_le_bytes());
        put(&mut entry, 0x08, &16_u64.to_le_bytes());
        put(&mut entry, 0x14, &0x40_u32.to_le_bytes());
        put(&mut entry, 0x28, &0x11_u64.to_le_bytes());
        let contents = [&entry[..], &table, b"first\0\0\0second\0\0"].concat();
        [&super::super::file_header(contents.len() as u64)[..], &contents].concat()
    }

    #[test]
    fn the_layout() {
        let data = by_hand();
        let entries = read(&data).expect("a sound fatbin");
        let seen: Vec<_> = entries
            .iter()
            .map(|entry| {
                (entry.arch.number, entry.payload().expect("a payload"), entry.compression, entry.stored_size())
            })
            .collect();
        assert_eq!(
            seen,
            [(80, b"first"[..].into(), Compression::None, 8), (90, b"second"[..].into(), Compression::None, 8)]
        );
    }

    #[test]
    fn a_damaged_table_is_an_error() {
        // In the file: the table behind two headers of 16 and 64 bytes, the first image's header behind 8 bytes.
        let damages: [(u64, u32, &str); 7] = [
            (16 + 0x14, 1 << 30, "the table of the concatenation goes beyond"),
            (80, 0, "concatenation of 0 images with a table of 136 bytes"),
            (80, 1, "concatenation of 1 images with a table of 136 bytes"),
            (80, 3, "the header of the image in the concatenation goes beyond"),
            (88 + 4, 9, "image of 8 bytes at 9 of a concatenation of 16"),
            (88 + 64 + 4, 7, "image of a concatenation that overlaps the one before"),
            (88 + 0x28, 0x8011, "image of a concatenation that is compressed by itself"),
        ];
        for (at, number, what) in damages {
            let mut data = by_hand();
            put(&mut data, at, &number.to_le_bytes());
            let error = read(&data).expect_err(what);
            assert!(error.to_string().contains(what), "{error}");
            assert!(error.offset >= 16, "{error}");
        }
    }
}
