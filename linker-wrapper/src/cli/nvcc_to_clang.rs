//! `--translate-nvcc`: a command of clang with options of nvcc, which projects that know only nvcc write into their build files.
//!
//! A build system puts `fatlink --translate-nvcc` in front of the command, as it does with ccache. Options of nvcc that say the same as one
//! of clang become that one, options that clang has no use for are left out, and every other word stays as it is. docs/how-to/build-systems.md has
//! the table.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::cli::error::Error;
use crate::diag::error::Errors;

/// The option in front of the command.
pub const OPTION: &str = "--translate-nvcc";

/// What becomes of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// It is left out.
    Drop,
    /// It is left out with its value.
    DropValue,
    /// It becomes these words.
    Words(&'static [&'static str]),
    /// Its value is a list, separated by commas, and each item follows these words.
    Each(&'static [&'static str]),
    /// It becomes this word with its value behind it. clang has an option of this name whose value is the next word.
    Joined(&'static str),
    /// Its value names targets.
    Targets,
    /// Its value is `true` or `false`, and it becomes the first or the second of these.
    Switch(&'static [&'static str], &'static [&'static str]),
    /// Its value is a list of options for ptxas.
    Ptxas,
    /// The most registers of a thread.
    Registers,
    /// A file with choices for ptxas.
    Controls,
    /// `per-thread` or `legacy`.
    Stream,
    /// The language.
    Language,
    /// CUDA's runtime: `static`, `shared` or `none`.
    Cudart,
    /// Kinds of warnings. clang has an option of this name without a value.
    Errors,
}

use Action::{Drop, DropValue, Each, Joined, Registers, Switch, Targets, Words};

/// Spellings without their dashes, of which nvcc takes one or two, and what becomes of the option.
type Row = (&'static [&'static str], Action);

/// ptxas does not run where the link generates the code, and clang warns of options for it.
const UNUSED: &str = "-Wno-unused-command-line-argument";

const TABLE: &[Row] = &[
    // Clang compiles these without an option.
    (&["extended-lambda", "expt-extended-lambda", "expt-relaxed-constexpr"], Drop),
    // What clang has no counterpart of, and what does not concern it.
    (&["restrict", "extra-device-vectorization", "keep-device-functions"], Drop),
    (&["forward-unknown-to-host-compiler", "forward-unknown-to-host-linker", "forward-unknown-opts"], Drop),
    (&["allow-unsupported-compiler", "use-local-env", "noprof", "dont-use-profile", "objtemp"], Drop),
    (&["keep", "src-in-ptx", "source-in-ptx", "jobserver", "compress-all", "no-compress"], Drop),
    (&["concat", "prune", "simt-only", "skip-ptx-semantics-check", "utf-8", "v2", "verbose2"], Drop),
    (&["err-no", "no-err-no", "display-error-number", "no-display-error-number"], Drop),
    (&["Wdefault-stream-launch", "Wmissing-launch-bounds", "Wext-lambda-captures-this", "Wreorder"], Drop),
    (&["Wno-deprecated-gpu-targets"], Drop),
    (&["Xcudafe", "cudafe-options", "Xfatbin", "fatbin-options", "Xarchive", "archive-options"], DropValue),
    (&["Xnvprune", "nvprune-options", "fmax-errors", "fdevice-time-trace-granularity"], DropValue),
    (&["diag-error", "diag-suppress", "diag-warn", "brief-diag", "brief-diagnostics"], DropValue),
    (&["ccbin", "compiler-bindir", "cudadevrt", "keep-dir", "time", "threads"], DropValue),
    (&["split-compile", "split-compile-extended", "Ofc", "Ofast-compile", "compress-mode"], DropValue),
    (&["static-global-template-stub", "device-entity-has-hidden-visibility", "prec-div", "prec-sqrt"], DropValue),
    // Targets, and how device code is compiled.
    (&["gencode", "generate-code", "arch", "gpu-architecture", "code", "gpu-code"], Targets),
    (&["rdc", "relocatable-device-code"], Switch(&["-fgpu-rdc"], &["-fno-gpu-rdc"])),
    (&["dc", "device-c"], Words(&["-c", "-fgpu-rdc"])),
    (&["dw", "device-w"], Words(&["-c"])),
    (&["dlto", "dlink-time-opt", "gen-opt-lto"], Words(&["-foffload-lto"])),
    (&["use_fast_math"], Words(&["-fgpu-approx-transcendentals", "-fgpu-flush-denormals-to-zero"])),
    (&["ftz"], Switch(&["-fgpu-flush-denormals-to-zero"], &["-fno-gpu-flush-denormals-to-zero"])),
    (&["fmad"], Switch(&[], &["-Xarch_device", "-ffp-contract=off"])),
    (&["lineinfo", "generate-line-info"], Words(&["-Xarch_device", "-gline-tables-only"])),
    (&["G", "device-debug"], Words(&["-g", "--cuda-noopt-device-debug", UNUSED])),
    (&["maxrregcount"], Registers),
    (&["apply-controls"], Action::Controls),
    (&["default-stream"], Action::Stream),
    (&["cudart"], Action::Cudart),
    // Options for other programs.
    (&["Xptxas", "ptxas-options"], Action::Ptxas),
    (&["Xcompiler", "compiler-options"], Each(&[])),
    (&["Xlinker", "linker-options"], Each(&["-Xlinker"])),
    (&["Xnvlink", "nvlink-options"], Each(&["-Xoffload-linker"])),
    // What the host compiler calls otherwise.
    (&["Werror"], Action::Errors),
    (&["noeh", "no-exceptions"], Words(&["-fno-exceptions"])),
    (&["disable-warnings"], Words(&["-w"])),
    (&["isystem", "system-include"], Joined("-isystem")),
    (&["x"], Action::Language),
];

