//! A file compared with itself, and what its cubins take.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::difference::{Difference, images};
use offload_bundle::host_object::Search;
use offload_bundle::usage::{self, Order};

fuzz_target!(|data: &[u8]| {
    if let Ok(images) = images(data, offload_bundle::archive::reject_thin_members) {
        assert!(Difference::new(&images, &images, false).equal);
        let _ = Difference::new(&images, images.get(1..).unwrap_or_default(), true).text(false, &str::to_owned);
    }
    if let Ok(Some(shares)) = usage::function_shares(data) {
        assert_eq!(shares.total(), data.len() as u64);
    }
    if let Ok(cubins) = usage::usage(data, offload_bundle::archive::reject_thin_members, Search::Sections, Order::Code)
    {
        let shown = |names: &[&str], _| names.iter().map(|name| (*name).to_owned()).collect();
        let _ = usage::text(&[(None, &cubins)], &usage::Layout::new(&shown));
    }
});
