//! Any bytes are read as an object or code object for AMD's GPUs, its metadata and its descriptors.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::amdgpu::{Code, PartObject};

fuzz_target!(|data: &[u8]| {
    if let Ok(code) = Code::parse(data) {
        let _ = (code.kernels(), code.resources(), code.functions(), code.section_sizes());
    }
    if let Ok(part) = PartObject::new(data.to_vec()) {
        let _ = part.split();
    }
});
