//! The arguments of `--device-compiler=` and `--device-linker=` that device links for AMD GPUs take.
//!
//! clang writes them for an inner clang, which drives ld.lld. fatlink optimizes and generates code itself and starts ld.lld on the
//! result.

use std::ffi::OsStr;
use std::path::PathBuf;

use llvm_passes::amdgpu::{AmdTarget, TRIPLE};
use llvm_passes::pipeline::OptLevel;

use crate::cli::device_options::{DeviceInput, DeviceOptions};
use crate::cli::lld_lto_options::{self, Effect};
use crate::cli::options::Options;
use crate::cli::words;

/// The options of the device links for one triple.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmdOptions {
    /// Optimization level.
    pub level: OptLevel,
    /// Level of code generation, if it is not the usual one of the optimization level.
    pub generation: Option<OptLevel>,
    /// The passes that run instead of those of the level.
    pub passes: Option<String>,
    /// Each pass is printed when it runs.
    pub prints_passes: bool,
    /// Features of the processor in addition to those of the target id.
    pub features: Vec<String>,
    /// Processors that arguments name, each with the argument.
    pub processors: Vec<(String, String)>,
    /// Options of LLVM for AMD GPUs alone. Those for all targets are among [`DeviceOptions`].
    pub llvm_options: Vec<String>,
    /// How many jobs run at a time.
    pub jobs: Option<usize>,
    /// The program is not cut.
    pub is_whole: bool,
    /// Intermediate files are kept.
    pub saves_temps: bool,
    /// Symbols that stay even if nothing references them.
    pub roots: Vec<String>,
    /// Symbols whose definition and references are printed.
    pub traced: Vec<String>,
    /// The code object exports no functions but kernels.
    pub hides_functions: bool,
    /// Files and libraries of the device link, in order.
    pub inputs: Vec<DeviceInput>,
    /// Folders that are searched for the libraries.
    pub library_paths: Vec<PathBuf>,
    /// Other arguments for ld.lld, in order.
    pub linker_arguments: Vec<String>,
    /// The first of the inputs that are left to ld.lld, which may reference any symbol.
    pub named_input: Option<String>,
    /// LLVM's own SPIR-V backend translates `amdgcnspirv` images, not llvm-spirv.
    pub spirv_backend: bool,
    /// Print what runs.
    pub verbose: bool,
    /// Arguments that a link of bitcode rejects, each with the reason.
    pub refused: Vec<(String, String)>,
    /// Arguments without an effect, as warnings show them.
    pub unknown: Vec<String>,
}

/// Options of the inner clang that decide nothing here: where ROCm is, the form of the bitcode, and what is an option of the wrapper
/// itself.
const WITHOUT_EFFECT: [&str; 7] = [
    "--rocm-path=",
    "--rocm-device-lib-path=",
    "--hip-path=",
    "-mcode-object-version=",
    "-march=",
    "-save-temps",
    "-flto",
];

impl Default for AmdOptions {
    fn default() -> Self {
        AmdOptions {
            level: OptLevel::O2,
            generation: None,
            passes: None,
            prints_passes: false,
            features: Vec::new(),
            processors: Vec::new(),
            llvm_options: Vec::new(),
            jobs: None,
            is_whole: false,
            saves_temps: false,
            roots: Vec::new(),
            traced: Vec::new(),
            hides_functions: false,
            inputs: Vec::new(),
            library_paths: Vec::new(),
            linker_arguments: Vec::new(),
            named_input: None,
            spirv_backend: false,
            verbose: false,
            refused: Vec::new(),
            unknown: Vec::new(),
        }
    }
}

impl AmdOptions {
    /// Reads the arguments for this triple, and those for all.
    pub fn read(options: &Options, triple: &str) -> Self {
        let mut own = AmdOptions::default();
        own.compiler_words(for_triple(&options.device_compiler, triple).map(|(_, word)| word));
        own.linker_words(for_triple(&options.device_linker, triple));
        if triple != TRIPLE {
            // Translators make the image, not ld.lld.
            let words = for_triple(&options.device_linker, triple).filter(|(is_own, _)| *is_own);
            own.unknown.extend(words.map(|(_, word)| format!("--device-linker={triple}={word}")));
        }
        own
    }

