//! Files without some of their images, and with images stored otherwise: what comes out is checked by the library itself, and must be readable and no larger.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::coverage::{Driver, Gpus};
use offload_bundle::fatbin::StoreMode;
use offload_bundle::recompress::{concatenate, recompress};
use offload_bundle::selection::Selector;
use offload_bundle::strip::{Choice, strip, strip_equal, strip_for};
use offload_bundle::{GpuArch, listing};

fuzz_target!(|data: &[u8]| {
    let drop: Vec<Selector> = ["ptx", "sm_80", "gfx90a"].iter().map(|word| word.parse().expect("a selector")).collect();
    for choice in
        [Choice { drop: drop.clone(), ..Choice::default() }, Choice { drop, allow_empty: true, ..Choice::default() }]
    {
        if let Ok(stripped) = strip(data, &choice) {
            assert!(stripped.bytes.len() <= data.len() || stripped.summary.dropped.is_empty());
            // Not `list`, which also reads the unchanged images.
            let mut count = 0;
            let counted = listing::visit(&stripped.bytes, offload_bundle::archive::reject_thin_members, |_| {
                count += 1;
                Ok(())
            });
            counted.expect("what was written");
            assert_eq!(count, stripped.summary.kept);
        }
    }
    let nvidia = vec![GpuArch::plain(80), GpuArch::plain(90)];
    let gpus = Gpus { nvidia, amd: vec!["gfx90a".parse().expect("a GPU")] };
    for allow_empty in [false, true] {
        if let Ok(stripped) = strip_for(data, &gpus, Driver::NewEnough, allow_empty) {
            assert!(stripped.bytes.len() <= data.len() || stripped.summary.dropped.is_empty());
        }
    }
    if let Ok((stripped, _)) = strip_equal(data) {
        assert!(stripped.bytes.len() <= data.len() || stripped.summary.dropped.is_empty());
    }
    // Checks by itself that the images are the same.
    for mode in [StoreMode::None, StoreMode::Speed, StoreMode::Balance] {
        let _ = recompress(data, mode);
        let _ = concatenate(data, mode);
    }
});
