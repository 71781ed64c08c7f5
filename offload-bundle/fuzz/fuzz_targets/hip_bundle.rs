//! HIP's bundles, compressed or not; what is read can be written and reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::hip_bundle::{bundles, inflate, read_all, write};

fuzz_target!(|data: &[u8]| {
    for bundle in bundles(data).unwrap_or_default() {
        let _ = bundle.plain();
    }
    let Ok(data) = inflate(data) else { return };
    let Ok(entries) = read_all(&data) else { return };
    let given: Vec<(&str, &[u8])> = entries.iter().map(|entry| (entry.id, entry.image)).collect();
    // Images may overlap, so that what is written is larger than what was read.
    if given.iter().map(|(_, image)| image.len()).sum::<usize>() > 1 << 24 {
        return;
    }
    let written = write(&given, 1);
    let again = read_all(&written).expect("what was written");
    assert_eq!(again.iter().map(|entry| (entry.id, entry.image)).collect::<Vec<_>>(), given);
});
