//! The options of the device link, as values alone.

use std::fmt;
use std::path::PathBuf;

use llvm_passes::pipeline::OptLevel;

use crate::cli::values::LtoIrRule;

/// Triple of all CUDA images.
pub const CUDA_TRIPLE: &str = "nvptx64-nvidia-cuda";

/// A file or library that the device link reads in addition to the device images of the host's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceInput {
    /// A path.
    File {
        /// The path.
        path: PathBuf,
        /// All members of an archive are linked.
        whole: bool,
    },
    /// `-l`: an archive in the folders of `-L`.
    Library {
        /// What follows `-l`; a leading `:` means the exact file name.
        name: String,
        /// See `File`.
        whole: bool,
    },
}

impl DeviceInput {
    /// Whether all members of an archive are linked.
    pub fn is_whole(&self) -> bool {
        match self {
            DeviceInput::File { whole, .. } | DeviceInput::Library { whole, .. } => *whole,
        }
    }
}

impl fmt::Display for DeviceInput {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceInput::File { path, .. } => write!(formatter, "{}", path.display()),
            DeviceInput::Library { name, .. } => write!(formatter, "-l{name}"),
        }
    }
}

/// The device link's own options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Optimization of the merged IR.
    pub level: OptLevel,
    /// `-O` of ptxas.
    pub ptxas_level: u8,
    /// `-g`: debuggable, unoptimized machine code.
    pub debug: bool,
    /// Whether NVIDIA's LTO-IR is linked. LLVM bitcode is always linked with LTO.
    pub lto_ir: LtoIrRule,
    /// The result is relocatable code for a later device link (`--dlink -r`).
    pub relocatable: bool,
    /// `--plugin-opt=jobs=`: how many jobs run at a time.
    pub jobs: Option<usize>,
    /// `--plugin-opt=lto-partitions=1`: the program is not cut.
    pub is_whole: bool,
    /// Further arguments for ptxas (`-Xcuda-ptxas`).
    pub ptxas_arguments: Vec<String>,
    /// Arguments for nvlink (`-Xoffload-linker`).
    pub nvlink_arguments: Vec<String>,
    /// Files and libraries of the device link (`-Xoffload-linker`), in order.
    pub inputs: Vec<DeviceInput>,
    /// Folders that are searched for the libraries.
    pub library_paths: Vec<PathBuf>,
    /// Device symbols that archive members are extracted for (`-u`).
    pub roots: Vec<String>,
    /// `--cuda-path=` inside `--device-compiler=`.
    pub cuda_path: Option<PathBuf>,
    /// `-v`.
    pub verbose: bool,
    /// LLVM's own options, from `-mllvm`, `--offload-opt=` and `--plugin-opt=`.
    pub llvm_options: Vec<String>,
    /// Intermediate files are kept.
    pub saves_temps: bool,
    /// Processors that arguments name, each with the argument.
    pub processors: Vec<(String, String)>,
    /// Arguments that a link of CUDA's code rejects, each with the reason.
    pub refused: Vec<(String, String)>,
    /// Arguments without an effect, as warnings show them.
    pub unknown: Vec<String>,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        DeviceOptions {
            level: OptLevel::O2,
            ptxas_level: 3,
            debug: false,
            lto_ir: LtoIrRule::default(),
            relocatable: false,
            jobs: None,
            is_whole: false,
            ptxas_arguments: Vec::new(),
            nvlink_arguments: Vec::new(),
            inputs: Vec::new(),
            library_paths: Vec::new(),
            roots: Vec::new(),
            cuda_path: None,
            verbose: false,
            llvm_options: Vec::new(),
            saves_temps: false,
            processors: Vec::new(),
            refused: Vec::new(),
            unknown: Vec::new(),
        }
    }
}

impl DeviceOptions {
    /// Sets the optimization level, or returns `false` if there is no such level.
    pub fn set_level(&mut self, text: &str) -> bool {
        let Some(level) = OptLevel::parse(text) else { return false };
        self.level = level;
        // ptxas has no level for size.
        self.ptxas_level = match level {
            OptLevel::O0 => 0,
            OptLevel::O1 => 1,
            OptLevel::O2 | OptLevel::Os | OptLevel::Oz => 2,
            OptLevel::O3 => 3,
        };
        true
    }

    /// Turns link-time optimization on or off if the argument is one of clang's options for it; returns whether it is.
    pub fn set_lto(&mut self, word: &str) -> bool {
        let on = word.starts_with("-flto") || word.starts_with("-foffload-lto");
        let off = matches!(word, "-fno-lto" | "-fno-offload-lto");
        match (on, off) {
            (true, _) => self.lto_ir = LtoIrRule::First,
            (_, true) => self.lto_ir = LtoIrRule::Never,
            _ => {}
        }
        on || off
    }
}
