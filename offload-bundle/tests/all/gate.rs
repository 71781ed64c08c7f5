//! The gate against what a driver was seen to do: it passes what ran, and nothing else.

use offload_bundle::archive::reject_thin_members;
use offload_bundle::coverage::gate::{CellVerdict, FileCode, FileGate, Requirement, Rung};
use offload_bundle::host_object::Search;

use crate::driver_truth;

#[test]
fn the_gate_passes_what_a_driver_ran() {
    let requirement: Requirement = "sm_90@580".parse().expect("a requirement");
    let mut seen = 0;
    for (file, outcome) in driver_truth::cases() {
        let code = FileCode::read(&driver_truth::fatbin_bytes(&file), reject_thin_members, Search::Sections);
        let Ok(code) = code else {
            assert!(!outcome.starts_with("sass") && !outcome.starts_with("ptx"), "{file} is refused, and ran");
            continue;
        };
        let gate = FileGate::new(&code, &requirement);
        let cell = &gate.cells[0];
        let expected = match outcome.split(' ').next() {
            Some("sass") => CellVerdict::Runs,
            Some("ptx") => CellVerdict::Jit,
            _ => CellVerdict::Fails,
        };
        assert_eq!(cell.verdict, expected, "{file}: {outcome}, but {cell:?}");
        assert_eq!(cell.rung == Rung::Observed, expected != CellVerdict::Jit, "{file}: {cell:?}");
        seen += 1;
    }
    assert!(seen > 40, "{seen} cases");
}
