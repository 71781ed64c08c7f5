//! Predicts what a driver does with fatbins and with nvcc's device links, and HIP's runtime with bundles, in all files that hold them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::coverage::gate::{FileCode, FileGate, Requirement};
use offload_bundle::coverage::{
    CheckOptions, CheckReport, Detail, Driver, ExplainReport, Jit, Runtime, check_host_code, compared_containers, hip_bundles,
};
use offload_bundle::host_object::Search;

fuzz_target!(|data: &[u8]| {
    let _ = check_host_code(data, offload_bundle::archive::reject_thin_members);
    if let Ok(found) = compared_containers(data, offload_bundle::archive::reject_thin_members, Search::Sections) {
        for jit in [Jit::Allowed, Jit::Forced, Jit::Disabled] {
            let _ =
                ExplainReport::new(&found, None, Runtime { driver: Driver::Branch(580), jit }).text(Detail::Grouped);
        }
        if let Ok(bundles) = hip_bundles(data, offload_bundle::archive::reject_thin_members) {
            let report = ExplainReport::new(&found, None, Driver::NewEnough).with_bundles(&bundles, None, &[]);
            let _ = (report.text(Detail::Grouped), report.runs());
            let _ = CheckReport::new(&found, &CheckOptions::default()).with_bundles(&bundles).text(Detail::Grouped);
        }
        let _ = CheckReport::new(&found, &CheckOptions::default()).text(Detail::Grouped);
    }
    if let Ok(code) = FileCode::read(data, offload_bundle::archive::reject_thin_members, Search::Sections) {
        let requirement: Requirement = "all-supported,gfx90a@535,580".parse().expect("a requirement");
        let gate = FileGate::new(&code, &requirement);
        for job in gate.ptx_jobs() {
            let _ = job.text(&code, data);
        }
        let _ = code.modules_for(90, data);
    }
});
