//! Decides whether a cache key covers everything that a tool reads. An option or a variable may make a tool read a file that is not
//! part of the key, so a step is cached only if all of them are known to be harmless.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::cli::device_options::DeviceOptions;
use crate::machines::interface::Step;
use crate::machines::unknown_input::{self, is_number};

/// Options of ptxas without a value that read no files (`ptxas --help` of CUDA 12 and 13).
const PTXAS_FLAGS: [&str; 51] = [
    "c",
    "compile-only",
    "g",
    "device-debug",
    "lineinfo",
    "generate-line-info",
    "v",
    "verbose",
    "w",
    "disable-warnings",
    "Werror",
    "warning-as-error",
    "warn-double-usage",
    "warn-on-double-precision-use",
    "warn-lmem-usage",
    "warn-on-local-memory-usage",
    "warn-spills",
    "warn-on-spills",
    "astoolspatch",
    "compile-as-tools-patch",
    "annotate",
    "compiler-annotations",
    "disable-optimizer-consts",
    "disable-optimizer-constants",
    "no-bb-merge",
    "dont-merge-basicblocks",
    "ewp",
    "extensible-whole-program",
    "opt-fp-atomics",
    "optimize-float-atomics",
    "preserve-relocs",
    "ret-end",
    "return-at-end",
    "sp-bounds-check",
    "suppress-debug-info",
    "suppress-stack-size-warning",
    "suppress-double-demote-warning",
    "legacy-bar-warp-wide-behavior",
    "make-errors-visible-at-exit",
    "override-directive-values",
    "g-tmem-access-check",
    "gno-tmem-access-check",
    "g-tensor-memory-access-check",
    "gno-tensor-memory-access-check",
    "gno-fabric-access-check",
    "suppress-async-bulk-multicast-advisory-warning",
    "suppress-sparse-mma-advisory-info",
    "suppress-position-independent-code-warning",
    "v2",
    "verbose2",
    "jobserver",
];

/// Options of ptxas with a value that is not a file.
const PTXAS_VALUES: [&str; 33] = [
    "O",
    "opt-level",
    "maxrregcount",
    "func-maxrregcount",
    "device-function-maxrregcount",
    "m",
    "machine",
    "fmad",
    "dlcm",
    "def-load-cache",
    "dscm",
    "def-store-cache",
    "flcm",
    "force-load-cache",
    "fscm",
    "force-store-cache",
    "regUsageLevel",
    "register-usage-level",
    "maxntid",
    "minnctapersm",
    "split-compile",
    "allow-expensive-optimizations",
    "Ofc",
    "Ofast-compile",
    "device-stack-protector",
    "pic",
    "position-independent-code",
    "e",
    "entry",
    "sanitize",
    "arch",
    "gpu-name",
    "enable-func-clone-sc",
];

/// Options of ptxas whose value is a file that it reads and that keys cover.
const PTXAS_FILES: [&str; 1] = ["apply-controls"];

/// Options of nvlink without a value that read no files. Those that make it print are left out, because its output is not cached.
const NVLINK_FLAGS: [&str; 13] = [
    "w",
    "disable-warnings",
    "disable-infos",
    "Werror",
    "warning-as-error",
    "preserve-relocs",
    "suppress-stack-size-warning",
    "suppress-arch-warning",
    "suppress-debug-info",
    "use-host-info",
    "ignore-host-info",
    "g",
    "debug",
];

/// Options of nvlink with a value that is not a file.
const NVLINK_VALUES: [&str; 12] = [
    "Ofc",
    "Ofast-compile",
    "device-stack-protector",
    "maxrregcount",
    "m",
    "machine",
    "split-compile",
    "split-compile-extended",
    "kernels-used",
    "variables-used",
    "arch",
    "cpu-arch",
];

/// Prefixes of environment variables that change the tools of CUDA 13 (found at their calls of `getenv`). nvlink also reads `LIBRARY_PATH`, but only for the libraries of `-l`, an option
/// that is not among the known ones.
const VARIABLES: [&str; 6] = ["CAN_FINALIZE_", "DUMP_KNOBS_", "PTXAS", "NVLINK", "NVVM", "CICC"];

/// Returns why a step cannot be cached, as a sentence without a full stop, or `None` if it can.
pub fn unknown_input(step: Step, options: &DeviceOptions) -> Option<String> {
    unknown_among(step, options, &unknown_input::variables())
}

fn unknown_among(step: Step, options: &DeviceOptions, variables: &[OsString]) -> Option<String> {
    let of = |argument: Option<&String>, tool: &str| {
        argument.map(|argument| format!("{tool} may read or write files for {argument}"))
    };
    unknown_input::unknown_variable(variables, &VARIABLES)
        .or_else(|| unknown_input::of_llvm(&options.llvm_options, variables))
        .or_else(|| of(unknown_argument(&options.ptxas_arguments, &PTXAS_FLAGS, &PTXAS_VALUES, &PTXAS_FILES), "ptxas"))
        .or_else(|| {
            let argument = unknown_argument(&options.nvlink_arguments, &NVLINK_FLAGS, &NVLINK_VALUES, &[]);
            of(argument.filter(|_| step == Step::Link), "nvlink")
        })
}

/// The files that ptxas reads because of its options, which keys have to cover.
pub fn files_of_ptxas(options: &DeviceOptions) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut arguments = options.ptxas_arguments.iter();
    while let Some(argument) = arguments.next() {
        let (name, value) =
            argument.split_once('=').map_or((argument.as_str(), None), |(name, value)| (name, Some(value)));
        if PTXAS_FILES.contains(&name.trim_start_matches('-')) {
            files.extend(value.or_else(|| arguments.next().map(String::as_str)).map(PathBuf::from));
        }
    }
    files
}

