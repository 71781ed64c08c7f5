//! Reading the command line, by the one table of options in [`crate::cli::flags`].
//!
//! What the wrapper understands is taken out; everything else stays on the host linker's line, in
//! order and spelled as it came.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use offload_bundle::arch::PtxVersion;
use offload_bundle::fatbin::CompressMode;

use crate::cli::backend_choice::BackendChoice;
use crate::cli::flags::Shape::{Flag, Joined, JoinedOrSeparate, Separate};
use crate::cli::flags::{ALWAYS, HOST, Meaning, Row, WRAPPER, help};
use crate::cli::persona::Persona;
use crate::device::compat_checks::Levels;
use crate::diag::byte_size;
use crate::diag::error::Errors;
use crate::host::fatbin_section::FatbinSection;
use crate::image::compression;
use crate::image::report::Request;
use crate::lto::partitioned::Partitioning;
use crate::plan::image_policy::{PtxPolicy, SassPolicy};
use crate::profile::stats::StatsFormat;
use crate::sys::cache::CacheChoice;
use crate::sys::jobserver::Jobs;
use crate::sys::memory::MemoryChoice;
use crate::toolchain::NamedParts;

/// What was asked, with the host linker's line in its own order.
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
    pub report: Option<Request>,
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

/// Reads a line without `argv[0]`, response files already expanded.
///
/// # Errors
/// Every option with a bad or missing value.
pub fn parse(words: &[OsString], persona: Persona) -> Result<Options, Errors> {
    let mut parser = Parser {
        options: Options::default(),
        errors: Errors::default(),
        persona,
        state: State::default(),
        pushed: Vec::new(),
    };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match find(word, persona) {
            Some(found) => {
                let value = match &found.joined {
                    Some(value) => Some(value.clone()),
                    None if found.row.1 == Flag => None,
                    None => rest.next().cloned(),
                };
                parser.option(word, &found, value);
            }
            None => parser.plain(word),
        }
    }
    parser.errors.or(parser.options)
}

/// A row that a word matches.
struct Found {
    row: &'static Row,
    spelling: &'static str,
    /// The value, if it is in the same word.
    joined: Option<OsString>,
}

/// The row with the longest spelling that the word begins with, so that `--library=` beats `-l`.
fn find(word: &OsStr, persona: Persona) -> Option<Found> {
    let bytes = word.as_bytes();
    let tables: &[&[Row]] = match persona {
        Persona::Wrapper => &[WRAPPER, ALWAYS, HOST],
        Persona::Linker => &[ALWAYS, HOST],
    };
    let rows = tables.iter().flat_map(|table| table.iter());
    let matching = rows.flat_map(|row| row.0.iter().map(move |spelling| (row, *spelling))).filter(|(row, spelling)| {
        let exact = bytes == spelling.as_bytes();
        match row.1 {
            Flag | Separate => exact,
            Joined => bytes.starts_with(spelling.as_bytes()),
            JoinedOrSeparate => bytes.starts_with(spelling.as_bytes()) && !is_long_word(bytes, spelling),
        }
    });
    let (row, spelling) = matching.max_by_key(|(_, spelling)| spelling.len())?;
    let behind = &bytes[spelling.len()..];
    let joined = match row.1 {
        Joined => Some(behind),
        JoinedOrSeparate if !behind.is_empty() => Some(behind),
        _ => None,
    };
    Some(Found { row, spelling, joined: joined.map(|value| OsString::from_vec(value.to_vec())) })
}

/// Whether the word after this one is its value.
pub fn takes_next_word(word: &OsStr) -> bool {
    find(word, Persona::Linker).is_some_and(|found| found.row.1 != Flag && found.joined.is_none())
}

/// Linkers also take long options with one dash: `-omagic`-like words that are no output names.
fn is_long_word(word: &[u8], spelling: &str) -> bool {
    const LONG: [&str; 2] = ["-omagic", "-oformat"];
    spelling == "-o" && LONG.iter().any(|long| word == long.as_bytes())
}

struct Parser {
    options: Options,
    errors: Errors,
    persona: Persona,
    /// What `-Bstatic`, `--whole-archive` and their opposites say at this point of the line.
    state: State,
    /// What `--push-state` put aside.
    pushed: Vec<State>,
}

/// The linker's switches that hold for the inputs behind them.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    archive_only: bool,
    whole: bool,
}

impl State {
    /// Whether the word is such a switch; it stays on the line in any case.
    fn switch(&mut self, word: &[u8], pushed: &mut Vec<State>) {
        let long = word.strip_prefix(b"-").unwrap_or(word);
        match long.strip_prefix(b"-").unwrap_or(long) {
            b"static" | b"Bstatic" | b"dn" | b"non_shared" => self.archive_only = true,
            b"Bdynamic" | b"dy" | b"call_shared" => self.archive_only = false,
            b"whole-archive" => self.whole = true,
            b"no-whole-archive" => self.whole = false,
            b"push-state" => pushed.push(*self),
            b"pop-state" => *self = pushed.pop().unwrap_or_default(),
            _ => {}
        }
    }
}

