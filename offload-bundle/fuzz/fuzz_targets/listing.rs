//! All containers within each other, and kept results.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::expansion::{self, Limits};
use offload_bundle::host_object::Search;
use offload_bundle::listing;

fuzz_target!(|data: &[u8]| {
    if let Ok(rows) = listing::list(data, offload_bundle::archive::reject_thin_members) {
        let _ = listing::table(&rows);
    }
    let _ = expansion::check(data, Search::AllBytes, Limits { total: 1 << 20, each: 1 << 20 });
    let _ = listing::list_with_results(data, offload_bundle::archive::reject_thin_members, Search::Sections);
    // Where the sections can be read, what lies between them can.
    let all = listing::list_in(data, offload_bundle::archive::reject_thin_members, Search::AllBytes);
    let _ = all.map(|rows| listing::table(&rows));
});
