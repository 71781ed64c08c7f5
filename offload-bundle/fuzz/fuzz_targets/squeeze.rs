//! The shorter form of PTX.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::fatbin::squeeze;

fuzz_target!(|data: &[u8]| {
    assert!(squeeze(data).len() <= data.len() + 1);
});