/// Kinds of warnings that nvcc's `-Werror` takes.
const KINDS: [&str; 7] = [
    "all-warnings",
    "cross-execution-space-call",
    "reorder",
    "default-stream-launch",
    "missing-launch-bounds",
    "ext-lambda-captures-this",
    "deprecated-declarations",
];

/// Options with which nvcc and clang do not link.
const NO_LINK: [&str; 22] = [
    "-c",
    "-dc",
    "-dw",
    "-E",
    "-S",
    "-M",
    "-MM",
    "-fsyntax-only",
    "--compile",
    "--device-c",
    "--device-w",
    "--preprocess",
    "-dlink",
    "--device-link",
    "-ptx",
    "--ptx",
    "-cubin",
    "--cubin",
    "-fatbin",
    "--fatbin",
    "-lib",
    "--lib",
];

/// Endings of the names of files that are linked, or compiled and linked.
const ENDINGS: [&str; 13] =
    [".o", ".obj", ".lo", ".a", ".so", ".cu", ".c", ".C", ".cc", ".cpp", ".cxx", ".c++", ".cppm"];

/// A translated command.
#[derive(Debug, PartialEq, Eq)]
pub struct Translated {
    /// Its program and its words.
    pub words: Vec<OsString>,
    /// What its link needs, if it links.
    pub link: Option<Link>,
}

/// What nvcc does in a link and clang does not.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    /// The line says which linker links, and whether device code is.
    pub names_linker: bool,
    /// The runtime to link; none if the line names it.
    pub runtime: CudaRuntime,
    /// The toolkit that the line names.
    pub cuda_path: Option<PathBuf>,
}

/// The forms of CUDA's runtime library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CudaRuntime {
    Static,
    Shared,
    None,
}

