//! `--offload-compress=`: how the entries of the fatbin are compressed, by the mode names of CUDA 13.0.

use std::num::NonZero;

use offload_bundle::fatbin::{CompressMode, CompressPolicy, Options};

/// Translates a mode into options of the fatbin writer.
///
/// Up to `threads` threads compress machine code.
pub fn options(mode: CompressMode, debug: bool, threads: usize) -> Options {
    let threads = NonZero::new(u32::try_from(threads).unwrap_or(u32::MAX)).or(NonZero::new(1));
    let options = Options { debug, threads, ..Options::default() };
    match mode {
        // Compresses PTX, and cubins with debug information or of more than 10,000,000 bytes, by Zstandard at level 5.
        CompressMode::Default | CompressMode::Balance => options,
        CompressMode::Size => Options { compress: CompressPolicy::All, level: 19, ..options },
        // LZ4, which drivers before 550 read, too.
        CompressMode::Speed => Options { lz4: true, ..options },
        CompressMode::None => Options { compress: CompressPolicy::Never, ..options },
    }
}
