//! Writes strings into the offload binaries of compiled files, so that a property can be recorded after the
//! compilation.
//!
//! The rest of an object stays as it is: what lies behind a growing section moves, and the section headers are
//! updated. The index of symbols of an archive is corrected.

mod archive;
mod object;

use crate::error::{EditError, FormatError};
use crate::host_object::{self, FileKind};
use crate::offload_binary::{self, ImageToWrite};

/// An annotated file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotated {
    /// The whole file.
    pub bytes: Vec<u8>,
    /// Number of device images that have the string.
    pub images: usize,
}

/// Sets the string `key` of every device image to `value`, in an ELF object, an offload binary, or an archive of those.
///
/// # Errors
/// A damaged file, one without device images, or one of a kind that cannot be annotated.
pub fn annotate(data: &[u8], key: &str, value: &str) -> Result<Annotated, FormatError> {
    let annotated = match host_object::file_kind(data) {
        FileKind::Archive => archive::annotate(data, key, value)?,
        _ => of_file(data, key, value)?,
    };
    annotated.ok_or_else(|| FormatError::new(0, EditError::NoDeviceImages))
}

/// Returns `None` if the file has no device images.
fn of_file(data: &[u8], key: &str, value: &str) -> Result<Option<Annotated>, FormatError> {
    match host_object::file_kind(data) {
        FileKind::ElfRelocatable => object::annotate(data, key, value),
        // Newer versions allow an offload binary without images, of which nothing would be left.
        FileKind::OffloadBinary => rewrite(data, key, value).map(|done| (done.images > 0).then_some(done)),
        FileKind::ThinArchive => Err(FormatError::new(0, EditError::AnnotateThinArchive)),
        FileKind::Bitcode => Err(FormatError::new(0, EditError::AnnotateBitcode)),
        kind => Err(FormatError::new(0, EditError::NotAnObject(kind))),
    }
}

/// Rewrites consecutive offload binaries with the string in each.
fn rewrite(data: &[u8], key: &str, value: &str) -> Result<Annotated, FormatError> {
    let images = offload_binary::read_all(data)?;
    let mut bytes = Vec::with_capacity(data.len().saturating_add(64 * images.len()));
    for image in &images {
        let others = image.strings.iter().copied().filter(|(name, _)| *name != key);
        bytes.extend(offload_binary::write(&ImageToWrite {
            image_kind: image.image_kind,
            offload_kinds: image.offload_kinds,
            flags: image.flags,
            strings: others.chain([(key, value)]).collect(),
            image: image.image,
        }));
    }
    Ok(Annotated { bytes, images: images.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn strings(object: &[u8]) -> Vec<Option<String>> {
        let images = host_object::device_images(object).expect("a sound object");
        images.iter().map(|found| found.image.get("key").map(str::to_owned)).collect()
    }

    #[test]
    fn an_object_keeps_its_images_and_everything_behind_them() {
        let object = samples::host_object(&samples::offload_binaries());
        let before = host_object::device_images(&object).expect("a sound object");
        let entries = host_object::offload_entries(&object).expect("sound entries");
        for value in
            ["all", "no-all,sm_90", "a value much longer than what an object's alignment leaves room for by chance"]
        {
            let annotated = annotate(&object, "key", value).expect("an object with images");
            assert_eq!(annotated.images, 2);
            assert_eq!(strings(&annotated.bytes), [Some(value.to_owned()), Some(value.to_owned())]);
            let after = host_object::device_images(&annotated.bytes).expect("a sound object");
            for (before, after) in before.iter().zip(&after) {
                assert_eq!(before.image.image, after.image.image);
                assert_eq!(after.image.strings[..before.image.strings.len()], before.image.strings[..]);
            }
            assert_eq!(host_object::offload_entries(&annotated.bytes).expect("sound entries"), entries);
            // A second annotation replaces the first.
            let again = annotate(&annotated.bytes, "key", "none").expect("an object with images");
            assert_eq!(strings(&again.bytes), [Some("none".to_owned()), Some("none".to_owned())]);
        }
    }

    #[test]
    fn sections_in_one_another_are_refused() {
        // Headers with the offset in bytes 24 to 31 and the size behind it; the last one holds the sections' names.
        let object = samples::host_object(&samples::offload_binaries());
        let table = usize::try_from(crate::bytes::u64_at(&object, 0x28, "").expect("a table")).expect("a small file");
        let count = usize::from(u16::from_le_bytes([object[60], object[61]]));
        let header = |index: usize| table + 64 * index;
        let images = host_object::sections(&object).expect("sections");
        let device = images.iter().position(host_object::holds_device_code).expect("device code");
        let device_offset = object[header(device) + 24..][..8].to_vec();
        for index in (1..count).filter(|index| *index != device) {
            let mut damaged = object.clone();
            if damaged[header(index) + 4] == 8 || damaged[header(index) + 32..][..8] == [0; 8] {
                continue;
            }
            damaged[header(index) + 24..][..8].copy_from_slice(&device_offset);
            assert!(annotate(&damaged, "key", "all").is_err(), "section {index}");
        }
    }

    #[test]
    fn members_of_archives_and_offload_binaries() {
        let object = samples::host_object(&samples::offload_binaries());
        let plain = samples::host_object(&[]);
        let archive =
            samples::archive(&[("a_name_longer_than_sixteen_bytes.o", &object), ("plain.o", &plain), ("b.o", b"odd")]);
        let annotated = annotate(&archive, "key", "all").expect("an archive with images");
        let members = crate::archive::members(&annotated.bytes).expect("a sound archive");
        let data = |index: usize| match members[index].data {
            crate::archive::MemberData::Inline(data) => data,
            crate::archive::MemberData::Thin { .. } => panic!("a thin member"),
        };
        assert_eq!(strings(data(0)), [Some("all".to_owned()), Some("all".to_owned())]);
        assert_eq!((data(1), data(2)), (&plain[..], &b"odd"[..]));
        let blob = annotate(&samples::offload_binaries(), "key", "all").expect("offload binaries");
        assert_eq!(offload_binary::read_all(&blob.bytes).expect("sound blobs")[1].get("key"), Some("all"));
    }

    #[test]
    fn what_cannot_be_annotated() {
        for (data, reason) in [
            (&samples::host_object(&[])[..], "no device images"),
            (b"BC\xc0\xde", "bitcode"),
            (b"!<thin>\n", "thin archive"),
            (b"text", "no object file"),
        ] {
            let error = annotate(data, "key", "all").expect_err("nothing to write into");
            assert!(error.to_string().contains(reason), "{error}");
        }
        let empty = [&b"\x10\xff\x10\xad\x02\0\0\0"[..], &[32, 32, 0].map(u64::to_le_bytes).concat()].concat();
        assert_eq!(offload_binary::read_all(&empty), Ok(Vec::new()));
        let error = annotate(&empty, "key", "all").expect_err("nothing to write into");
        assert_eq!(error.kind, EditError::NoDeviceImages.into());
        let object = samples::host_object(&samples::offload_binaries());
        let archive = samples::archive(&[("a.o", &object)]);
        for damaged in [&object, &archive] {
            for end in (0..damaged.len()).step_by(7) {
                let _ = annotate(&damaged[..end], "key", "all");
            }
        }
    }
}
