//! Parses the command line with the table in [`crate::cli::flags`].
//!
//! The wrapper's options are removed; everything else stays on the host linker's command line, in order and as spelled.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::cli::error::Error;
use crate::cli::flags::Meaning;
use crate::cli::flags::Shape::Flag;
use crate::cli::help::Help;
use crate::cli::mistyped;
use crate::cli::nvcc_to_clang;
use crate::cli::options::{Input, Options};
use crate::cli::persona::Persona;
use crate::cli::values::{
    self, BackendChoice, CacheChoice, FatbinSection, ImageCompression, Jobs, KernelFolding, KernelGc, LlvmRules,
    MemoryChoice, OffloadReport, Partitioning, PlanRequest, PtxPolicy, RelocatableCode, RemoteChoice, SassPolicy,
    StatsFormat,
};
use crate::cli::words::{self, Found, Word};
use crate::diag::color;
use crate::diag::error::Errors;

/// Parses a command line without `argv[0]` whose response files are expanded.
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
        separated: false,
    };
    for word in words::split(words, persona) {
        match word {
            Word::Option { word, found, value } => parser.option(word, &found, value),
            Word::Plain(word) => parser.plain(word),
        }
    }
    if let (None, Some(argument)) = (&parser.options.distributor, parser.options.distributor_arguments.first()) {
        parser.errors.extend(Error::LoneDistributorArgument { argument: argument.into() });
    }
    parser.errors.or(parser.options)
}

struct Parser {
    options: Options,
    errors: Errors,
    persona: Persona,
    /// The state of `-Bstatic`, `--whole-archive` and their opposites at this point of the command line.
    state: State,
    /// States saved by `--push-state`.
    pushed: Vec<State>,
    /// The `--` in front of the host linker's options was there.
    separated: bool,
}

/// Switches of the linker that apply to the inputs behind them.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    archive_only: bool,
    whole: bool,
}

impl State {
    /// Updates the state if the argument is a switch.
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
    /// Handles an argument that is not in the table.
    fn plain(&mut self, word: &OsStr) {
        // Old releases of clang write it. For a host linker it is an error, or the end of all options.
        if word == "--" && self.persona == Persona::Wrapper && !self.separated {
            self.separated = true;
            return;
        }
        let is_option = word.as_bytes().starts_with(b"-") && word.len() > 1;
        if !is_option {
            self.options.inputs.push(Input::File { path: word.into(), whole: self.state.whole });
        } else {
            if let Some(error) = mistyped::error(word) {
                self.errors.extend(error);
            }
            // The host linker follows it, too.
            if let Some(choice) = word.to_str().and_then(color::Choice::parse) {
                self.options.color = choice;
            }
            self.state.switch(word.as_bytes(), &mut self.pushed);
            self.roots(word);
        }
        if is_option && self.persona == Persona::Linker {
            self.options.linker_query |= matches!(word.as_bytes(), b"--version" | b"--help");
        }
        self.options.host_line.push(word.to_owned());
    }