/// The command to run if the line is one of `--translate-nvcc`.
///
/// # Errors
/// A line without a command, and each option that lacks its value or has one that nvcc rejects, too.
pub fn translate(arguments: &[OsString]) -> Result<Option<Translated>, Errors> {
    let [_, option, command @ ..] = arguments else { return Ok(None) };
    if option != OPTION {
        return Ok(None);
    }
    let Some((program, words)) = command.split_first() else {
        return Err(Error::NoCommand { option: OPTION }.into());
    };
    let compiles =
        words.iter().any(|word| ["-c", "-dc", "--device-c", "-dw", "--device-w"].iter().any(|step| word == step));
    let (words_so_far, runtime) = (vec![program.clone()], CudaRuntime::Static);
    let mut line = Line { words: words_so_far, compiles, runtime, errors: Errors::default() };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        line.add(word, &mut rest);
    }
    let link = is_link(words).then(|| link_of(&line.words, line.runtime));
    line.errors.or(Translated { words: line.words, link }).map(Some)
}

/// Whether a line of nvcc links.
fn is_link(words: &[OsString]) -> bool {
    let mut texts = words.iter().filter_map(|word| word.to_str());
    let is_input =
        |word: &str| !word.starts_with('-') && (word.starts_with('@') || ENDINGS.iter().any(|end| word.ends_with(end)));
    texts.clone().any(is_input) && !texts.any(|word| NO_LINK.contains(&word))
}

/// What the link of a translated line needs.
fn link_of(words: &[OsString], runtime: CudaRuntime) -> Link {
    let texts: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let names_linker = |word: &str| {
        word.starts_with("-B")
            || matches!(word, "--offload-link" | "-fuse-ld=fatlink")
            || word.starts_with("--ld-path=")
    };
    let names_runtime = texts.iter().any(|word| word.contains("cudart"));
    let joined = texts.iter().rev().find_map(|word| word.strip_prefix("--cuda-path="));
    Link {
        names_linker: texts.iter().any(|word| names_linker(word)),
        runtime: if names_runtime { CudaRuntime::None } else { runtime },
        cuda_path: joined.map(PathBuf::from),
    }
}

struct Line {
    words: Vec<OsString>,
    /// There is no link in this command.
    compiles: bool,
    runtime: CudaRuntime,
    errors: Errors,
}

impl Line {
    fn add(&mut self, word: &OsString, rest: &mut std::slice::Iter<'_, OsString>) {
        let Some((name, value, action)) = word.to_str().and_then(find) else {
            self.words.push(word.clone());
            return;
        };
        let next = rest.as_slice().first().and_then(|next| next.to_str());
        match (action, value.or(next)) {
            (Drop, _) => {}
            (Words(words), _) => self.push(words),
            // Options of clang, too, of other forms.
            (Action::Errors, next) if value.is_none() && !next.is_some_and(are_kinds) => self.words.push(word.clone()),
            (Joined(_), _) if value.is_none() => self.words.push(word.clone()),
            (_, Some(text)) => {
                self.value(action, text, name);
                if value.is_none() {
                    rest.next();
                }
            }
            (_, None) => self.errors.extend(Error::NoValue { option: format!("-{name}") }),
        }
    }

    fn push(&mut self, words: &[&str]) {
        self.words.extend(words.iter().map(OsString::from));
    }

    fn value(&mut self, action: Action, value: &str, name: &str) {
        match action {
            Each(words) => {
                for item in items(value) {
                    self.push(words);
                    self.words.push(item.into());
                }
            }
            Action::Ptxas => items(value).iter().for_each(|item| self.ptxas(item)),
            Joined(option) => self.push(&[option, value]),
            Targets => self.targets(value),
            Switch(on, off) => match value {
                "true" => self.push(on),
                "false" => self.push(off),
                _ => self.errors.extend(Error::NvccValue {
                    option: format!("-{name}"),
                    expected: "true or false",
                    value: value.to_owned(),
                }),
            },
            // Without an effect, as no thread has more.
            Registers if value == "255" => {}
            Registers => self.ptxas(&format!("-maxrregcount={value}")),
            Action::Controls => self.ptxas(&format!("-apply-controls={value}")),
            Action::Stream if value == "per-thread" => self.push(&["-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1"]),
            Action::Cudart => match value {
                "static" => self.runtime = CudaRuntime::Static,
                "shared" => self.runtime = CudaRuntime::Shared,
                "none" => self.runtime = CudaRuntime::None,
                _ => self.errors.extend(Error::NvccValue {
                    option: format!("-{name}"),
                    expected: "none, shared or static",
                    value: value.to_owned(),
                }),
            },
            Action::Language => self.push(&["-x", if value == "cu" { "cuda" } else { value }]),
            Action::Errors if !are_kinds(value) => self.push(&[&format!("-Werror={value}")]),
            Action::Errors if value.contains(KINDS[0]) => self.push(&["-Werror"]),
            _ => {}
        }
    }

