//! The shorter form of PTX, in memory of its own and in that of the text.
#![no_main]

use std::borrow::Cow;

use libfuzzer_sys::fuzz_target;
use offload_bundle::GpuArch;
use offload_bundle::fatbin::{BuilderOptions, CompressMode, FatbinBuilder, Validation, read, squeeze};

/// What the builder stores of this text, which is behind a version so that it takes any.
fn stored(text: Cow<'_, [u8]>) -> Vec<u8> {
    let options = BuilderOptions { mode: CompressMode::None, validation: Validation::Nvidia, ..BuilderOptions::default() };
    let mut builder = FatbinBuilder::new(options);
    builder.add_ptx(GpuArch::plain(90), text, "", "").expect("text with a version");
    let built = builder.finish().expect("a small text");
    read(&built).expect("what was built")[0].stored.to_vec()
}

fuzz_target!(|data: &[u8]| {
    assert!(squeeze(data).len() <= data.len() + 1);
    let text = [b".version 8.0\n", data].concat();
    let squeezed = squeeze(&text);
    assert!(stored(Cow::Borrowed(&text)).starts_with(&squeezed));
    assert!(stored(Cow::Owned(text)).starts_with(&squeezed));
});
