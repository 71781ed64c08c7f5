//! The table of options: spellings, shapes and meanings, and the help text generated from it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::cli::values::Part;

/// How an option takes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// None.
    Flag,
    /// In the same word, behind the spelling.
    Joined,
    /// In the next word.
    Separate,
    /// Either.
    JoinedOrSeparate,
}

/// The meaning of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    Help,
    HelpHidden,
    Version,
    LinkerPath,
    CudaPath,
    /// The path of one part of CUDA.
    PartPath(Part),
    PrintToolchain,
    OffloadBackend,
    HostTriple,
    DeviceLinker,
    DeviceCompiler,
    NoLto,
    Reproduce,
    NoCanonicalPrefixes,
    DryRun,
    Verbose,
    EmbedBitcode,
    PrintWrappedModule,
    SaveTemps,
    SaveTempsIn,
    Compress,
    CompressionLevel,
    LlvmRules,
    Jobs,
    ShouldExtract,
    EmitFatbinOnly,
    Dlink,
    TranslateNvcc,
    OverrideImage,
    OffloadPtx,
    IncludePtx,
    NoIncludePtx,
    OffloadSass,
    OffloadPtxVersion,
    PartitionSize,
    OffloadCompress,
    OffloadDriver,
    FatbinSection,
    OffloadReport,
    OffloadPlan,
    OffloadCheck,
    OffloadGc,
    OffloadIcf,
    OffloadRelocatable,
    TimeTrace,
    TimeTraceGranularity,
    OffloadCache,
    OffloadCacheSize,
    OffloadCacheRemote,
    OffloadCacheRemoteMode,
    OffloadCacheRemoteTimeout,
    OffloadCacheKeyFile,
    OffloadDistributor,
    OffloadDistributorArgument,
    OffloadMemory,
    OffloadStats,
    LlvmOption,
    Sysroot,
    Output,
    LibraryPath,
    Library,
    Relocatable,
    /// An option of the host linker whose value must not be mistaken for an input.
    HostValue,
    /// An option of the host linker that references a symbol.
    Root,
}

/// One row: spellings, shape, meaning, the value's name and the help text (empty: hidden).
pub struct Row(pub &'static [&'static str], pub Shape, pub Meaning, pub &'static str, pub &'static str);

use Shape::{Flag, Joined, JoinedOrSeparate, Separate};

/// Options of the wrapper that a linker's name does not accept; never passed to the host linker.
pub const WRAPPER: &[Row] = &[
    Row(&["--help"], Flag, Meaning::Help, "", "Display available options (--help-hidden for more)"),
    Row(&["--help-hidden"], Flag, Meaning::HelpHidden, "", ""),
    Row(&["--version", "-version"], Flag, Meaning::Version, "", "Display the version number and exit"),
    Row(&["-mllvm"], Separate, Meaning::LlvmOption, "<arg>", "Arguments passed to LLVM"),
];

