//! All containers within each other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::listing;

fuzz_target!(|data: &[u8]| {
    if let Ok(rows) = listing::list(data, |_| Err("no files here".to_owned())) {
        let _ = listing::table(&rows);
    }
});
