//! Fatbins and their payloads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::fatbin;

fuzz_target!(|data: &[u8]| {
    for entry in fatbin::read(data).unwrap_or_default() {
        let _ = entry.payload();
    }
});
