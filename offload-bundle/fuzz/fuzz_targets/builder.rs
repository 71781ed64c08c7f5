//! Bytes taken for images of every kind; a fatbin of those that were taken reads as such.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::GpuArch;
use offload_bundle::fatbin::{self, BuilderOptions, FatbinBuilder, Validation};

fuzz_target!(|data: &[u8]| {
    let Some((&choice, image)) = data.split_first() else { return };
    let validation = if choice & 0x80 == 0 { Validation::Strict } else { Validation::Nvidia };
    let mut builder = FatbinBuilder::new(BuilderOptions { validation, ..BuilderOptions::default() });
    let arch = GpuArch::plain(90);
    let added = match choice & 7 {
        0 => builder.add_cubin(arch, image, "name").map(|()| 1),
        1 => builder.add_ptx(arch, image, "name", "-O3").map(|()| 1),
        2 => builder.add_ltoir(arch, image, "name", "").map(|()| 1),
        3 => builder.add_tile_ir(image, "", "").map(|()| 1),
        _ => builder.add_relocatable(image),
    };
    let built = builder.finish().expect("small images");
    assert_eq!(fatbin::read(&built).expect("what was built").len(), added.unwrap_or(0));
});