/// Options of the wrapper that every name of the program accepts.
pub const ALWAYS: &[Row] = &[
    Row(&["--offload-opt=", "-offload-opt="], Joined, Meaning::LlvmOption, "<arg>", "Arguments passed to LLVM"),
    Row(&["--linker-path="], Joined, Meaning::LinkerPath, "<path>", "The host linker to run"),
    Row(&["--cuda-path="], Joined, Meaning::CudaPath, "<dir>", "The CUDA toolkit to use"),
    Row(
        &["--offload-backend="],
        Joined,
        Meaning::OffloadBackend,
        "auto|ptxas|nvjitlink|driver",
        "What makes the machine code (default: auto, ptxas wherever it can do it)",
    ),
    Row(&["--ptxas-path="], Joined, Meaning::PartPath(Part::Ptxas), "<file>", "The ptxas to use"),
    Row(&["--nvlink-path="], Joined, Meaning::PartPath(Part::Nvlink), "<file>", "The nvlink to use"),
    Row(&["--libdevice-path="], Joined, Meaning::PartPath(Part::Libdevice), "<file>", "The libdevice.10.bc to use"),
    Row(&["--cudadevrt-path="], Joined, Meaning::PartPath(Part::Cudadevrt), "<file>", "The libcudadevrt.a to use"),
    Row(&["--nvjitlink-path="], Joined, Meaning::PartPath(Part::NvJitLink), "<file>", "The libnvJitLink.so to use"),
    Row(&["--libcuda-path="], Joined, Meaning::PartPath(Part::Driver), "<file>", "The driver's libcuda.so.1 to use"),
    Row(&["--lld-path="], Joined, Meaning::PartPath(Part::Lld), "<file>", "The ld.lld to use for AMD GPUs"),
    Row(
        &["--print-toolchain"],
        Flag,
        Meaning::PrintToolchain,
        "",
        "Print the tools and libraries that were found, and exit",
    ),
    Row(&["--host-triple="], Joined, Meaning::HostTriple, "<triple>", "Triple of the host code"),
    Row(
        &["--device-linker="],
        Joined,
        Meaning::DeviceLinker,
        "<value> or <triple>=<value>",
        "Argument, file or library for the device link of all targets or of one triple",
    ),
    Row(
        &["--device-compiler="],
        Joined,
        Meaning::DeviceCompiler,
        "<value> or <triple>=<value>",
        "Argument for device code generation of all targets or of one triple",
    ),
    Row(
        &["-fno-lto", "-fno-offload-lto"],
        Flag,
        Meaning::NoLto,
        "",
        "Link machine code or PTX of nvcc's units, not their LTO-IR (--device-compiler=-fno-lto)",
    ),
    Row(&["--dry-run"], Flag, Meaning::DryRun, "", "Print what would be run, and run nothing"),
    Row(
        &["--reproduce=", "-reproduce="],
        Joined,
        Meaning::Reproduce,
        "<file>.tar",
        "Write an archive of the inputs, the command line and the releases of the tools, to link them again elsewhere",
    ),
    Row(&["--reproduce", "-reproduce"], Separate, Meaning::Reproduce, "<file>.tar", ""),
    // fatlink looks for no tools beside itself.
    Row(&["--no-canonical-prefixes"], Flag, Meaning::NoCanonicalPrefixes, "", ""),
    Row(&["--wrapper-verbose"], Flag, Meaning::Verbose, "", "Print the commands that are run, quoted for pasting"),
    Row(&["--embed-bitcode"], Flag, Meaning::EmbedBitcode, "", ""),
    Row(&["--print-wrapped-module"], Flag, Meaning::PrintWrappedModule, "", "Print the registration module's IR"),
    Row(&["--save-temps"], Flag, Meaning::SaveTemps, "", "Keep intermediate files beside the output"),
    Row(&["--save-temps="], Joined, Meaning::SaveTempsIn, "<dir>", "Keep intermediate files in this folder"),
    Row(&["--compress"], Flag, Meaning::Compress, "", "Compress HIP images"),
    Row(&["--compression-level="], Joined, Meaning::CompressionLevel, "<n>", "Compression level of HIP images"),
    Row(
        &["--offload-llvm-rules="],
        Joined,
        Meaning::LlvmRules,
        "22|23",
        "Link target ids together, and name HIP images, as this LLVM does (default: 22)",
    ),
    Row(
        &["--wrapper-jobs="],
        Joined,
        Meaning::Jobs,
        "<n>|jobserver",
        "Number of device link jobs at a time (default: one per core)",
    ),
    Row(&["--should-extract="], Joined, Meaning::ShouldExtract, "<arch>,...", "Targets to take out of archives"),
    Row(
        &["--dlink"],
        Flag,
        Meaning::Dlink,
        "",
        "Link the device code of objects to an object for the host linker; takes the command line of nvcc -dlink",
    ),
    Row(
        &["--translate-nvcc"],
        Flag,
        Meaning::TranslateNvcc,
        "",
        "As the first word, with a command of clang behind it: run it with its options of nvcc made into those of clang",
    ),
    // In a reproducer: the line is translated already.
    Row(&["--dlink=translated"], Flag, Meaning::Dlink, "", ""),
    Row(
        &["--emit-fatbin-only"],
        Flag,
        Meaning::EmitFatbinOnly,
        "",
        "Write the bundled image to the output, link nothing",
    ),
    Row(
        &["--offload-ptx="],
        Joined,
        Meaning::OffloadPtx,
        "objects|none|newest|oldest|all|<arch>,...",
        "PTX to put into the image beside the machine code (default: objects, what the files request)",
    ),
    Row(&["--cuda-include-ptx="], Joined, Meaning::IncludePtx, "<arch>|all", "Put in PTX of this target"),
    Row(&["--no-cuda-include-ptx="], Joined, Meaning::NoIncludePtx, "<arch>|all", "Leave out PTX of this target"),
    Row(
        &["--offload-sass="],
        Joined,
        Meaning::OffloadSass,
        "all|none|<arch>,...",
        "Machine code to put into the image (default: all)",
    ),
    Row(
        &["--offload-ptx-version="],
        Joined,
        Meaning::OffloadPtxVersion,
        "<major>.<minor>",
        "PTX version of that (default: the lowest that the code needs)",
    ),
    Row(
        &["--offload-partition-size="],
        Joined,
        Meaning::PartitionSize,
        "<n>|whole",
        "Cut the device code of a target into jobs of about this many LLVM instructions (default: 12000)",
    ),
    Row(
        &["--offload-compress="],
        Joined,
        Meaning::OffloadCompress,
        "auto|default|size|speed|balance|none",
        "How the image is compressed: auto (the default) whatever becomes smaller, the others as fatbinary --compress-mode",
    ),
    Row(
        &["--offload-driver="],
        Joined,
        Meaning::OffloadDriver,
        "<version>",
        "The oldest CUDA driver that has to load the image, such as 525: chooses the compression, and is checked",
    ),
    Row(
        &["--offload-fatbin-section="],
        Joined,
        Meaning::FatbinSection,
        "default|large",
        "large: put the image aside in the program, so that gigabytes of it break no 32-bit relocation",
    ),
    Row(
        &["--offload-report="],
        Joined,
        Meaning::OffloadReport,
        "text|json[:<file>]|html:<file>",
        "Say what went into the image, and what each GPU will run of it; html: draw this, the bytes, the kernels and the link's timeline",
    ),
    Row(
        &["--offload-plan="],
        Joined,
        Meaning::OffloadPlan,
        "text|json[:<file>]",
        "Print, before they run, who defines which symbol, and the members, jobs and tools of the device links",
    ),
    Row(
        &["--offload-check="],
        Joined,
        Meaning::OffloadCheck,
        "<name>=error|warn|off",
        "Severity of a difference between files (default: warn); an unknown name lists the checks",
    ),
    Row(
        &["--offload-gc="],
        Joined,
        Meaning::OffloadGc,
        "off|host",
        "host: compile no kernels whose launch the program's host code cannot reach (default: off)",
    ),
    Row(
        &["--offload-icf="],
        Joined,
        Meaning::OffloadIcf,
        "off|safe|all",
        "Compile one of several kernels that differ in their names only; all: and have the program launch it for the others (default: off)",
    ),
    Row(
        &["--offload-relocatable="],
        Joined,
        Meaning::OffloadRelocatable,
        "link|merge",
        "What -r makes of device code; merge: bitcode that a later link takes, with compiled partitions beside it (default: link)",
    ),
    Row(&["--wrapper-time-trace="], Joined, Meaning::TimeTrace, "<file>", "Write a time trace for Chrome's viewer"),
    Row(
        &["--wrapper-time-trace-granularity="],
        Joined,
        Meaning::TimeTraceGranularity,
        "<us>",
        "Shortest phase in the trace, in microseconds (default: 500)",
    ),
    Row(
        &["--offload-cache="],
        Joined,
        Meaning::OffloadCache,
        "<dir>|on|off",
        "Keep and find results of device links there; on: in the user's cache folder (default: FATLINK_CACHE, else off)",
    ),
    Row(
        &["--offload-cache-size="],
        Joined,
        Meaning::OffloadCacheSize,
        "<size>",
        "Size of the cache, such as 500M; what was not used for longest goes first (default: 10G)",
    ),
    Row(
        &["--offload-cache-remote="],
        Joined,
        Meaning::OffloadCacheRemote,
        "<url>|off",
        "Keep and find results in this store, too: http(s)://, dav(s)://, s3:// or redis(s):// (default: FATLINK_CACHE_REMOTE, else off)",
    ),
    Row(
        &["--offload-cache-remote-mode="],
        Joined,
        Meaning::OffloadCacheRemoteMode,
        "read-write|read-only",
        "Whether results are added to the store (default: FATLINK_CACHE_REMOTE_MODE, else read-write)",
    ),
    Row(
        &["--offload-cache-remote-timeout="],
        Joined,
        Meaning::OffloadCacheRemoteTimeout,
        "<seconds>",
        "Time for each request to the store, and at the end for results still to be sent (default: FATLINK_CACHE_REMOTE_TIMEOUT, else 10)",
    ),
    Row(
        &["--offload-cache-key-file="],
        Joined,
        Meaning::OffloadCacheKeyFile,
        "<file>",
        "A secret: only results sealed with it are used from the store (default: FATLINK_CACHE_KEY_FILE, else none)",
    ),
    Row(
        &["--offload-distributor="],
        Joined,
        Meaning::OffloadDistributor,
        "<program>",
        "Let this program run jobs elsewhere, as in LLVM's distributed ThinLTO (fatlink-slurm, fatlink-reapi)",
    ),
    Row(
        &["--offload-distributor-arg="],
        Joined,
        Meaning::OffloadDistributorArgument,
        "<arg>",
        "An argument for that program",
    ),
    Row(
        &["--offload-memory="],
        Joined,
        Meaning::OffloadMemory,
        "<size>|<percent>%",
        "Memory that device link jobs may use at a time, such as 8G or 50% of what is free (default: 80%)",
    ),
    Row(&["--offload-stats"], Flag, Meaning::OffloadStats, "", "Print where time and memory of the device link went"),
    Row(&["--offload-stats="], Joined, Meaning::OffloadStats, "text|json", "The same, as text or JSON"),
    Row(
        &["--override-image="],
        Joined,
        Meaning::OverrideImage,
        "<kind>=<file>",
        "Use the file as the linked device image instead of what the inputs hold",
    ),
];