    /// The target that LLVM generates code for.
    pub fn target(&self, processor: String, features: String) -> AmdTarget {
        let features: Vec<String> =
            std::iter::once(features).filter(|own| !own.is_empty()).chain(self.features.iter().cloned()).collect();
        let usual = AmdTarget::new(processor, features.join(","), self.level);
        let (passes, prints_passes) = (self.passes.clone(), self.prints_passes);
        AmdTarget { generation: self.generation.unwrap_or(usual.generation), passes, prints_passes, ..usual }
    }

    /// Whether the program has to be compiled in one piece.
    pub fn is_one_piece(&self) -> bool {
        self.is_whole
            || self.named_input.is_some()
            || self.passes.is_some()
            || self.prints_passes
            || !self.roots.is_empty()
    }

    /// Why it has to be, and loses optimization by that, if there is a reason that no option says by its name.
    pub fn why_one_piece(&self) -> Option<String> {
        let input = self.named_input.as_ref()?;
        Some(format!("--device-linker={input} is an input of ld.lld, which may reference any symbol: all stay visible"))
    }

    fn compiler_words<'w>(&mut self, words: impl Iterator<Item = &'w str>) {
        let (mut level, mut lto) = (None, true);
        for word in words {
            if let Some(last) = word.strip_prefix("-O").and_then(OptLevel::parse) {
                level = Some(last);
            } else if word == "-fno-lto" {
                lto = false;
            } else if let Some(parts) = word.strip_prefix("-flto-partitions=") {
                self.is_whole = parts == "1";
            } else if let Some(jobs) = word.strip_prefix("-flto-jobs=") {
                self.set_jobs(word, jobs);
            } else if let Some(processor) = word.strip_prefix("-mcpu=") {
                self.processors.push((format!("--device-compiler={word}"), processor.to_owned()));
            } else if word.starts_with("-fprofile-") || word.starts_with("-fcs-profile-") {
                self.refuse(format!("--device-compiler={word}"), lld_lto_options::PROFILE);
            } else if word == "-use-spirv-backend" {
                self.spirv_backend = true;
            } else if word == "-v" {
                self.verbose = true;
            } else if word.starts_with("-flto") {
                lto = true;
            } else if !(word.starts_with("-g") || WITHOUT_EFFECT.iter().any(|known| word.starts_with(known))) {
                self.unknown.push(format!("--device-compiler={word}"));
            }
        }
        // clang passes ld.lld both levels with LTO, and none without, when ld.lld has bitcode to compile all the same.
        if let Some(level) = level.filter(|_| lto) {
            self.level = level;
            self.generation = Some(if matches!(level, OptLevel::Os | OptLevel::Oz) { OptLevel::O2 } else { level });
        }
    }

    /// Reads arguments for ld.lld, each with whether it is for AMD GPUs alone.
    fn linker_words<'w>(&mut self, mut words: impl Iterator<Item = (bool, &'w str)>) {
        let mut whole = false;
        while let Some((is_own, word)) = words.next() {
            let Some(found) = lld_lto_options::find(word) else {
                self.linker_word(word, &mut whole, &mut || words.next().map(|(_, value)| value));
                continue;
            };
            let next = if found.value.is_none() { words.next().map(|(_, value)| value) } else { None };
            let Some(value) = found.value.or(next) else {
                self.refused.push((format!("--device-linker={word}"), "its value is missing".to_owned()));
                continue;
            };
            let words = std::iter::once(word).chain(next);
            self.apply(found.effect, value, &words.collect::<Vec<_>>(), is_own);
        }
    }

    /// Reads a word that does not concern LTO: an input, where libraries are, or an argument that is ld.lld's own. `next` takes its value from
    /// the next word.
    fn linker_word<'w>(&mut self, word: &'w str, whole: &mut bool, next: &mut dyn FnMut() -> Option<&'w str>) {
        if let Some(folder) = value_of(word, "-L", "library-path", next) {
            self.library_paths.push(folder.into());
        } else if let Some(name) = value_of(word, "-l", "library", next) {
            self.inputs.push(DeviceInput::Library { name: name.to_owned(), whole: *whole });
        } else if matches!(word, "--whole-archive" | "--no-whole-archive") {
            *whole = word == "--whole-archive";
        } else if !word.starts_with('-') {
            self.inputs.push(DeviceInput::File { path: word.into(), whole: *whole });
        } else {
            self.linker_arguments.push(word.to_owned());
            if words::takes_next_word(OsStr::new(word)) {
                self.linker_arguments.extend(next().map(str::to_owned));
            }
        }
    }

    /// Leaves inputs to ld.lld, which finds their libraries, too.
    pub fn leave_to_linker(&mut self, inputs: &[DeviceInput]) {
        let Some(first) = inputs.first() else { return };
        self.named_input = Some(first.to_string());
        let folders = self.library_paths.iter().map(|folder| format!("-L{}", folder.display()));
        self.linker_arguments.extend(folders.chain(inputs.iter().map(ToString::to_string)));
    }

    /// Applies an option of `words` that concerns LTO.
    fn apply(&mut self, effect: Effect, value: &str, words: &[&str], is_own: bool) {
        let option = || format!("--device-linker={}", words.join(" "));
        match effect {
            Effect::Level => match level(value) {
                Some(level) => self.level = level,
                None => self.refuse(option(), "the level is 0, 1, 2 or 3"),
            },
            Effect::Generation => match level(value) {
                Some(level) => self.generation = Some(level),
                None => self.refuse(option(), "the level is 0, 1, 2 or 3"),
            },
            Effect::Passes => self.passes = Some(value.to_owned()),
            Effect::PrintPasses => self.prints_passes = true,
            Effect::Processor => self.processors.push((option(), value.to_owned())),
            Effect::Llvm(name) => {
                self.llvm_option(&option(), format!("{name}{value}"), is_own || !is_read_for_cuda(words));
            }
            Effect::Jobs => self.set_jobs(&option(), value),
            Effect::Parts => match value.parse::<usize>() {
                Ok(parts) if parts > 0 => self.is_whole = parts == 1,
                _ => self.refuse(option(), "the number of parts is 1 or more"),
            },
            Effect::SaveTemps => self.saves_temps = true,
            Effect::Root | Effect::RoleRoot | Effect::Trace => {
                let names = if effect == Effect::Trace { &mut self.traced } else { &mut self.roots };
                names.push(value.to_owned());
                self.linker_arguments.extend(words.iter().map(|word| (*word).to_owned()));
            }
            Effect::Nothing => {}
            Effect::Only(only, why) if value != only => self.refuse(option(), why),
            Effect::Only(..) => {}
            Effect::Refused(why) => {
                self.refuse(option(), why);
                // Without bitcode, LTO options have no effect in ld.lld, either, and others do.
                self.linker_arguments.extend(words.iter().map(|word| (*word).to_owned()));
            }
        }
    }

    fn refuse(&mut self, option: String, why: &str) {
        self.refused.push((option, why.to_owned()));
    }

    /// Adds an option of LLVM. Some of them are carried out here: two describe the target, which has them in another form.
    fn llvm_option(&mut self, argument: &str, option: String, is_new: bool) {
        let name = option.trim_start_matches('-');
        if let Some(features) = name.strip_prefix("mattr=") {
            self.features.push(features.to_owned());
        } else if let Some(processor) = name.strip_prefix("mcpu=") {
            self.processors.push((argument.to_owned(), processor.to_owned()));
        } else if matches!(name, "amdgpu-internalize-symbols" | "amdgpu-internalize-symbols=true") {
            // In LLVM a pass, which would hide what other partitions use.
            self.hides_functions = true;
        } else if is_new {
            self.llvm_options.push(option);
        }
    }

    fn set_jobs(&mut self, option: &str, value: &str) {
        // As for LLVM, 0 stands for all cores.
        match value.parse::<usize>() {
            Ok(jobs) => self.jobs = (jobs > 0).then_some(jobs),
            Err(_) if value == "all" => self.jobs = None,
            Err(_) => self.refuse(option.to_owned(), "the number of jobs is 0 or more, or all"),
        }
    }
}

