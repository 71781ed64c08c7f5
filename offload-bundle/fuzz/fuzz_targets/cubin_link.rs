//! Links of relocatable cubins, alone and with themselves.
#![no_main]

use cubin_link::{Input, link};
use libfuzzer_sys::fuzz_target;
use offload_bundle::GpuArch;

fuzz_target!(|data: &[u8]| {
    let half = data.len() / 2;
    let input = |file, data| Input { file, data };
    for inputs in [
        &[input("a", data)][..],
        &[input("a", data), input("b", data)],
        &[input("a", &data[..half]), input("b", &data[half..])],
    ] {
        if let Ok(linked) = link(inputs, GpuArch::plain(90)) {
            assert!(offload_bundle::cubin::is_cubin(&linked.cubin));
        }
    }
});
