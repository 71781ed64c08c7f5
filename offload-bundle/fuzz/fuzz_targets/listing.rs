//! All containers within each other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::listing;

fuzz_target!(|data: &[u8]| {
    if let Ok(rows) = listing::list(data, offload_bundle::archive::reject_thin_members) {
        let _ = listing::table(&rows);
    }
});