    /// clang does not pass options for ptxas on to the link, which generates the code of units compiled for LTO.
    fn ptxas(&mut self, option: &str) {
        if self.compiles {
            self.push(&["-Xcuda-ptxas", option, UNUSED]);
        } else {
            self.push(&[
                "-Xlinker",
                "--device-compiler=-Xcuda-ptxas",
                "-Xlinker",
                &format!("--device-compiler={option}"),
            ]);
        }
    }

    /// `sm_90`, `arch=compute_90,code=[compute_90,sm_90]`: clang puts PTX beside the machine code, too.
    fn targets(&mut self, value: &str) {
        let code = value.split_once("code=").map_or(value, |(_, code)| code);
        for name in code.split(',').map(|word| word.trim_matches(|c| "[]\"\\'".contains(c))) {
            let number = ["compute_", "sm_", "lto_"].iter().find_map(|prefix| name.strip_prefix(prefix));
            let target = number.map_or_else(|| name.to_owned(), |number| format!("sm_{number}"));
            let word = OsString::from(format!("--offload-arch={target}"));
            if !self.words.contains(&word) {
                self.words.push(word);
            }
        }
    }
}

/// Finds the row of a word: the name of the option, the value behind `=`, and what becomes of it.
fn find(word: &str) -> Option<(&str, Option<&str>, Action)> {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    let (name, value) = name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
    let (_, action) = TABLE.iter().find(|(names, _)| names.contains(&name))?;
    let takes_none = matches!(action, Drop | Words(_));
    (!takes_none || value.is_none()).then_some((name, value, *action))
}

fn are_kinds(value: &str) -> bool {
    value.split(',').all(|kind| KINDS.contains(&kind))
}

