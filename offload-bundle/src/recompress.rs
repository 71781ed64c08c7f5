//! Stores the images of fatbins in another form: compressed better, or so that older drivers read them.
//!
//! In a program or shared library nothing moves in memory, as with [`strip`](crate::strip): a fatbin that would become larger than it is has no room.

use std::hash::{DefaultHasher, Hash, Hasher};

use rayon::prelude::*;

use crate::cubin;
use crate::elf_edit::{self, Replacement};
use crate::error::{EditError, FileError, FormatError};
use crate::fatbin::{self, Container, EntryEdit, StoreMode};
use crate::host_object::{self, CarrierKind, FileKind};
use crate::listing::{self, Row};

/// A file with its images stored in another form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recompressed {
    /// The whole file; empty if nothing changes.
    pub bytes: Vec<u8>,
    /// Bytes that are no longer used and stay in the file, as zeros.
    pub zeroed: u64,
    /// The number of images that are stored otherwise.
    pub changed: usize,
}

/// Stores the images of a fatbin, or of the fatbins in an object, program or shared library, in this mode. Other files stay as they are.
///
/// # Errors
/// A damaged file, a fatbin that has no room in its program, library or object, and an archive.
pub fn recompress(data: &[u8], mode: StoreMode) -> Result<Recompressed, FileError> {
    recompress_as(data, Form { mode, fewest_concatenated: None })
}

/// The same with the images of each fatbin that go together, two or more, as one concatenation, as `fatbinary --concat` of CUDA 13.5 writes it.
///
/// # Errors
/// Those of [`recompress`].
pub fn concatenate(data: &[u8], mode: StoreMode) -> Result<Recompressed, FileError> {
    recompress_as(data, Form { mode, fewest_concatenated: Some(2) })
}

/// The same as nvFatbin of CUDA 13.5 writes it: an image that is alone becomes a concatenation, too, although that saves nothing.
///
/// # Errors
/// Those of [`recompress`].
pub fn concatenate_all(data: &[u8], mode: StoreMode) -> Result<Recompressed, FileError> {
    recompress_as(data, Form { mode, fewest_concatenated: Some(1) })
}

/// How the images of a fatbin are to be stored.
#[derive(Clone, Copy)]
struct Form {
    mode: StoreMode,
    /// How many images make a concatenation, if there are to be any.
    fewest_concatenated: Option<usize>,
}

fn recompress_as(data: &[u8], form: Form) -> Result<Recompressed, FileError> {
    let (result, changed) = match host_object::file_kind(data) {
        FileKind::Archive | FileKind::ThinArchive => {
            return Err(FormatError::new(0, EditError::RecompressArchive).into());
        }
        FileKind::Fatbin => {
            let (edits, changed) = edits(data, 0, form)?;
            ((elf_edit::spliced(data, &edits), 0), changed)
        }
        FileKind::ElfRelocatable | FileKind::ElfShared | FileKind::ElfExecutable if !cubin::is_cubin(data) => {
            in_elf(data, form)?
        }
        _ => ((Vec::new(), 0), 0),
    };
    let (bytes, zeroed) = result;
    if changed > 0 {
        verify(data, &bytes, form)?;
    }
    Ok(Recompressed { bytes: if changed > 0 { bytes } else { Vec::new() }, zeroed, changed })
}

/// The changes to an ELF file, made.
fn in_elf(data: &[u8], form: Form) -> Result<((Vec<u8>, u64), usize), FormatError> {
    let mut all = Vec::new();
    let mut changed = 0;
    for carrier in host_object::carriers(data)? {
        if !matches!(carrier.kind, CarrierKind::Fatbins | CarrierKind::RelocatableFatbins) {
            continue;
        }
        let within = |error: FormatError| error.within(&format!("section {}", carrier.section));
        let (edits, count) = edits(carrier.data, carrier.offset, form).map_err(within)?;
        edits.iter().try_for_each(Replacement::require_room).map_err(within)?;
        all.extend(edits);
        changed += count;
    }
    if changed == 0 {
        return Ok(((Vec::new(), 0), 0));
    }
    all.sort_by_key(|edit| edit.offset);
    let shrunk = elf_edit::shrink(data, &all)?;
    Ok(((shrunk.bytes, shrunk.zeroed), changed))
}

/// An edit for each fatbin in `data`, which starts at `base` of the file, of which an entry changes; and the number of those entries.
fn edits(data: &[u8], base: u64, form: Form) -> Result<(Vec<Replacement>, usize), FormatError> {
    let containers = fatbin::read_containers(data).map_err(|e| e.shifted(base))?;
    let edits: Vec<(Option<Replacement>, usize)> = containers
        .par_iter()
        .map(|container| edit(data, base, container, form).map_err(|e| e.shifted(base)))
        .collect::<Result<_, FormatError>>()?;
    let changed = edits.iter().map(|(_, count)| count).sum();
    Ok((edits.into_iter().filter_map(|(edit, _)| edit).collect(), changed))
}