    /// Handles `-uNAME`, `--undefined=NAME` and the like.
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
            self.errors.extend(Error::MissingValue { option: found.spelling, expected });
            return;
        };
        if self.wrapper_option(found.row.2, &value) {
            return;
        }
        self.host_option(found.row.2, &value);
        let line = &mut self.options.host_line;
        // clang's wrapper writes -L and -l for these, which GNU ld takes for -l with an odd name.
        let is_lld_spelling = self.persona == Persona::Wrapper && found.spelling.starts_with("-library");
        line.push(if is_lld_spelling { with_dash(word) } else { word.to_owned() });
        if found.joined.is_none() && found.row.1 != Flag {
            line.push(value);
        }
        if found.row.2 == Meaning::Output {
            self.options.insertion = line.len();
            self.options.inputs_before_output = self.options.inputs.len();
            self.options.output_words = if found.joined.is_none() { 2 } else { 1 };
        }
    }

    /// Handles options that stay on the host linker's command line.
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

    /// clang's option overrides the recorded flags, but not `--offload-ptx`.
    fn include_ptx(&mut self, word: String) {
        if self.options.ptx_policy == PtxPolicy::Objects {
            self.options.ptx_policy = PtxPolicy::Line;
        }
        self.options.include_ptx.push(word);
    }

    /// Handles options of the wrapper. Returns `false` for one of the host linker.
    fn wrapper_option(&mut self, meaning: Meaning, value: &OsStr) -> bool {
        let text = value.to_string_lossy().into_owned();
        let Parser { options, errors, .. } = self;
        match meaning {
            Meaning::Help => options.help = Some(Help::Options),
            Meaning::HelpHidden => options.help = Some(Help::Hidden),
            Meaning::Version => options.version = true,
            Meaning::LinkerPath => options.linker_path = Some(value.into()),
            Meaning::CudaPath => options.cuda_path = Some(value.into()),
            Meaning::PartPath(part) => options.parts.set(part, value.into()),
            Meaning::PrintToolchain => options.print_toolchain = true,
            Meaning::OffloadBackend => store(&mut options.backend, BackendChoice::parse(&text), errors),
            Meaning::HostTriple => options.host_triple = Some(text),
            Meaning::DeviceLinker => options.device_linker.extend(some_argument(&text)),
            Meaning::DeviceCompiler => options.device_compiler.push(split_triple(&text)),
            Meaning::NoLto => options.device_compiler.push((None, "-fno-lto".to_owned())),
            Meaning::Reproduce => options.reproduce = Some(value.into()),
            Meaning::NoCanonicalPrefixes => {}
            Meaning::DryRun => options.dry_run = true,
            Meaning::Verbose => options.verbose = true,
            Meaning::EmbedBitcode => options.embed_bitcode = true,
            Meaning::PrintWrappedModule => options.print_wrapped_module = true,
            Meaning::SaveTemps => options.save_temps = true,
            Meaning::SaveTempsIn => {
                options.save_temps = true;
                options.temps_folder = Some(value.into());
            }
            Meaning::EmitFatbinOnly => options.emit_fatbin_only = true,
            Meaning::Dlink => options.dlink = true,
            Meaning::TranslateNvcc => errors.extend(Error::NotFirst { option: nvcc_to_clang::OPTION }),
            Meaning::OffloadPtx => store(&mut options.ptx_policy, PtxPolicy::parse(&text), errors),
            Meaning::IncludePtx => self.include_ptx(format!("--cuda-include-ptx={text}")),
            Meaning::NoIncludePtx => self.include_ptx(format!("--no-cuda-include-ptx={text}")),
            Meaning::OffloadSass => store(&mut options.sass_policy, SassPolicy::parse(&text), errors),
            Meaning::OffloadPtxVersion => store(&mut options.ptx_version, values::ptx_version(&text).map(Some), errors),
            Meaning::OffloadCache => store(&mut options.cache, CacheChoice::parse(value).map(Some), errors),
            Meaning::OffloadCacheSize => store(&mut options.cache_size, values::cache_size(&text).map(Some), errors),
            Meaning::OffloadCacheRemote => {
                let place = RemoteChoice::parse("--offload-cache-remote=", &text);
                store(&mut options.remote_cache.place, place.map(Some), errors);
            }
            Meaning::OffloadCacheRemoteMode => {
                let mode = values::remote_mode("--offload-cache-remote-mode=", &text);
                store(&mut options.remote_cache.mode, mode.map(Some), errors);
            }
            Meaning::OffloadCacheRemoteTimeout => {
                let limit = values::remote_timeout("--offload-cache-remote-timeout=", &text);
                store(&mut options.remote_cache.limit, limit.map(Some), errors);
            }
            Meaning::OffloadCacheKeyFile => options.remote_cache.key_file = Some(value.into()),
            Meaning::OffloadDistributor if value.is_empty() => errors.extend(Error::NoDistributor),
            Meaning::OffloadDistributor => options.distributor = Some(value.into()),
            Meaning::OffloadDistributorArgument => options.distributor_arguments.push(value.into()),
            Meaning::OffloadMemory => store(&mut options.memory, MemoryChoice::parse(&text).map(Some), errors),
            Meaning::OffloadStats => store(&mut options.stats, StatsFormat::parse(&text).map(Some), errors),
            Meaning::OffloadCompress => store(&mut options.compress, ImageCompression::parse(&text), errors),
            Meaning::OffloadDriver => store(&mut options.driver, values::driver(&text).map(Some), errors),
            Meaning::FatbinSection => store(&mut options.fatbin_section, FatbinSection::parse(&text), errors),
            Meaning::OffloadReport => {
                store(&mut options.report, OffloadReport::parse(&text).map(Some), errors);
            }
            Meaning::OffloadPlan => {
                store(&mut options.plan, PlanRequest::parse(&text).map(Some), errors);
            }
            Meaning::OffloadCheck => options.checks.set(&text).unwrap_or_else(|error| errors.extend(error)),
            Meaning::OffloadGc => store(&mut options.kernel_gc, KernelGc::parse(&text), errors),
            Meaning::OffloadRelocatable => {
                store(&mut options.relocatable_code, RelocatableCode::parse(&text), errors);
            }
            Meaning::OffloadIcf => store(&mut options.kernel_folding, KernelFolding::parse(&text), errors),
            Meaning::TimeTrace => options.time_trace = Some(value.into()),
            Meaning::TimeTraceGranularity => {
                store(&mut options.time_trace_granularity, values::granularity(&text).map(Some), errors);
            }
            Meaning::OverrideImage => match text.split_once('=') {
                Some((kind, file)) => options.override_image = Some((kind.to_owned(), file.into())),
                None => errors.extend(Error::value("--override-image=", "<kind>=<file>", &text)),
            },
            Meaning::LlvmOption => options.llvm_options.push(text),
            Meaning::PartitionSize => store(&mut options.partitioning, Partitioning::parse(&text), errors),
            Meaning::Jobs => store(&mut options.jobs, Jobs::parse(&text), errors),
            Meaning::Compress => options.compress_hip = true,
            Meaning::CompressionLevel => {
                store(&mut options.compression_level, values::compression_level(&text).map(Some), errors);
            }
            Meaning::LlvmRules => store(&mut options.llvm_rules, LlvmRules::parse(&text), errors),
            // For CUDA, every archive member is considered anyway.
            Meaning::ShouldExtract => options.should_extract.extend(text.split(',').map(str::to_owned)),
            _ => return false,
        }
        true
    }
}

/// The argument of `--device-linker=`; none if nothing is behind the `=`, as when a build system expands an empty variable.
fn some_argument(text: &str) -> Option<(Option<String>, String)> {
    Some(split_triple(text)).filter(|(_, word)| !word.is_empty())
}

fn with_dash(word: &OsStr) -> OsString {
    let mut long = OsString::from("-");
    long.push(word);
    long
}

/// Stores the value of an option, or collects its error.
fn store<T>(place: &mut T, value: Result<T, Error>, errors: &mut Errors) {
    match value {
        Ok(value) => *place = value,
        Err(error) => errors.extend(error),
    }
}

/// `TRIPLE=VALUE` or `VALUE`. The left side is a triple only if its first part is a device architecture.
pub fn split_triple(text: &str) -> (Option<String>, String) {
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
