//! Round trips, and versions that no tool at hand writes.

use proptest::prelude::*;

use super::*;

/// A blob of version 2 or 3 with two images, by hand.
fn newer(version: u32, inflated: u64) -> Vec<u8> {
    let header = if version == 3 { 40u64 } else { 32 };
    let strings_at = header + 80;
    let text_at = strings_at + 24;
    let image_at = text_at + 16;
    let mut out = MAGIC.to_vec();
    out.extend(version.to_le_bytes());
    for number in [image_at + 16, header, 2] {
        out.extend(number.to_le_bytes());
    }
    if version == 3 {
        out.extend(inflated.to_le_bytes());
    }
    for image in 0..2u64 {
        out.extend([2, 0, 2, 0, 0, 0, 0, 0]);
        // The second entry has no strings.
        for number in [strings_at, 1 - image, image_at + image * 8, 8] {
            out.extend(number.to_le_bytes());
        }
    }
    // The value is as long as it says, whatever follows it.
    for number in [text_at, text_at + 5, 5] {
        out.extend(number.to_le_bytes());
    }
    out.extend(b"arch\0sm_90XXXXXX");
    out.extend(b"BC\xc0\xde1234BC\xc0\xde5678");
    out
}

#[test]
fn versions_2_and_3() {
    for version in [2, 3] {
        let blob = newer(version, 0);
        let twice = [blob.clone(), vec![0; 8], blob.clone(), vec![0; 3]].concat();
        let images = read_all(&twice).expect("a sound blob");
        assert_eq!(images.len(), 4);
        assert_eq!(images[0].strings, [("arch", "sm_90")]);
        assert_eq!((images[1].arch(), images[1].image), ("", &b"BC\xc0\xde5678"[..]));
        let at = usize::try_from(images[3].image_offset).expect("small");
        assert_eq!(&twice[at..at + 8], images[3].image);
    }
}

#[test]
fn compressed_and_unknown_versions_are_refused() {
    let error = read_all(&newer(3, 1000)).expect_err("compressed");
    assert_eq!(error.to_string(), "compressed offload binary (version 3), which is not supported at offset 0x20");
    let mut blob = newer(2, 0);
    blob[4] = 4;
    let error = read_all(&blob).expect_err("unknown");
    assert_eq!(error.to_string(), "offload binary of unknown version 4 at offset 0x4");
}

#[test]
fn strings_out_of_bounds_are_errors() {
    let good = newer(2, 0);
    // The value's length, the key's offset, the number of strings.
    for at in [112 + 16, 112, 32 + 16] {
        let mut blob = good.clone();
        blob[at..at + 8].copy_from_slice(&(u64::MAX / 24).to_le_bytes());
        assert!(read_all(&blob).is_err(), "{at}");
    }
}

#[test]
fn kinds_have_names() {
    assert_eq!(OffloadKinds(3).to_string(), "openmp+cuda");
    assert_eq!(OffloadKinds(0).to_string(), "none");
    assert_eq!(OffloadKinds(0x14).to_string(), "hip+0x10");
    assert!(OffloadKinds(3).contains(OffloadKinds::CUDA) && !OffloadKinds::CUDA.contains(OffloadKinds(3)));
    assert_eq!(ImageKind::ALL.map(|kind| kind.to_string()).join(" "), "none o bc cubin fatbin s spv");
}

proptest! {
    #[test]
    fn written_images_are_read_back(
        images in prop::collection::vec(
            (0usize..7, 0u16..16, any::<u32>(), prop::collection::vec(("[a-z]{0,5}", "[ab]{0,4}"), 0..5), prop::collection::vec(any::<u8>(), 0..40)),
            0..4,
        )
    ) {
        let mut data = Vec::new();
        for (kind, kinds, flags, strings, image) in &images {
            let strings = strings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let blob = write(&ImageToWrite {
                image_kind: ImageKind::ALL[*kind],
                offload_kinds: OffloadKinds(*kinds),
                flags: *flags,
                strings,
                image,
            });
            prop_assert_eq!(blob.len() % 8, 0);
            data.extend(blob);
        }
        let read = read_all(&data).expect("what was written");
        prop_assert_eq!(read.len(), images.len());
        for (found, (kind, kinds, flags, strings, image)) in read.iter().zip(&images) {
            prop_assert_eq!(found.image_kind, ImageKind::ALL[*kind]);
            prop_assert_eq!((found.offload_kinds, found.flags), (OffloadKinds(*kinds), *flags));
            let expected: Vec<_> = strings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            prop_assert_eq!(&found.strings, &expected);
            prop_assert_eq!(found.image, &image[..]);
            let at = usize::try_from(found.image_offset).expect("small");
            prop_assert_eq!(&data[at..at + image.len()], &image[..]);
        }
    }
}