/// Whether a word is an option of this program itself.
pub fn is_own(word: &OsStr) -> bool {
    let spellings = ALWAYS.iter().flat_map(|row| row.0.iter().map(move |spelling| (row.1, spelling.as_bytes())));
    let bytes = word.as_bytes();
    spellings
        .into_iter()
        .any(|(shape, spelling)| if shape == Flag { bytes == spelling } else { bytes.starts_with(spelling) })
}

/// Options of the host linker that matter to the device link. They stay on its command line.
pub const HOST: &[Row] = &[
    Row(&["--sysroot="], Joined, Meaning::Sysroot, "<dir>", "Root of -L=<dir>"),
    Row(&["--sysroot"], Separate, Meaning::Sysroot, "<dir>", ""),
    Row(&["-o"], JoinedOrSeparate, Meaning::Output, "<path>", "Output file"),
    Row(&["--output="], Joined, Meaning::Output, "<path>", ""),
    Row(&["--output"], Separate, Meaning::Output, "<path>", ""),
    Row(&["-L"], JoinedOrSeparate, Meaning::LibraryPath, "<dir>", "Folder to search for libraries"),
    Row(&["--library-path=", "-library-path="], Joined, Meaning::LibraryPath, "<dir>", ""),
    Row(&["--library-path", "-library-path"], Separate, Meaning::LibraryPath, "<dir>", ""),
    Row(&["-l"], JoinedOrSeparate, Meaning::Library, "<name>", "Library to link"),
    Row(&["--library=", "-library="], Joined, Meaning::Library, "<name>", ""),
    Row(&["--library", "-library"], Separate, Meaning::Library, "<name>", ""),
    Row(&["-r", "--relocatable", "-relocatable", "-i"], Flag, Meaning::Relocatable, "", "Link to a relocatable object"),
    Row(
        &["-u", "--undefined", "--require-defined", "-e", "--entry", "-init", "--init", "-fini", "--fini", "--wrap"],
        Separate,
        Meaning::Root,
        "",
        "",
    ),
    Row(
        // Options that take their value from the next argument, from the manuals of GNU ld and lld.
        &[
            "-m",
            "-z",
            "-T",
            "--script",
            "-h",
            "-soname",
            "--soname",
            "-y",
            "--trace-symbol",
            "-Map",
            "--Map",
            "-dynamic-linker",
            "--dynamic-linker",
            "-I",
            "-rpath",
            "--rpath",
            "-R",
            "-rpath-link",
            "--rpath-link",
            "-plugin",
            "--plugin",
            "-plugin-opt",
            "--plugin-opt",
            "-f",
            "--auxiliary",
            "-F",
            "--filter",
            "-A",
            "--architecture",
            "-b",
            "--format",
            "-c",
            "--defsym",
            "-G",
            "--gpsize",
            "-Y",
            "--oformat",
            "--version-script",
            "--dynamic-list",
            "--exclude-libs",
            "--export-dynamic-symbol",
            "--retain-symbols-file",
            "--section-start",
            "-Ttext",
            "-Tdata",
            "-Tbss",
            "--dependency-file",
            "--just-symbols",
            "-a",
            "-P",
            "-assert",
        ],
        Separate,
        Meaning::HostValue,
        "",
        "",
    ),
];

/// Generates the text of `--help`; with `hidden`, for all options.
pub fn help(hidden: bool) -> String {
    let mut text = String::from(
        "OVERVIEW: fatlink links the device code inside host objects, puts it into the program, and runs the host linker.\n\n\
         USAGE: clang-linker-wrapper [options] -- <options to the host linker>\n\nOPTIONS:\n",
    );
    for Row(spellings, shape, meaning, value, describe) in [WRAPPER, ALWAYS, HOST].into_iter().flatten() {
        if matches!(meaning, Meaning::HostValue | Meaning::Root) || (describe.is_empty() && !hidden) {
            continue;
        }
        let space = if *shape == Separate { " " } else { "" };
        let left = format!("  {}{space}{value}", spellings[0]);
        let gap = if left.len() > 30 { format!("\n{:31}", "") } else { " ".repeat(31 - left.len()) };
        text.push_str(format!("{left}{gap}{describe}").trim_end());
        text.push('\n');
    }
    text
}
