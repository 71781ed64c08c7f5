//! Offload binaries; what is read and can be written again must read the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::offload_binary::{ImageToWrite, inflate, read_all, write};

fuzz_target!(|data: &[u8]| {
    let Ok(data) = inflate(data) else { return };
    for image in read_all(&data).unwrap_or_default() {
        // Version 1 ends strings with a NUL, so one that holds a NUL cannot be written.
        if image.strings.iter().any(|(key, value)| key.contains('\0') || value.contains('\0')) {
            continue;
        }
        let written = write(&ImageToWrite {
            image_kind: image.image_kind,
            offload_kinds: image.offload_kinds,
            flags: image.flags,
            strings: image.strings.clone(),
            image: image.image,
        });
        let again = read_all(&written).expect("what was written");
        assert_eq!(again[0].strings, image.strings);
        assert_eq!(again[0].image, image.image);
    }
});
