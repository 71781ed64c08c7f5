//! Predicts what a driver does with fatbins and with nvcc's device links, in all files that hold them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::coverage::{
    CheckOptions, CheckReport, Driver, Jit, ExplainReport, Runtime, containers, forgotten_link,
};

fuzz_target!(|data: &[u8]| {
    let _ = forgotten_link(data);
    if let Ok(found) = containers(data, offload_bundle::archive::reject_thin_members) {
        for jit in [Jit::Allowed, Jit::Forced, Jit::Disabled] {
            let _ = ExplainReport::new(&found, None, Runtime { driver: Driver::Branch(580), jit }).text();
        }
        let _ = CheckReport::new(&found, &CheckOptions::default()).text();
    }
});