/// Returns why a step has to run on this machine, as [`unknown_input`] does: jobs do not take the files of ptxas along.
pub fn needed_here(options: &DeviceOptions) -> Option<String> {
    let file = |file: &PathBuf| format!("ptxas reads {}", file.display());
    unknown_input(Step::Compile, options).or_else(|| files_of_ptxas(options).first().map(file))
}

/// Returns the first argument that is neither a known option nor the value of one.
fn unknown_argument<'w>(
    arguments: &'w [String],
    flags: &[&str],
    values: &[&str],
    files: &[&str],
) -> Option<&'w String> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let Some(option) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            return Some(argument);
        };
        let level = option.strip_prefix('O').filter(|level| values.contains(&"O") && is_number(level));
        if flags.contains(&option) || level.is_some() || (option == "m64" && values.contains(&"m")) {
            continue;
        }
        let known = match option.split_once('=') {
            Some((name, value)) => (values.contains(&name) && is_plain(value)) || files.contains(&name),
            None if files.contains(&option) => arguments.next().is_some(),
            None => values.contains(&option) && arguments.next().is_some_and(|value| is_plain(value)),
        };
        if !known {
            return Some(argument);
        }
    }
    None
}

/// Whether a value is a number, a word or a list of function names.
fn is_plain(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || "_,$".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn unknown(step: Step, options: &DeviceOptions) -> Option<String> {
        unknown_among(step, options, &["PATH".into(), "LIBRARY_PATH".into(), "CUDA_PATH".into()])
    }

    #[test]
    fn known_options_of_ptxas_are_cached_and_no_others() {
        for (list, known) in [
            (&["-O2"][..], true),
            (&["-O", "2", "--opt-level=3", "-m64"], true),
            (&["-maxrregcount=32", "--maxrregcount", "64", "-dlcm=cg"], true),
            (&["-v", "-g", "-lineinfo", "--entry", "a,b"], true),
            (&["-jobserver", "-split-compile=0", "-apply-controls=/a/tuned.bin", "--apply-controls", "b.bin"], true),
            (&["-apply-controls"], false),
            (&["-optf", "options"], false),
            (&["--options-file=options"], false),
            (&["a.ptx"], false),
            (&["-maxrregcount", "a.ptx"], false),
            (&["-maxrregcount"], false),
            (&["-o", "x"], false),
            (&["-Ofile"], false),
            (&["--save-temps"], false),
            (&["--unheard-of"], false),
            (&["-e=/etc/names"], false),
            (&["@options"], false),
        ] {
            let options = DeviceOptions { ptxas_arguments: words(list), ..DeviceOptions::default() };
            for step in [Step::Compile, Step::Link] {
                assert_eq!(unknown(step, &options).is_none(), known, "{list:?}");
            }
        }
    }

    #[test]
    fn a_file_of_ptxas_keeps_jobs_here() {
        let of = |list: &[&str]| DeviceOptions { ptxas_arguments: words(list), ..DeviceOptions::default() };
        let options = of(&["-O2", "-apply-controls=/a/tuned.bin", "--apply-controls", "b.bin"]);
        assert_eq!(files_of_ptxas(&options), [PathBuf::from("/a/tuned.bin"), "b.bin".into()]);
        assert_eq!(needed_here(&options).as_deref(), Some("ptxas reads /a/tuned.bin"));
        assert!(files_of_ptxas(&of(&["-maxrregcount", "32"])).is_empty());
    }

    #[test]
    fn options_of_nvlink_matter_only_to_the_link() {
        for (list, known) in [
            (&["-w", "--suppress-stack-size-warning", "-maxrregcount=32"][..], true),
            (&["--kernels-used", "_Z1av,_Z1bv"], true),
            (&["x.cubin"], false),
            (&["-lx"], false),
            (&["-l", "x"], false),
            (&["-L."], false),
            (&["--library-path=."], false),
            (&["-optf", "options"], false),
            (&["-O1"], false),
            (&["-v"], false),
            (&["--register-link-binaries", "x"], false),
        ] {
            let options = DeviceOptions { nvlink_arguments: words(list), ..DeviceOptions::default() };
            assert_eq!(unknown(Step::Link, &options).is_none(), known, "{list:?}");
            assert_eq!(unknown(Step::Compile, &options), None, "{list:?}");
        }
    }

    #[test]
    fn llvm_options_with_files_are_not_cached() {
        for (list, known) in [
            (&["-inline-threshold=100", "-unroll-runtime", "--fp-contract=fast", "-x=-1.5"][..], true),
            (&["-unroll-count", "4"], true),
            (&["-cgscc-inline-replay=decisions.txt"], false),
            (&["-cgscc-inline-replay=decisions"], false),
            (&["-cgscc-inline-replay", "decisions"], false),
            (&["-cgscc-inline-replay=/a/1"], false),
            (&["-x="], false),
            (&["-print-after-all"], false),
            (&["-time-passes"], false),
        ] {
            let options = DeviceOptions { llvm_options: words(list), ..DeviceOptions::default() };
            assert_eq!(unknown(Step::Compile, &options).is_none(), known, "{list:?}");
        }
    }

    #[test]
    fn variables_that_tools_read_prevent_caching() {
        for (name, known) in [
            ("CAN_FINALIZE_DEBUG", false),
            ("DUMP_KNOBS_TO_FILE", false),
            ("PTXAS_OPTIONS", false),
            ("NVLINK_FLAGS", false),
            ("LD_PRELOAD", false),
            ("LIBRARY_PATH", true),
            ("LD_LIBRARY_PATH", true),
            ("HOME", true),
        ] {
            let unknown = unknown_among(Step::Compile, &DeviceOptions::default(), &[name.into()]);
            assert_eq!(unknown.is_none(), known, "{name}");
        }
    }
}
