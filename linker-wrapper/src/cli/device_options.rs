//! What `--device-compiler=`, `--device-linker=` and `-mllvm` ask of the device link.
//!
//! clang words these arguments for an inner clang and its nvlink wrapper. There is neither here, so
//! each is given its meaning, and what has none is named in a warning: nothing is ignored in silence.

use std::path::PathBuf;

use llvm_passes::pipeline::OptLevel;

use crate::cli::device_linker_options::{self, DeviceInput};
use crate::cli::options::Options;

/// Triple of all CUDA images.
pub const CUDA_TRIPLE: &str = "nvptx64-nvidia-cuda";

/// The device link's own options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Optimization of the merged IR.
    pub level: OptLevel,
    /// `-O` of ptxas.
    pub ptxas_level: u8,
    /// `-g`: debuggable, unoptimized machine code.
    pub debug: bool,
    /// Link-time optimization is not turned off (`-fno-lto`). It decides about NVIDIA's LTO-IR alone: LLVM bitcode is always
    /// linked as one.
    pub lto: bool,
    /// Further words for ptxas (`-Xcuda-ptxas`).
    pub ptxas_arguments: Vec<String>,
    /// Words for nvlink (`-Xoffload-linker`).
    pub nvlink_arguments: Vec<String>,
    /// Files and libraries of the device link (`-Xoffload-linker`), in order.
    pub inputs: Vec<DeviceInput>,
    /// Where these libraries are.
    pub library_paths: Vec<PathBuf>,
    /// Device symbols that members of these archives are taken for (`-u`).
    pub roots: Vec<String>,
    /// `--cuda-path=` inside `--device-compiler=`.
    pub cuda_path: Option<PathBuf>,
    /// `-v`.
    pub verbose: bool,
    /// LLVM's own options, from `-mllvm`, `--offload-opt=` and `--plugin-opt=`.
    pub llvm_options: Vec<String>,
    /// Arguments without a meaning here, ready to be warned about.
    pub unknown: Vec<String>,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        DeviceOptions {
            level: OptLevel::O2,
            ptxas_level: 3,
            debug: false,
            lto: true,
            ptxas_arguments: Vec::new(),
            nvlink_arguments: Vec::new(),
            inputs: Vec::new(),
            library_paths: Vec::new(),
            roots: Vec::new(),
            cuda_path: None,
            verbose: false,
            llvm_options: Vec::new(),
            unknown: Vec::new(),
        }
    }
}

/// Reads them for CUDA targets.
pub fn read(options: &Options) -> DeviceOptions {
    let mut device = DeviceOptions { llvm_options: options.llvm_options.clone(), ..DeviceOptions::default() };
    let mut words = for_cuda(&options.device_compiler);
    while let Some(word) = words.next() {
        if word == "-Xcuda-ptxas" {
            device.ptxas_arguments.extend(words.next().map(str::to_owned));
        } else if !device.compiler_word(word) {
            device.unknown.push(format!("--device-compiler={word}"));
        }
    }
    let words: Vec<&str> = for_cuda(&options.device_linker).collect();
    device_linker_options::read(&mut device, &words);
    device
}

/// The optimization level that `--device-compiler=` asks of one triple's code; the last one counts.
pub fn level_for(options: &Options, triple: &str) -> OptLevel {
    let ours = options.device_compiler.iter().filter(|(of, _)| of.as_deref().is_none_or(|of| of == triple));
    let mut levels = ours.filter_map(|(_, word)| OptLevel::parse(word.strip_prefix("-O")?));
    levels.next_back().unwrap_or(OptLevel::O2)
}

fn for_cuda(arguments: &[(Option<String>, String)]) -> impl Iterator<Item = &str> {
    arguments
        .iter()
        .filter(|(triple, _)| triple.as_deref().is_none_or(|triple| triple == CUDA_TRIPLE))
        .map(|(_, value)| value.as_str())
}

impl DeviceOptions {
    fn compiler_word(&mut self, word: &str) -> bool {
        if let Some(path) = word.strip_prefix("--cuda-path=") {
            self.cuda_path = Some(path.into());
        } else if let Some(level) = word.strip_prefix("-O") {
            return self.set_level(level);
        } else if word.starts_with("-flto") || word == "-fno-lto" {
            self.lto = word != "-fno-lto";
        } else if word.starts_with("-save-temps") || word.starts_with("-march=") {
            // The images themselves say whether there is bitcode to link, and for what; --save-temps comes on its own.
        } else if word == "-v" {
            self.verbose = true;
        } else if word.starts_with("-g") {
            self.debug = !word.starts_with("-gline") && word != "-g0" && word != "-g1";
        } else {
            return false;
        }
        true
    }

    /// Sets the optimization level; `false`: it is none.
    pub fn set_level(&mut self, text: &str) -> bool {
        let Some(level) = OptLevel::parse(text) else { return false };
        self.level = level;
        // ptxas knows no level for size; its own default, 3, is what clang gives it then.
        self.ptxas_level = match level {
            OptLevel::O0 => 0,
            OptLevel::O1 => 1,
            OptLevel::O2 | OptLevel::Os | OptLevel::Oz => 2,
            OptLevel::O3 => 3,
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(compiler: &[(Option<&str>, &str)]) -> DeviceOptions {
        let owned = |(triple, value): &(Option<&str>, &str)| (triple.map(str::to_owned), (*value).to_owned());
        read(&Options { device_compiler: compiler.iter().map(owned).collect(), ..Options::default() })
    }

    #[test]
    fn only_arguments_for_cuda_count() {
        let device = of(&[(Some(CUDA_TRIPLE), "-O1"), (Some("amdgcn-amd-amdhsa"), "-O3")]);
        assert_eq!((device.level, device.ptxas_level), (OptLevel::O1, 1));
    }

    #[test]
    fn ptxas_words_come_in_pairs_and_the_unknown_is_named() {
        let device = of(&[(None, "-Xcuda-ptxas"), (None, "--maxrregcount=32"), (None, "-ffoo")]);
        assert_eq!(device.ptxas_arguments, ["--maxrregcount=32"]);
        assert_eq!(device.unknown, ["--device-compiler=-ffoo"]);
    }

    #[test]
    fn debug_levels() {
        for (word, debug) in [("-g", true), ("-g2", true), ("-g0", false), ("-gline-tables-only", false)] {
            assert_eq!(of(&[(None, word)]).debug, debug, "{word}");
        }
    }
}
