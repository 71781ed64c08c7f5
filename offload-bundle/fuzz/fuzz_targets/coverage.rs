//! Predicts what a driver does with fatbins and with nvcc's device links, and HIP's runtime with bundles, in all files that hold them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::coverage::{
    CheckOptions, CheckReport, Driver, ExplainReport, Jit, Runtime, check_host_code, containers, hip_bundles,
};

fuzz_target!(|data: &[u8]| {
    let _ = check_host_code(data, offload_bundle::archive::reject_thin_members);
    if let Ok(found) = containers(data, offload_bundle::archive::reject_thin_members) {
        for jit in [Jit::Allowed, Jit::Forced, Jit::Disabled] {
            let _ = ExplainReport::new(&found, None, Runtime { driver: Driver::Branch(580), jit }).text();
        }
        if let Ok(bundles) = hip_bundles(data, offload_bundle::archive::reject_thin_members) {
            let report = ExplainReport::new(&found, None, Driver::NewEnough).with_bundles(&bundles, None, &[]);
            let _ = (report.text(), report.runs());
            let _ = CheckReport::new(&found, &CheckOptions::default()).with_bundles(&bundles).text();
        }
        let _ = CheckReport::new(&found, &CheckOptions::default()).text();
    }
});
