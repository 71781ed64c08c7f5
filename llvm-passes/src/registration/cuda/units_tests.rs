//! Tests of `units.rs`. lit tests run programs that are registered in this way.

use offload_bundle::elf_edit::SectionSlot;
use offload_bundle::host_object::{self, RdcRegistration};

use super::*;
use crate::registration;
use crate::session::Session;

const HOST: &str = "x86_64-pc-linux-gnu";
/// A fatbin without entries.
const EMPTY: &[u8] = b"\x50\xed\x55\xba\x01\0\x10\0\0\0\0\0\0\0\0\0";

fn ids() -> Vec<String> {
    vec!["_1_4_a_cu_x".to_owned(), "_2_4_b_cu_y".to_owned()]
}

fn object(units: &CudaUnits<'_>) -> Vec<u8> {
    crate::initialize();
    let session = Session::new();
    let module = registration::build(&session, HOST, units, registration::EntryTables::Current).expect("a module");
    module.verify().expect("sound code");
    let mut object = registration::compile(&session, &module, HOST).expect("an object");
    for (slot, image) in units.second_image().into_iter().chain([(registration::Registration::slot(units), EMPTY)]) {
        let slot = SectionSlot::find(object, slot.section, slot.symbol).expect("the slot");
        object = slot.in_front_of(image.len() as u64);
        object.extend(image);
    }
    object
}

fn text(units: &CudaUnits<'_>) -> String {
    let session = Session::new();
    registration::print(
        &registration::build(&session, HOST, units, registration::EntryTables::Current).expect("a module"),
    )
}

/// The words of the section with the ids.
fn recorded(object: &[u8]) -> Vec<String> {
    let (_, data) = host_object::section(object, b"__nv_module_id").expect("the section");
    let words = data.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

#[test]
fn what_the_units_reference_is_defined() {
    let ids = ids();
    let object = object(&CudaUnits { ids: &ids, device_runtime: None, clang: ClangUnits::None });
    let symbols = host_object::host_symbols(&object, false).expect("symbols");
    for id in &ids {
        let symbol = |prefix: &str| {
            let name = format!("{prefix}{id}");
            *symbols.iter().find(|symbol| symbol.name == name.as_bytes()).expect("the symbol")
        };
        let (register, record) = (symbol(REGISTER_PREFIX), symbol(WRAPPER_PREFIX));
        assert!(register.defined && !record.defined && record.weak);
    }
    assert_eq!(recorded(&object), ["def _1_4_a_cu_x", "def _2_4_b_cu_y"]);
    assert!(!symbols.iter().any(|symbol| symbol.name == b"__start_llvm_offload_entries"));
}

#[test]
fn nothing_is_visible_outside_of_the_output() {
    let text = text(&CudaUnits { ids: &ids(), device_runtime: None, clang: ClangUnits::Linked { ptx: Some(EMPTY) } });
    for line in [
        "@__fatbinwrap_1_4_a_cu_x = extern_weak hidden global i8",
        "@__cudaRegisterLinkedBinary_1_4_a_cu_x = hidden alias",
        "@__fatbinwrap_0_5_clang_1_4_a_cu_x = hidden constant",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
}

#[test]
fn the_ptx_of_clang_is_a_prelinked_fatbin() {
    let object =
        object(&CudaUnits { ids: &ids(), device_runtime: None, clang: ClangUnits::Linked { ptx: Some(EMPTY) } });
    let units = host_object::rdc_objects(&object).expect("a sound object");
    let [clang] = units.as_slice() else { panic!("{units:?}") };
    assert_eq!((clang.id, clang.fatbin), ("_0_5_clang_1_4_a_cu_x", EMPTY));
    // Another device link leaves it alone.
    assert_eq!(clang.registration, RdcRegistration::Defined);
    let [own, .., registered] = &*recorded(&object) else { panic!("no ids") };
    assert_eq!(registered, &format!("def {own}"));
}

#[test]
fn units_of_clang_without_ptx_are_recorded() {
    let object = object(&CudaUnits { ids: &ids(), device_runtime: None, clang: ClangUnits::Linked { ptx: None } });
    assert_eq!(recorded(&object).last().map(String::as_str), Some("def _0_5_clang_1_4_a_cu_x"));
    assert!(host_object::section(&object, b"__nv_relfatbin").is_none());
}

#[test]
fn no_unit_at_all() {
    let object = object(&CudaUnits { ids: &[], device_runtime: None, clang: ClangUnits::Linked { ptx: None } });
    assert_eq!(recorded(&object), ["def _0_5_clang"]);
}

#[test]
fn the_device_runtime_is_a_unit_that_the_object_extracts() {
    let (ids, runtime) = (ids(), "_3_22_cuda_device_runtime_cu_z");
    let object = object(&CudaUnits { ids: &ids, device_runtime: Some(runtime), clang: ClangUnits::None });
    assert_eq!(recorded(&object).last(), Some(&format!("def {runtime}")));
    let symbols = host_object::host_symbols(&object, false).expect("symbols");
    let record = |id: &str| {
        let name = format!("{WRAPPER_PREFIX}{id}");
        symbols.iter().find(|symbol| symbol.name == name.as_bytes()).expect("the record")
    };
    assert!(!record(runtime).defined && !record(runtime).weak);
    assert!(!record(&ids[0]).defined && record(&ids[0]).weak);
    let register = format!("{REGISTER_PREFIX}{runtime}");
    assert!(symbols.iter().any(|symbol| symbol.name == register.as_bytes() && symbol.defined));
}
