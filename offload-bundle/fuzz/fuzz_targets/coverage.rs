//! What a driver makes of fatbins, in all the files that hold them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::coverage::{CheckOptions, CheckReport, Driver, Report, containers};

fuzz_target!(|data: &[u8]| {
    if let Ok(found) = containers(data, |_| Err("no files here".to_owned())) {
        let _ = Report::new(&found, None, Driver::Branch(580)).text();
        let _ = CheckReport::new(&found, &CheckOptions::default()).text();
    }
});