impl Parser {
    /// A word that is no option of ours.
    fn plain(&mut self, word: &OsStr) {
        let is_option = word.as_bytes().starts_with(b"-") && word.len() > 1;
        if !is_option {
            self.options.inputs.push(Input::File { path: word.into(), whole: self.state.whole });
        } else {
            self.state.switch(word.as_bytes(), &mut self.pushed);
            self.roots(word);
        }
        if is_option && self.persona == Persona::Linker {
            self.options.linker_query |= matches!(word.as_bytes(), b"--version" | b"--help");
        }
        self.options.host_line.push(word.to_owned());
    }

    /// `-uNAME`, `--undefined=NAME` and their like, in one word.
    fn roots(&mut self, word: &OsStr) {
        const JOINED: [&str; 9] = [
            "--undefined=",
            "-undefined=",
            "--require-defined=",
            "--entry=",
            "-entry=",
            "--init=",
            "--fini=",
            "--wrap=",
            "-u",
        ];
        let text = word.to_string_lossy();
        let name = JOINED.iter().find_map(|prefix| text.strip_prefix(prefix));
        self.options.roots.extend(name.map(str::to_owned));
    }

    fn option(&mut self, word: &OsStr, found: &Found, value: Option<OsString>) {
        let Some(value) = value.or((found.row.1 == Flag).then(OsString::new)) else {
            let expected = if found.row.3.is_empty() { "<value>" } else { found.row.3 };
            self.errors.push(format_args!("{} needs a value: {} {expected}", found.spelling, found.spelling));
            return;
        };
        if self.wrapper_option(found.row.2, &value) {
            return;
        }
        self.host_option(found.row.2, &value);
        let line = &mut self.options.host_line;
        line.push(word.to_owned());
        if found.joined.is_none() && found.row.1 != Flag {
            line.push(value);
        }
        if found.row.2 == Meaning::Output {
            self.options.insertion = line.len();
            self.options.inputs_before_output = self.options.inputs.len();
            self.options.output_words = if found.joined.is_none() { 2 } else { 1 };
        }
    }

    /// Options that stay on the host linker's line.
    fn host_option(&mut self, meaning: Meaning, value: &OsStr) {
        let options = &mut self.options;
        match meaning {
            Meaning::Sysroot => options.sysroot = Some(value.into()),
            Meaning::Output => options.output = Some(value.into()),
            Meaning::LibraryPath => options.library_paths.push(value.into()),
            Meaning::Library => {
                let name = value.to_string_lossy().into_owned();
                let State { archive_only, whole } = self.state;
                options.inputs.push(Input::Library { name, archive_only, whole });
            }
            Meaning::Relocatable => options.relocatable = true,
            Meaning::Root => options.roots.push(value.to_string_lossy().into_owned()),
            _ => {}
        }
    }

    /// clang's option makes the link line decide, unless `--offload-ptx` does.
    fn include_ptx(&mut self, word: String) {
        if self.options.ptx_policy == PtxPolicy::Objects {
            self.options.ptx_policy = PtxPolicy::Line;
        }
        self.options.include_ptx.push(word);
    }

