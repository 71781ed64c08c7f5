//! PTX: its directives, its symbols, and what joining it gives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::{ltoir, ptx};

fuzz_target!(|data: &[u8]| {
    let _ = (ptx::version(data), ptx::target(data), ltoir::version(data));
    let _ = (ptx::DebugInfo::of(data), ptx::defines_functions(data), ptx::join::join(&[data, data]));
    let symbols = ptx::symbols(data);
    let copies = symbols.iter().map(|symbol| (symbol.name.clone(), vec!["copy".to_owned()])).collect();
    let _ = ptx::with_kernel_copies(data, &copies);
    for symbol in symbols {
        assert!(!symbol.name.is_empty());
    }
});
