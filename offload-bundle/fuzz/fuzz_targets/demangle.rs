//! Any bytes are read as a mangled name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::demangle;

fuzz_target!(|data: &[u8]| {
    if let Ok(name) = std::str::from_utf8(data) {
        let _ = (demangle::demangle(name), demangle::readable(&format!("_Z{name}")));
    }
});
