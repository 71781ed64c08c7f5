//! Tests of `rdc_objects.rs`.

use proptest::prelude::*;

use super::*;
use crate::samples;

const IDS: [&str; 2] = ["_1_4_b_cu_x", "_0_4_a_cu_y"];

fn two_units() -> (Vec<u8>, Vec<u8>) {
    let fatbin = samples::fatbin(false);
    let object = samples::rdc_object(&IDS, &[&fatbin, &fatbin]);
    (fatbin, object)
}

/// The same object with one symbol's name changed.
fn renamed(object: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = object.windows(from.len()).position(|window| window == from.as_bytes()).expect("the name");
    let mut changed = object.to_vec();
    changed[at..at + to.len()].copy_from_slice(to.as_bytes());
    changed
}

#[test]
fn each_unit_has_its_own_fatbin() {
    let (fatbin, object) = two_units();
    let found = rdc_objects(&object).expect("a sound object");
    let ids: Vec<&str> = found.iter().map(|unit| unit.id).collect();
    assert_eq!(ids, IDS);
    for unit in &found {
        assert_eq!(unit.fatbin, fatbin);
        let at = usize::try_from(unit.offset).expect("small");
        assert_eq!(&object[at..at + fatbin.len()], fatbin);
        assert_eq!(unit.registration, RdcRegistration::Undefined);
    }
    assert!(found[0].offset < found[1].offset);
}

#[test]
fn a_unit_that_nothing_registers_is_unused() {
    let (_, object) = two_units();
    let object = renamed(&object, "__cudaRegisterLinkedBinary_0", "__cudaRegisterLinkedBinarX_0");
    let found = rdc_objects(&object).expect("a sound object");
    assert_eq!(found[1].registration, RdcRegistration::Unused);
}

#[test]
fn a_unit_without_its_record_is_an_error() {
    let (_, object) = two_units();
    let object = renamed(&object, "__fatbinwrap_0_4_a", "__fatbinwraX_0_4_a");
    let error = rdc_objects(&object).expect_err("no record").to_string();
    assert!(
        error.starts_with("__cudaRegisterLinkedBinary_0_4_a_cu_y is called, but __fatbinwrap_0_4_a_cu_y is missing")
    );
}

#[test]
fn a_fatbin_that_no_unit_owns_is_an_error() {
    let (fatbin, _) = two_units();
    let object = samples::rdc_object(&IDS[..1], &[&[fatbin.as_slice(), &fatbin].concat()]);
    let error = rdc_objects(&object).expect_err("no owner").to_string();
    assert!(error.starts_with("section __nv_relfatbin: no symbol __fatbinwrap<id> leads to this fatbin"), "{error}");
}

#[test]
fn a_record_that_leads_elsewhere_is_an_error() {
    let object = samples::rdc_object(&IDS[..1], &[b"text that is no fatbin at all"]);
    assert!(rdc_objects(&object).expect_err("no fatbin").to_string().contains("no fatbin (wrong magic)"));
}

#[test]
fn other_files_have_no_units() {
    assert_eq!(rdc_objects(&samples::host_object(&[])), Ok(Vec::new()));
    let program = std::fs::read(std::env::current_exe().expect("a path")).expect("a program");
    assert_eq!(rdc_objects(&program), Ok(Vec::new()));
    assert_eq!(registered_id(b"__cudaRegisterLinkedBinary_1"), Some("_1"));
    assert_eq!((registered_id(b"__cudaRegisterLinkedBinary"), registered_id(b"main")), (None, None));
}

proptest! {
    #[test]
    fn damaged_objects_are_answered(at in 0usize..8192, value: u8, cut in 0usize..8192) {
        let (_, mut object) = two_units();
        let at = at % object.len();
        object[at] = value;
        let _ = rdc_objects(&object);
        let _ = rdc_objects(&object[..cut.min(object.len())]);
    }
}
