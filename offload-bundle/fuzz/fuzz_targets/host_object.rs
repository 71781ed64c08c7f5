//! Host objects: images, entries, symbols.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::host_object;

fuzz_target!(|data: &[u8]| {
    let _ = host_object::file_kind(data);
    let _ = host_object::device_images(data);
    let _ = host_object::inflated_binaries(data);
    let _ = host_object::carriers(data);
    let _ = host_object::offload_entries(data);
    let _ = host_object::registered_kinds(data);
    let _ = host_object::rdc_objects(data);
    let _ = host_object::section_graph(data);
    let _ = host_object::library_needs(data);
    let parts = host_object::device_parts(&mut std::io::Cursor::new(data), data.len() as u64);
    assert!(parts.is_sorted_by(|before, after| before.end <= after.start));
    assert!(parts.last().is_none_or(|last| last.end <= data.len() as u64));
});
