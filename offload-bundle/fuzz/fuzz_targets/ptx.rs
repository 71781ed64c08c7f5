//! PTX: its directives, its symbols, and what joining it gives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::{ltoir, ptx};

fuzz_target!(|data: &[u8]| {
    let _ = (ptx::version(data), ptx::target(data), ltoir::version(data));
    let _ = (ptx::DebugInfo::of(data), ptx::defines_functions(data), ptx::join::join(&[data, data]));
    for symbol in ptx::symbols(data) {
        assert!(!symbol.name.is_empty());
    }
});