/// The edit of one fatbin, with the number of the entries that change. The others stay byte for byte.
fn edit(
    data: &[u8],
    base: u64,
    container: &Container<'_>,
    form: Form,
) -> Result<(Option<Replacement>, usize), FormatError> {
    let mode = form.mode;
    if let Some(fewest) = form.fewest_concatenated {
        let edit = fatbin::concatenated(data, base, container, mode, fewest)?;
        let changed = if edit.is_some() { container.entries.len() } else { 0 };
        return Ok((edit, changed));
    }
    let entries: Vec<Option<Vec<u8>>> =
        container.entries.par_iter().map(|entry| fatbin::restored(entry, mode)).collect::<Result<_, FormatError>>()?;
    let changed = entries.iter().flatten().count();
    if changed == 0 {
        return Ok((None, 0));
    }
    let edits = entries.into_iter().map(|restored| restored.map_or(EntryEdit::Keep, EntryEdit::Replace));
    Ok((Some(fatbin::rewritten(data, base, container, edits)?), changed))
}

/// Reads the result, whose images must be the same but for how they are stored.
fn verify(before: &[u8], after: &[u8], form: Form) -> Result<(), FileError> {
    let unreadable = |error: FileError| FormatError::new(0, EditError::Unreadable(error.to_string()));
    let (mut before, mut after) = (contents(before)?, contents(after).map_err(unreadable)?);
    if form.fewest_concatenated.is_some() {
        // The images that go together stand behind the others.
        let key = |(row, digest): &(Row, u64)| (row.image.clone(), row.target.clone(), *digest);
        before.sort_by_cached_key(key);
        after.sort_by_cached_key(key);
    }
    match before == after {
        true => Ok(()),
        false => Err(FormatError::new(0, EditError::ImagesLost).into()),
    }
}

/// What must not change: all of the rows but how the images are stored, and the digests of the images.
fn contents(data: &[u8]) -> Result<Vec<(Row, u64)>, FileError> {
    let mut contents = Vec::new();
    listing::visit(data, crate::archive::reject_thin_members, |found| {
        // What cannot be read stays as it is stored.
        let payload = found.payload().unwrap_or_else(|_| found.stored().into());
        // The end of an uncompressed image that does not record its size is not known.
        let end = payload.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let mut hasher = DefaultHasher::new();
        payload.get(..end).unwrap_or_default().hash(&mut hasher);
        let row = Row { offset: 0, size: 0, compression: String::new(), uncompressed_size: None, ..found.row.clone() };
        contents.push((row, hasher.finish()));
        Ok(())
    })?;
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn compressions(data: &[u8]) -> Vec<String> {
        let rows = listing::list(data, crate::archive::reject_thin_members).expect("a sound file");
        rows.into_iter().map(|row| row.compression).collect()
    }

    #[test]
    fn every_mode_and_back() {
        let plain = samples::fatbin(false);
        let modes = [(StoreMode::Speed, "lz4"), (StoreMode::Balance, "zstd"), (StoreMode::Size, "zstd")];
        for (mode, compression) in modes {
            let packed = recompress(&plain, mode).expect("a sound fatbin");
            assert_eq!(packed.changed, 3);
            assert_eq!(compressions(&packed.bytes), [compression; 3]);
            // Each of two fatbins in a file.
            let both = recompress(&plain.repeat(2), mode).expect("sound fatbins");
            assert_eq!(both.bytes, packed.bytes.repeat(2));
            let back = recompress(&packed.bytes, StoreMode::None).expect("what was written");
            assert_eq!(back.bytes, plain);
        }
    }

    #[test]
    fn what_is_stored_so_stays() {
        let packed = samples::fatbin(true);
        for (data, mode) in [(&packed, StoreMode::Balance), (&samples::fatbin(false), StoreMode::None)] {
            assert_eq!(recompress(data, mode).expect("a sound fatbin").changed, 0);
        }
        let object = samples::host_object(&samples::offload_binaries());
        assert_eq!(recompress(&object, StoreMode::Size).expect("a sound object").changed, 0);
    }

    #[test]
    fn a_fatbin_without_room_is_an_error() {
        let object = samples::rdc_object(&["_1_a"], &[&samples::fatbin(true)]);
        let error = recompress(&object, StoreMode::None).expect_err("no room");
        assert!(error.to_string().contains("no room"), "{error}");
        let object = samples::rdc_object(&["_1_a"], &[&samples::fatbin(false)]);
        let packed = recompress(&object, StoreMode::Size).expect("room");
        assert_eq!(compressions(&packed.bytes), ["zstd"; 3]);
    }
}
