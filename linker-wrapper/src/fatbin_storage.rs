//! How the fatbin's payloads are stored: `--offload-compress=`, by the names that CUDA 13.0 gives its modes. PURE.

use offload_bundle::fatbin::{CompressPolicy, Options};

/// A mode of `fatbinary --compress-mode`, with what 13.0 makes of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CompressMode {
    /// PTX, and cubins with debug information, by Zstandard of level 5.
    #[default]
    Default,
    /// Everything, by Zstandard of level 19.
    Size,
    /// As the default, by LZ4, which drivers before 550 read too.
    Speed,
    /// The same as the default.
    Balance,
    /// Nothing.
    None,
}

impl CompressMode {
    const NAMES: [(&str, CompressMode); 5] = [
        ("default", CompressMode::Default),
        ("size", CompressMode::Size),
        ("speed", CompressMode::Speed),
        ("balance", CompressMode::Balance),
        ("none", CompressMode::None),
    ];

    /// Reads the option's value.
    ///
    /// # Errors
    /// A word that is no mode.
    pub fn parse(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, mode)| *mode).ok_or_else(|| {
            let names = Self::NAMES.map(|(name, _)| name).join(", ");
            format!("--offload-compress=: expected one of {names}, got '{text}'")
        })
    }

    /// As the option spells it.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }

    /// The options of a fatbin's writer.
    pub fn options(self, debug: bool) -> Options {
        let options = Options { debug, ..Options::default() };
        match self {
            CompressMode::Default | CompressMode::Balance => options,
            CompressMode::Size => Options { compress: CompressPolicy::All, level: 19, ..options },
            CompressMode::Speed => Options { lz4: true, ..options },
            CompressMode::None => Options { compress: CompressPolicy::Never, ..options },
        }
    }
}
