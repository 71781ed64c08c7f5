//! PTX: its directives and its symbols.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::{ltoir, ptx};

fuzz_target!(|data: &[u8]| {
    let _ = (ptx::version(data), ptx::target(data), ltoir::version(data));
    for symbol in ptx::symbols(data) {
        assert!(!symbol.name.is_empty());
    }
});
