//! The arguments of `--device-compiler=` and `--device-linker=` that device links for AMD GPUs take.
//!
//! clang writes them for an inner clang, which drives ld.lld. fatlink optimizes and generates code itself and starts ld.lld on the
//! result.

use llvm_passes::pipeline::OptLevel;

use crate::cli::device_linker_words::recorded_remarks;
use crate::cli::device_options::DeviceOptions;
use crate::cli::options::Options;

/// The options of the device links for one triple.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmdOptions {
    /// Optimization level.
    pub level: OptLevel,
    /// Arguments for ld.lld, in order.
    pub linker_arguments: Vec<String>,
    /// LLVM's own SPIR-V backend translates `amdgcnspirv` images, not llvm-spirv.
    pub spirv_backend: bool,
    /// Print what runs.
    pub verbose: bool,
    /// Arguments without an effect, as warnings show them.
    pub unknown: Vec<String>,
}

/// Options of the inner clang that decide nothing here: where ROCm is, how ld.lld splits its own LTO, the form of the bitcode, and
/// what is an option of the wrapper itself.
const WITHOUT_EFFECT: [&str; 9] = [
    "--rocm-path=",
    "--rocm-device-lib-path=",
    "--hip-path=",
    "-flto",
    "-fno-lto",
    "-mcode-object-version=",
    "-mcpu=",
    "-march=",
    "-save-temps",
];

impl AmdOptions {
    /// Reads the arguments for this triple, and those for all.
    pub fn read(options: &Options, triple: &str) -> Self {
        let mut own = AmdOptions {
            level: OptLevel::O2,
            linker_arguments: Vec::new(),
            spirv_backend: false,
            verbose: false,
            unknown: Vec::new(),
        };
        for word in for_triple(&options.device_compiler, triple) {
            own.compiler_word(word);
        }
        let words = for_triple(&options.device_linker, triple).filter(|word| llvm_option(word).is_none());
        own.linker_arguments = words.map(str::to_owned).collect();
        own
    }

    fn compiler_word(&mut self, word: &str) {
        if let Some(level) = word.strip_prefix("-O").and_then(OptLevel::parse) {
            self.level = level;
        } else if word == "-use-spirv-backend" {
            self.spirv_backend = true;
        } else if word == "-v" {
            self.verbose = true;
        } else if !(word.starts_with("-g") || WITHOUT_EFFECT.iter().any(|known| word.starts_with(known))) {
            self.unknown.push(format!("--device-compiler={word}"));
        }
    }

    /// Whether ld.lld reads more than the objects of this link: files or libraries, which may reference any symbol.
    pub fn names_inputs(&self) -> bool {
        self.linker_arguments.iter().any(|word| !word.starts_with('-') || word.starts_with("-l"))
    }
}

/// All options of LLVM for AMD GPUs: those of the whole link, and those among the arguments for these GPUs.
pub fn all_llvm_options(options: &Options, device: &DeviceOptions) -> Vec<String> {
    device.llvm_options.iter().cloned().chain(llvm_options(options)).collect()
}

/// The options of LLVM among the arguments for AMD GPUs. LLVM has one set of options for the whole process.
pub fn llvm_options(options: &Options) -> impl Iterator<Item = String> {
    let own = options.device_linker.iter().filter(|(triple, _)| triple.as_deref().is_some_and(is_amd));
    own.filter_map(|(_, word)| llvm_option(word))
}

/// Whether code for this triple runs on AMD GPUs.
pub fn is_amd(triple: &str) -> bool {
    triple.starts_with("amdgcn-") || triple.starts_with("spirv64-amd-")
}

/// The option of LLVM in an argument of the form that ld.lld takes.
fn llvm_option(word: &str) -> Option<String> {
    let plugin = word.strip_prefix("--plugin-opt=").or_else(|| word.strip_prefix("-plugin-opt="));
    if let Some(recorded) = plugin.and_then(recorded_remarks) {
        return Some(recorded);
    }
    // Without a dash it is an option of the plugin itself, such as O3 or mcpu=.
    plugin
        .map(str::to_owned)
        .filter(|option| option.starts_with('-'))
        .or_else(|| word.strip_prefix("-mllvm=").map(str::to_owned))
        .or_else(|| word.strip_prefix("--mllvm=").map(str::to_owned))
}

fn for_triple<'o>(arguments: &'o [(Option<String>, String)], triple: &str) -> impl Iterator<Item = &'o str> {
    let own = arguments.iter().filter(move |(of, _)| of.as_deref().is_none_or(|of| of == triple));
    own.map(|(_, word)| word.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIPLE: &str = "amdgcn-amd-amdhsa";

    fn words(words: &[(Option<&str>, &str)]) -> Vec<(Option<String>, String)> {
        words.iter().map(|(triple, word)| (triple.map(str::to_owned), (*word).to_owned())).collect()
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
        assert_eq!(llvm_options(&options).collect::<Vec<_>>(), ["-foo", "-bar"]);
        let read = AmdOptions::read(&options, TRIPLE);
        assert_eq!((&*read.linker_arguments, read.names_inputs()), (&["-z".to_owned(), "x.a".to_owned()][..], true));
    }
}