    /// Options that end here. `false`: it is one of the host linker's.
    fn wrapper_option(&mut self, meaning: Meaning, value: &OsStr) -> bool {
        let text = value.to_string_lossy().into_owned();
        let options = &mut self.options;
        match meaning {
            Meaning::Help => options.help = Some(help(false)),
            Meaning::HelpHidden => options.help = Some(help(true)),
            Meaning::Version => options.version = true,
            Meaning::LinkerPath => options.linker_path = Some(value.into()),
            Meaning::CudaPath => options.cuda_path = Some(value.into()),
            Meaning::PartPath(part) => options.parts.set(part, value.into()),
            Meaning::PrintToolchain => options.print_toolchain = true,
            Meaning::OffloadBackend => match BackendChoice::parse(&text) {
                Some(wish) => options.backend = wish,
                None => self
                    .errors
                    .push(format_args!("--offload-backend=: expected auto, ptxas, nvjitlink or driver, got '{text}'")),
            },
            Meaning::HostTriple => options.host_triple = Some(text),
            Meaning::DeviceLinker => options.device_linker.push(split_triple(&text)),
            Meaning::DeviceCompiler => options.device_compiler.push(split_triple(&text)),
            Meaning::DryRun => options.dry_run = true,
            Meaning::Verbose => options.verbose = true,
            Meaning::EmbedBitcode => options.embed_bitcode = true,
            Meaning::PrintWrappedModule => options.print_wrapped_module = true,
            Meaning::SaveTemps => options.save_temps = true,
            Meaning::EmitFatbinOnly => options.emit_fatbin_only = true,
            Meaning::OffloadPtx => match PtxPolicy::parse(&text) {
                Ok(policy) => options.ptx_policy = policy,
                Err(error) => self.errors.push(error),
            },
            Meaning::IncludePtx => self.include_ptx(format!("--cuda-include-ptx={text}")),
            Meaning::NoIncludePtx => self.include_ptx(format!("--no-cuda-include-ptx={text}")),
            Meaning::OffloadSass => match SassPolicy::parse(&text) {
                Ok(policy) => options.sass_policy = policy,
                Err(error) => self.errors.push(error),
            },
            Meaning::OffloadPtxVersion => match parse_version(&text) {
                Some(version) => options.ptx_version = Some(version),
                None => self
                    .errors
                    .push(format_args!("--offload-ptx-version=: expected a version such as 8.0, got '{text}'")),
            },
            Meaning::OffloadCache => match CacheChoice::parse(value) {
                Some(choice) => options.cache = Some(choice),
                None => self.errors.push("--offload-cache=: expected a folder, 'on' or 'off'"),
            },
            Meaning::OffloadCacheSize => match byte_size::parse(&text) {
                Some(bytes) if bytes > 0 => options.cache_size = Some(bytes),
                _ => self
                    .errors
                    .push(format_args!("--offload-cache-size=: expected a size such as 500M or 10G, got '{text}'")),
            },
            Meaning::OffloadMemory => match MemoryChoice::parse(&text) {
                Some(choice) => options.memory = Some(choice),
                None => self
                    .errors
                    .push(format_args!("--offload-memory=: expected a size such as 8G, or 1% to 100%, got '{text}'")),
            },
            Meaning::OffloadStats => match StatsFormat::parse(&text) {
                Some(format) => options.stats = Some(format),
                None => self.errors.push(format_args!("--offload-stats=: expected 'text' or 'json', got '{text}'")),
            },
            Meaning::OffloadCompress => match compression::parse(&text) {
                Ok(mode) => options.compress = mode,
                Err(error) => self.errors.push(error),
            },
            Meaning::FatbinSection => match FatbinSection::parse(&text) {
                Ok(section) => options.fatbin_section = section,
                Err(error) => self.errors.push(error),
            },
            Meaning::OffloadReport => match Request::parse(&text) {
                Ok(request) => options.report = Some(request),
                Err(error) => self.errors.push(error),
            },
            Meaning::OffloadCheck => {
                if let Err(error) = options.checks.set(&text) {
                    self.errors.push(error);
                }
            }
            Meaning::TimeTrace => options.time_trace = Some(value.into()),
            Meaning::TimeTraceGranularity => match text.parse() {
                Ok(granularity) => options.time_trace_granularity = Some(Duration::from_micros(granularity)),
                Err(_) => self.errors.push(format_args!(
                    "--wrapper-time-trace-granularity=: expected a number of microseconds, got '{text}'"
                )),
            },
            Meaning::OverrideImage => match text.split_once('=') {
                Some((kind, file)) => options.override_image = Some((kind.to_owned(), file.into())),
                None => self.errors.push(format_args!("--override-image=: expected <kind>=<file>, got '{text}'")),
            },
            Meaning::LlvmOption => options.llvm_options.push(text),
            Meaning::PartitionSize => match Partitioning::parse(&text) {
                Some(partitioning) => options.partitioning = partitioning,
                None => self.errors.push(format_args!(
                    "--offload-partition-size=: expected a number of instructions or 'whole', got '{text}'"
                )),
            },
            Meaning::Jobs => match text.parse() {
                Ok(jobs) if jobs > 0 => options.jobs = Jobs::Number(jobs),
                _ if text == "jobserver" => options.jobs = Jobs::Jobserver,
                _ => self
                    .errors
                    .push(format_args!("--wrapper-jobs=: expected a positive integer or 'jobserver', got '{text}'")),
            },
            // HIP alone compresses by these, and every archive member is taken: accepted, no effect on CUDA.
            Meaning::Compress | Meaning::CompressionLevel | Meaning::ShouldExtract => {}
            _ => return false,
        }
        true
    }
}

/// `TRIPLE=VALUE` or `VALUE`. The left side is a triple only if its first part is a device architecture.
fn split_triple(text: &str) -> (Option<String>, String) {
    const DEVICES: [&str; 12] = [
        "nvptx",
        "nvptx64",
        "amdgcn",
        "spirv64",
        "x86_64",
        "i386",
        "aarch64",
        "powerpc64",
        "powerpc64le",
        "ppc64le",
        "systemz",
        "s390x",
    ];
    match text.split_once('=') {
        Some((triple, value)) if DEVICES.contains(&triple.split('-').next().unwrap_or(triple)) => {
            (Some(triple.to_owned()), value.to_owned())
        }
        _ => (None, text.to_owned()),
    }
}

fn parse_version(text: &str) -> Option<PtxVersion> {
    let (major, minor) = text.split_once('.')?;
    Some(PtxVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
}
