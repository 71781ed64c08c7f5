//! Archives of every kind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::archive;

fuzz_target!(|data: &[u8]| {
    let _ = archive::members(data);
});
