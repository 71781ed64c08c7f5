//! How the fatbin's payloads are stored: `--offload-compress=`, by the names that CUDA 13.0 gives its modes. PURE.

use offload_bundle::fatbin::{CompressMode, CompressPolicy, Options};

/// The options of a fatbin's writer.
pub fn options(mode: CompressMode, debug: bool) -> Options {
    let options = Options { debug, ..Options::default() };
    match mode {
        // PTX, and cubins with debug information or of more than 10,000,000 bytes, by Zstandard of level 5.
        CompressMode::Default | CompressMode::Balance => options,
        CompressMode::Size => Options { compress: CompressPolicy::All, level: 19, ..options },
        // Drivers before 550 read it too.
        CompressMode::Speed => Options { lz4: true, ..options },
        CompressMode::None => Options { compress: CompressPolicy::Never, ..options },
    }
}
