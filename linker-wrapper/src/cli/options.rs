//! The options of a link, as values alone.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use offload_bundle::arch::PtxVersion;
use offload_bundle::coverage::Driver;
use offload_bundle::coverage::gate::Requirement;
use offload_bundle::user_cache::CacheChoice;

use crate::cli::environment::Environment;
use crate::cli::values::{
    BackendChoice, CubinLinker, ImageCompression, ImageSection, Jobs, KernelFolding, KernelGc, Levels, LlvmRules,
    MemoryChoice, NamedParts, OffloadReport, Partitioning, PlanRequest, PtxPolicy, RelocatableCode, RemoteOptions,
    SassPolicy, StatsFormat,
};
use crate::diag::color::Choice;

/// The options of a link, and the host linker's command line in its original order.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub help: Option<Help>,
    pub version: bool,
    pub linker_path: Option<PathBuf>,
    pub cuda_path: Option<PathBuf>,
    /// Paths of single parts of CUDA.
    pub parts: NamedParts,
    /// HIP bundles are compressed.
    pub compress_hip: bool,
    /// With which level.
    pub compression_level: Option<i32>,
    /// Targets that are taken out of archives even if no object has them.
    pub should_extract: Vec<String>,
    /// Which LLVM's rules decide about target ids.
    pub llvm_rules: LlvmRules,
    /// Which backend generates machine code.
    pub backend: BackendChoice,
    /// What links cubins beside ptxas.
    pub cubin_linker: CubinLinker,
    pub print_toolchain: bool,
    pub host_triple: Option<String>,
    /// Triple, if one is given, and argument.
    pub device_linker: Vec<(Option<String>, String)>,
    /// Triple, if one is given, and argument.
    pub device_compiler: Vec<(Option<String>, String)>,
    /// Where to write an archive that the link can be repeated from.
    pub reproduce: Option<PathBuf>,
    pub dry_run: bool,
    /// Whether messages are coloured.
    pub color: Choice,
    /// This link only looks for the code that LLVM failed on. No option sets this.
    pub diagnosing: bool,
    pub verbose: bool,
    pub embed_bitcode: bool,
    pub print_wrapped_module: bool,
    pub save_temps: bool,
    /// Where to keep intermediate files, instead of next to the output.
    pub temps_folder: Option<PathBuf>,
    pub emit_image_only: bool,
    /// The inputs are code for this target id of AMD's GPUs, and the image is a code object without a bundle.
    pub code_object: Option<String>,
    /// Where to write the bundled image, besides.
    pub image_copy: Option<PathBuf>,
    /// The output is the registration object itself, which a later host link takes.
    pub dlink: bool,
    /// Machine code in the image.
    pub sass_policy: SassPolicy,
    /// PTX in addition to the machine code.
    pub ptx_policy: PtxPolicy,
    /// The values of `--cuda-include-ptx=` and its negation, in order.
    pub include_ptx: Vec<String>,
    /// The PTX's `.version`; `None`: the lowest possible.
    pub ptx_version: Option<PtxVersion>,
    /// How device code is cut into jobs.
    pub partitioning: Partitioning,
    /// Where results of device links are kept.
    pub cache: Option<CacheChoice>,
    /// Size of the cache in bytes.
    pub cache_size: Option<u64>,
    /// A store that other machines share, looked up after the cache.
    pub remote_cache: RemoteOptions,
    /// The program that runs jobs on other machines.
    pub distributor: Option<OsString>,
    /// Its arguments.
    pub distributor_arguments: Vec<OsString>,
    /// Memory that jobs may use.
    pub memory: Option<MemoryChoice>,
    /// Whether and how to print statistics.
    pub stats: Option<StatsFormat>,
    /// How the fatbin is compressed.
    pub compress: ImageCompression,
    /// The oldest driver that has to load the fatbin, if the user names it.
    pub driver: Option<Driver>,
    /// The GPUs and drivers that the fatbin has to serve.
    pub require: Option<Requirement>,
    /// Where in the program the fatbin goes.
    pub image_section: ImageSection,
    /// The form and place of the report on the image.
    pub report: Option<OffloadReport>,
    /// The form and place of the plan of the device links, which is printed before they run.
    pub plan: Option<PlanRequest>,
    /// The level of each compatibility check.
    pub checks: Levels,
    /// Which kernels are left out.
    pub kernel_gc: KernelGc,
    /// What is done with equal kernels.
    pub kernel_folding: KernelFolding,
    /// What a relocatable link makes of device code.
    pub relocatable_code: RelocatableCode,
    /// Where to write a time trace.
    pub time_trace: Option<PathBuf>,
    /// Shortest phase in it.
    pub time_trace_granularity: Option<Duration>,
    /// Offload kind and file of a finished image.
    pub override_image: Option<(String, PathBuf)>,
    /// How many device link jobs run at a time.
    pub jobs: Jobs,
    pub llvm_options: Vec<String>,
    pub sysroot: Option<PathBuf>,
    pub output: Option<PathBuf>,
    pub library_paths: Vec<PathBuf>,
    pub relocatable: bool,
    /// Symbols that the command line references (`-u`, `-e`, `--wrap` and the like).
    pub roots: Vec<String>,
    /// The host linker's command line, without the wrapper's options.
    pub host_line: Vec<OsString>,
    /// Index in `host_line` at which registration objects are inserted: right after the output.
    pub insertion: usize,
    /// How many arguments in front of `insertion` name the output: 0 to 2.
    pub output_words: usize,
    /// Files and libraries, in order.
    pub inputs: Vec<Input>,
    /// How many of the inputs come before the output's name.
    pub inputs_before_output: usize,
    /// The host linker answers a query and exits (`--version`, `--help` under a linker's name).
    pub linker_query: bool,
    /// What the environment says. The parser leaves it empty.
    pub environment: Environment,
}

/// Why no host program registers kernels, in a link that writes an image alone.
pub const NO_PROGRAM: &str = "there is no program that registers kernels (--emit-fatbin-only)";

impl Options {
    /// The oldest driver that has to load the fatbin: the one that is named, or else the oldest of `--offload-require=`.
    pub fn oldest_driver(&self) -> Option<Driver> {
        let required = self.require.iter().flat_map(|require| require.drivers.iter().copied()).min();
        self.driver.or(required)
    }

    /// Whether the output is a relocatable object whose device code later links take.
    pub fn merges_device_code(&self) -> bool {
        self.relocatable && self.relocatable_code == RelocatableCode::Merged
    }
}

/// A text of help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Help {
    /// How the program is run, and its most useful options.
    Brief,
    /// All documented options.
    Options,
    /// All options.
    Hidden,
    /// The documented options as a table, for programs.
    Table,
}

/// An input of the host linker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A path.
    File {
        /// The path.
        path: PathBuf,
        /// `--whole-archive` applies: all members of an archive are linked.
        whole: bool,
    },
    /// `-l`.
    Library {
        /// What follows `-l`; a leading `:` means the exact file name.
        name: String,
        /// `-static` or `-Bstatic` applies: only archives are considered.
        archive_only: bool,
        /// See `File`.
        whole: bool,
    },
}
