//! The options of a link, as values alone.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use offload_bundle::arch::PtxVersion;
use offload_bundle::fatbin::CompressMode;

use crate::cli::values::{
    BackendChoice, CacheChoice, FatbinSection, Jobs, Levels, MemoryChoice, NamedParts, Partitioning, PtxPolicy,
    ReportRequest, SassPolicy, StatsFormat,
};

/// The options of a link, and the host linker's line in its own order.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub help: Option<String>,
    pub version: bool,
    pub linker_path: Option<PathBuf>,
    pub cuda_path: Option<PathBuf>,
    /// Parts of CUDA that are named one by one.
    pub parts: NamedParts,
    /// What makes the machine code.
    pub backend: BackendChoice,
    pub print_toolchain: bool,
    pub host_triple: Option<String>,
    /// (triple or none, argument)
    pub device_linker: Vec<(Option<String>, String)>,
    /// (triple or none, argument)
    pub device_compiler: Vec<(Option<String>, String)>,
    pub dry_run: bool,
    /// LLVM failed in this link, which only looks for the reason; no option says so.
    pub diagnosing: bool,
    pub verbose: bool,
    pub embed_bitcode: bool,
    pub print_wrapped_module: bool,
    pub save_temps: bool,
    pub emit_fatbin_only: bool,
    /// Machine code in the image.
    pub sass_policy: SassPolicy,
    /// PTX beside the machine code.
    pub ptx_policy: PtxPolicy,
    /// `--cuda-include-ptx=` and its negation, as they came.
    pub include_ptx: Vec<String>,
    /// Its `.version`; none: the lowest possible.
    pub ptx_version: Option<PtxVersion>,
    /// How device code is cut into jobs.
    pub partitioning: Partitioning,
    /// Where results of device links are kept.
    pub cache: Option<CacheChoice>,
    /// Size of the cache in bytes.
    pub cache_size: Option<u64>,
    /// Memory for jobs.
    pub memory: Option<MemoryChoice>,
    /// Whether and how to print statistics.
    pub stats: Option<StatsFormat>,
    /// How the fatbin is compressed.
    pub compress: CompressMode,
    /// Where in the program the fatbin goes.
    pub fatbin_section: FatbinSection,
    /// What is said about the finished image, and where.
    pub report: Option<ReportRequest>,
    /// What disagreements between files are.
    pub checks: Levels,
    /// Where to write a time trace.
    pub time_trace: Option<PathBuf>,
    /// Shortest phase in it.
    pub time_trace_granularity: Option<Duration>,
    /// (offload kind, file): the finished image.
    pub override_image: Option<(String, PathBuf)>,
    /// How many device links at a time.
    pub jobs: Jobs,
    pub llvm_options: Vec<String>,
    pub sysroot: Option<PathBuf>,
    pub output: Option<PathBuf>,
    pub library_paths: Vec<PathBuf>,
    pub relocatable: bool,
    /// Symbols that the line itself asks for (`-u`, `-e`, `--wrap` and their like).
    pub roots: Vec<String>,
    /// The host linker's line without what was the wrapper's.
    pub host_line: Vec<OsString>,
    /// Where on `host_line` the objects that we add belong: directly behind the output.
    pub insertion: usize,
    /// How many words in front of `insertion` name the output: 0 to 2.
    pub output_words: usize,
    /// Files and libraries, in order.
    pub inputs: Vec<Input>,
    /// How many of the inputs stand before the output's name.
    pub inputs_before_output: usize,
    /// A query that the real linker answers and ends with (`--version`, `--help` under a linker's name). After
    /// `-v` it goes on to link.
    pub linker_query: bool,
}

/// Something that the host linker reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A path on the line.
    File {
        /// The path.
        path: PathBuf,
        /// `--whole-archive` holds here: all members of an archive are linked.
        whole: bool,
    },
    /// `-l`.
    Library {
        /// What follows `-l`; a leading `:` means the exact file name.
        name: String,
        /// `-static` or `-Bstatic` holds here: only archives count.
        archive_only: bool,
        /// As of a file.
        whole: bool,
    },
}