/// The items of a list: `\,` is a comma of an item. nvcc runs a shell, so that spaces separate words, too.
fn items(value: &str) -> Vec<String> {
    let parts = value.replace("\\,", "\u{0}");
    let items = parts.split(|c: char| c == ',' || c.is_ascii_whitespace()).filter(|item| !item.is_empty());
    items.map(|item| item.replace('\u{0}', ",")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(words: &str) -> Result<String, Errors> {
        let words = ["fatlink", OPTION, "clang++"].into_iter().chain(words.split_whitespace()).map(OsString::from);
        let command = translate(&words.collect::<Vec<_>>())?.unwrap().words;
        Ok(command[1..].iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn options_become_those_of_clang() {
        for (nvcc, clang) in [
            ("--extended-lambda -O3 -c x.cu -o x.o", "-O3 -c x.cu -o x.o"),
            ("-Xcudafe --diag_suppress=x --display-error-number y.cu", "y.cu"),
            (
                "-gencode arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=[compute_90,sm_90]",
                "--offload-arch=sm_80 --offload-arch=sm_90",
            ),
            ("--gpu-architecture sm_100a -arch=native", "--offload-arch=sm_100a --offload-arch=native"),
            ("-rdc=true --relocatable-device-code false -dlto", "-fgpu-rdc -fno-gpu-rdc -foffload-lto"),
            ("-Xcompiler -fPIC,-Wall --compiler-options=-DX=a\\,b", "-fPIC -Wall -DX=a,b"),
            (
                "-c -maxrregcount=64 -Xptxas -v,-dlcm=cg",
                &format!(
                    "-c -Xcuda-ptxas -maxrregcount=64 {UNUSED} -Xcuda-ptxas -v {UNUSED} -Xcuda-ptxas -dlcm=cg {UNUSED}"
                ),
            ),
            (
                "x.o --maxrregcount 64",
                "x.o -Xlinker --device-compiler=-Xcuda-ptxas -Xlinker --device-compiler=-maxrregcount=64",
            ),
            ("-maxrregcount=255 -x cu -isystem=/a -isystem /b", "-x cuda -isystem /a -isystem /b"),
            ("-Werror all-warnings -Werror x.cu -Werror=reorder -Werror=vla", "-Werror -Werror x.cu -Werror=vla"),
            ("-Werror cross-execution-space-call -w", "-w"),
            (
                "-default-stream per-thread -fmad=false",
                "-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1 -Xarch_device -ffp-contract=off",
            ),
            (
                "-restrict -Wextra --offload-arch=sm_90 -fgpu-rdc @list -",
                "-Wextra --offload-arch=sm_90 -fgpu-rdc @list -",
            ),
        ] {
            assert_eq!(translated(nvcc).unwrap(), clang, "{nvcc}");
        }
    }

    #[test]
    fn spaces_separate_words_of_other_programs() {
        let line =
            ["fatlink", OPTION, "clang++", "-Xcompiler=   ", "-Xcompiler", "-Wall -Wextra,-g"].map(OsString::from);
        assert_eq!(translate(&line).unwrap().unwrap().words, ["clang++", "-Wall", "-Wextra", "-g"].map(OsString::from));
    }

    #[test]
    fn links_need_a_linker_and_the_runtime() {
        let link = |words: &str| {
            let words = ["fatlink", OPTION, "clang++"].into_iter().chain(words.split_whitespace()).map(OsString::from);
            translate(&words.collect::<Vec<_>>()).unwrap().unwrap().link
        };
        let usual = || Link { names_linker: false, runtime: CudaRuntime::Static, cuda_path: None };
        assert_eq!(link("-arch=sm_90 -rdc=true a.o b.o -o app"), Some(usual()));
        assert_eq!(link("a.cu -cudart shared"), Some(Link { runtime: CudaRuntime::Shared, ..usual() }));
        assert_eq!(link("a.o -cudart=none -fuse-ld=lld"), Some(Link { runtime: CudaRuntime::None, ..usual() }));
        let named = Link { names_linker: true, runtime: CudaRuntime::None, cuda_path: Some("/c".into()) };
        assert_eq!(link("a.o -B/d --cuda-path=/c -lcudart_static"), Some(named));
        for words in ["-dc a.cu", "-c a.cu -o a.o", "-E a.cu", "--version", "-v", "-ptx a.cu", "-lib a.o -o a.a"] {
            assert_eq!(link(words), None, "{words}");
        }
    }

    #[test]
    fn lines_that_nvcc_rejects_are_errors() {
        for (line, error) in [
            ("-x.cu -maxrregcount", "-maxrregcount needs a value behind it"),
            ("-rdc=yes", "-rdc: nvcc takes true or false, got 'yes'"),
        ] {
            assert_eq!(translated(line).unwrap_err().to_string(), error);
        }
        let alone = ["fatlink", OPTION].map(OsString::from);
        assert!(translate(&alone).unwrap_err().to_string().contains("needs a command of clang"));
        assert_eq!(translate(&["fatlink", "a.o"].map(OsString::from)).unwrap(), None);
    }

    #[test]
    fn the_documentation_has_every_option() {
        let page = include_str!("../../../docs/how-to/build-systems.md");
        let is_there = |name: &str| {
            let quoted = format!("`-{name}");
            page.match_indices(&quoted).any(|(start, _)| page[start + quoted.len()..].starts_with(['`', '=', ' ']))
        };
        let missing: Vec<&str> = TABLE.iter().map(|(names, _)| names[0]).filter(|name| !is_there(name)).collect();
        assert!(missing.is_empty(), "docs/how-to/build-systems.md has no row for {missing:?}");
    }

    #[test]
    fn no_spelling_is_there_twice() {
        let mut names: Vec<&str> = TABLE.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
