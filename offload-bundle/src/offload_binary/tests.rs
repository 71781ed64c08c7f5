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
    // The value has its recorded length, whatever follows it.
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

/// What was read, without where.
fn contents<'a>(images: &[OffloadImage<'a>]) -> Vec<OffloadImage<'a>> {
    images.iter().map(|image| OffloadImage { image_offset: 0, ..image.clone() }).collect()
}

const FORMS: [Form; 5] = [
    Form::Version1,
    Form::Version2,
    Form::Version3(Packing::Plain),
    Form::Version3(Packing::Zstd(3)),
    Form::Version3(Packing::Zlib(6)),
];

#[test]
fn compressed_blobs_among_others() {
    let image = |arch, image| ImageToWrite {
        image_kind: ImageKind::Bitcode,
        offload_kinds: OffloadKinds::HIP,
        flags: 0,
        strings: vec![("arch", arch)],
        image,
    };
    let (first, second) = ([7; 5000], [9; 3]);
    let images = [image("gfx90a", &first[..]), image("gfx1030", &second)];
    let plain = write_all(&images, Form::Version3(Packing::Plain)).expect("small images");
    let packed = write_all(&images, Form::Version3(Packing::Zstd(5))).expect("small images");
    assert!(packed.len() < 400 && plain.len() > 5000);
    assert_eq!(inflate(&packed).expect("a sound blob"), plain);
    assert!(matches!(inflate(&plain), Ok(std::borrow::Cow::Borrowed(_))));
    let mixed = [&plain[..], &packed, &[0; 16], &plain].concat();
    assert!(read_all(&mixed).is_err());
    let inflated = inflate(&mixed).expect("sound blobs");
    assert_eq!(read_all(&inflated).expect("sound blobs").len(), 6);
    for len in 0..packed.len() {
        assert!(
            inflate(&packed[..len]).is_err()
                || packed[..len].iter().all(|&byte| byte == 0)
                || packed[len..].iter().all(|&byte| byte == 0)
        );
    }
    // A wrong size, and a start outside the file.
    for (at, number) in [(32, 1u64 << 40), (32, 39), (32, plain.len() as u64 + 8), (16, 48), (24, 1 << 40)] {
        let mut damaged = packed.clone();
        damaged[at..at + 8].copy_from_slice(&number.to_le_bytes());
        let inflated = inflate(&damaged);
        assert!(inflated.is_err() || inflated.is_ok_and(|blob| read_all(&blob).is_err()), "{at} {number}");
    }
}

proptest! {
    #[test]
    fn every_form_reads_the_same(
        images in prop::collection::vec(
            (0usize..7, 0u16..16, prop::collection::vec(("[a-z]{0,5}", "[ab]{0,4}"), 0..5), prop::collection::vec(any::<u8>(), 0..40)),
            0..4,
        )
    ) {
        let images: Vec<ImageToWrite<'_>> = images.iter().map(|(kind, kinds, strings, image)| ImageToWrite {
            image_kind: ImageKind::ALL[*kind],
            offload_kinds: OffloadKinds(*kinds),
            flags: 0,
            strings: strings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            image,
        }).collect();
        let written = FORMS.map(|form| write_all(&images, form).expect("small images"));
        let inflated = written.each_ref().map(|written| inflate(written).expect("what was written"));
        let read = inflated.each_ref().map(|inflated| contents(&read_all(inflated).expect("what was written")));
        prop_assert_eq!(read[0].len(), images.len());
        for (of_form, written) in read.iter().zip(&written) {
            prop_assert_eq!(of_form, &read[0]);
            prop_assert_eq!(written.len() % 8, 0);
        }
    }

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
