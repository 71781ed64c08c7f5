//! Cubins, and all that they can be asked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::cubin;

fuzz_target!(|data: &[u8]| {
    if let Ok(cubin) = cubin::parse(data) {
        let _ = (
            cubin.arch(),
            cubin.toolkit(),
            cubin.kernels(),
            cubin.nv_compat(),
            cubin.has_debug_info(),
            cubin.resources(),
        );
    }
});