/// The value of an option, if `word` is one of its spellings: it follows the short one directly and the long one behind a `=`, or is the next
/// word.
fn value_of<'w>(word: &'w str, short: &str, long: &str, next: &mut dyn FnMut() -> Option<&'w str>) -> Option<&'w str> {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    if word == short || name == long {
        return next();
    }
    let behind_long = name.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
    behind_long.or_else(|| word.strip_prefix(short))
}

/// A level of ld.lld's options, which are numbers alone.
fn level(value: &str) -> Option<OptLevel> {
    OptLevel::parse(value).filter(|_| matches!(value, "0" | "1" | "2" | "3"))
}

/// Whether the device links of CUDA read this option of LLVM, too, if it is for all targets: they have passed it to LLVM then.
fn is_read_for_cuda(words: &[&str]) -> bool {
    words
        .first()
        .is_some_and(|word| word.starts_with("-mllvm") || word.trim_start_matches('-').starts_with("plugin-opt="))
}

/// All options of LLVM for AMD GPUs: those of the whole link, and those among the arguments for these GPUs.
pub fn all_llvm_options(options: &Options, device: &DeviceOptions) -> Vec<String> {
    device.llvm_options.iter().cloned().chain(llvm_options(options)).collect()
}

/// The options of LLVM among the arguments for AMD GPUs. LLVM has one set of options for the whole process.
pub fn llvm_options(options: &Options) -> Vec<String> {
    let mut found = AmdOptions::read(options, TRIPLE).llvm_options;
    let mut others: Vec<&str> = options.device_linker.iter().filter_map(|(triple, _)| triple.as_deref()).collect();
    others.retain(|triple| is_amd(triple) && *triple != TRIPLE);
    others.sort_unstable();
    others.dedup();
    for triple in others {
        let words = options.device_linker.iter().filter(|(of, _)| of.as_deref() == Some(triple));
        let mut own = AmdOptions::default();
        own.linker_words(words.map(|(_, word)| (true, word.as_str())));
        found.extend(own.llvm_options);
    }
    found
}

/// Whether code for this triple runs on AMD GPUs.
pub fn is_amd(triple: &str) -> bool {
    triple.starts_with("amdgcn-") || triple.starts_with("spirv64-amd-")
}

/// The arguments for this triple and for all, each with whether it is for this one alone.
fn for_triple<'o>(arguments: &'o [(Option<String>, String)], triple: &str) -> impl Iterator<Item = (bool, &'o str)> {
    let own = arguments.iter().filter(move |(of, _)| of.as_deref().is_none_or(|of| of == triple));
    own.map(|(of, word)| (of.is_some(), word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[(Option<&str>, &str)]) -> Vec<(Option<String>, String)> {
        words.iter().map(|(triple, word)| (triple.map(str::to_owned), (*word).to_owned())).collect()
    }

    fn of(compiler: &[&str], linker: &[&str]) -> AmdOptions {
        let own = |list: &[&str]| words(&list.iter().map(|word| (Some(TRIPLE), *word)).collect::<Vec<_>>());
        let options = Options { device_compiler: own(compiler), device_linker: own(linker), ..Options::default() };
        AmdOptions::read(&options, TRIPLE)
    }

    #[test]
    fn arguments_of_other_triples_do_not_count() {
        let compiler = [(Some(TRIPLE), "-O3"), (Some("nvptx64-nvidia-cuda"), "-O1"), (None, "-ffoo")];
        let options = Options { device_compiler: words(&compiler), ..Options::default() };
        let read = AmdOptions::read(&options, TRIPLE);
        assert_eq!((read.level, &*read.unknown), (OptLevel::O3, &["--device-compiler=-ffoo".to_owned()][..]));
    }

    #[test]
    fn options_of_llvm_are_told_from_those_of_the_linker() {
        let linker =
            [(Some(TRIPLE), "-mllvm=-foo"), (Some(TRIPLE), "-plugin-opt=-bar"), (Some(TRIPLE), "-z"), (None, "x.a")];
        let options = Options { device_linker: words(&linker), ..Options::default() };
        assert_eq!(llvm_options(&options), ["-foo", "-bar"]);
        let linker = [
            (Some(TRIPLE), "-mllvm"),
            (Some(TRIPLE), "-foo=x.a"),
            (None, "-mllvm"),
            (None, "-both"),
            (None, "--mllvm=-bar"),
        ];
        let options = Options { device_linker: words(&linker), ..Options::default() };
        assert_eq!(llvm_options(&options), ["-foo=x.a", "-bar"]);
        let read = AmdOptions::read(&options, TRIPLE);
        assert!(read.linker_arguments.is_empty() && read.inputs.is_empty());
    }

    #[test]
    fn values_of_the_linkers_options_are_no_inputs() {
        let read = of(&[], &["-z", "muldefs", "-Map", "x.map", "-plugin", "x.so", "-e", "start"]);
        let arguments = ["-z", "muldefs", "-Map", "x.map", "-e", "start"].map(str::to_owned);
        assert_eq!((&*read.linker_arguments, read.inputs.len()), (&arguments[..], 0));
    }

    #[test]
    fn inputs_are_read_with_the_folders_of_libraries() {
        let library = |whole| DeviceInput::Library { name: "x".to_owned(), whole };
        for words in [&["-l", "x"][..], &["-lx"], &["--library=x"], &["--library", "x"], &["-z", "muldefs", "-lx"]] {
            assert_eq!(of(&[], words).inputs, [library(false)], "{words:?}");
        }
        let file = DeviceInput::File { path: "y.bc".into(), whole: false };
        let mut read = of(&[], &["-La", "--library-path=b", "--whole-archive", "-lx", "--no-whole-archive", "y.bc"]);
        assert_eq!((&*read.inputs, read.library_paths.len()), (&[library(true), file.clone()][..], 2));
        assert!(read.linker_arguments.is_empty());
        read.leave_to_linker(&[file]);
        assert_eq!(read.linker_arguments, ["-La", "-Lb", "y.bc"]);
        assert_eq!(read.named_input.as_deref(), Some("y.bc"));
    }

    #[test]
    fn code_generation_follows_the_level_as_in_clang_and_ld_lld() {
        use OptLevel::{O0, O1, O2, O3};
        let usual: (&[&str], &[&str]) = (&[], &[]);
        for ((compiler, linker), expected) in [
            (usual, (O2, O2)),
            ((&["-O0"][..], &[][..]), (O0, O0)),
            ((&["-O1"], &[]), (O1, O1)),
            ((&["-O3"], &[]), (O3, O3)),
            ((&["-Oz"], &[]), (OptLevel::Oz, O2)),
            ((&["-O0", "-fno-lto"], &[]), (O2, O2)),
            ((&["-fno-lto", "-O0", "-flto=full"], &[]), (O0, O0)),
            ((&[], &["--lto-O0"]), (O0, O2)),
            ((&[], &["-plugin-opt=O3"]), (O3, O3)),
            ((&[], &["--plugin-opt=O1", "--lto-CGO0"]), (O1, O0)),
            ((&["-O0"], &["--lto-O3"]), (O3, O0)),
        ] {
            let target = of(compiler, linker).target(String::new(), String::new());
            assert_eq!((target.level, target.generation), expected, "{compiler:?} {linker:?}");
        }
        for word in ["--lto-O4", "--lto-Os", "--lto-CGO9", "--plugin-opt=O", "--lto-partitions=0", "--thinlto-jobs=x"] {
            assert_eq!(of(&[], &[word]).refused.len(), 1, "{word}");
        }
    }

    #[test]
    fn features_and_processors_describe_the_target() {
        let read = of(
            &["-mcpu=gfx90a"],
            &["--plugin-opt=-mattr=+cumode", "-mllvm", "-mcpu=gfx908", "-plugin-opt=mcpu=gfx906"],
        );
        let processors: Vec<&str> = read.processors.iter().map(|(_, processor)| processor.as_str()).collect();
        assert_eq!(processors, ["gfx90a", "gfx908", "gfx906"]);
        assert_eq!(read.target("gfx90a".to_owned(), "+xnack".to_owned()).features, "+xnack,+cumode");
        assert!(read.llvm_options.is_empty());
    }
}
