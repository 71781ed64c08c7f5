//! The options of nvcc 13.0 and 13.5 (`nvcc --help`), and what each means to a device link.

/// What an option means to a device link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// It concerns another step: nvcc takes it, and its device link is the same without it (`nvcc -dryrun -dlink`).
    OtherStep,
    /// Targets; `sm_` and `lto_` ones get machine code.
    Targets,
    /// LTO-IR is linked.
    Dlto,
    /// An option of nvlink for link-time optimization, by its name there.
    Optimizer(&'static str),
    /// Options of nvlink, separated by commas.
    Nvlink,
    /// Options of ptxas, separated by commas.
    Ptxas,
    /// Options of fatbinary, separated by commas.
    Fatbinary,
    /// One option of ptxas with this value.
    MaxRegisters,
    /// Debuggable code, unless [`Meaning::OptimizedDebug`].
    DeviceDebug,
    OptimizedDebug,
    /// All code in one unit, which link-time optimization excludes.
    WholeProgram,
    Relocatable,
    /// The result is a fatbin.
    Fatbin,
    CompressMode,
    Output,
    OutputFolder,
    LibraryPath,
    Library,
    OptionsFile,
    Threads,
    Keep,
    KeepFolder,
    WarningsAsErrors,
    HostLinkerScript,
    /// nvcc passes unknown options to the host's compiler or linker.
    Forward,
    /// This program has an option that does the same.
    Own(&'static str),
    /// One option of nvlink.
    OwnNvlink(&'static str),
    /// It cannot be done; the text, printed after the option, says why.
    Refused(&'static str),
}

use Meaning::{
    CompressMode, DeviceDebug, Dlto, Fatbin, Fatbinary, Forward, HostLinkerScript, Keep, KeepFolder, Library,
    LibraryPath, MaxRegisters, Nvlink, OptimizedDebug, Optimizer, OptionsFile, OtherStep, Output, OutputFolder, Own,
    OwnNvlink, Ptxas, Refused, Relocatable, Targets, Threads, WarningsAsErrors, WholeProgram,
};

const ANOTHER_STEP: &str = "is another step than a device link; leave it out";

/// Spellings, and what they mean.
type Row = (&'static [&'static str], Meaning);

/// Options with a value: after `=` or a blank, or right after a single letter.
const WITH_VALUE: [Row; 23] = [
    (&["-arch", "--gpu-architecture", "-code", "--gpu-code", "-gencode", "--generate-code"], Targets),
    (&["-Xnvlink", "--nvlink-options"], Nvlink),
    (&["-Xptxas", "--ptxas-options"], Ptxas),
    (&["-Xfatbin", "--fatbin-options"], Fatbinary),
    (&["-maxrregcount", "--maxrregcount"], MaxRegisters),
    (&["-Ofc", "--Ofast-compile"], Optimizer("-Ofc")),
    (&["-split-compile", "--split-compile"], Optimizer("-split-compile")),
    (&["-split-compile-extended", "--split-compile-extended"], Optimizer("-split-compile-extended")),
    (&["-device-stack-protector", "--device-stack-protector"], Optimizer("-device-stack-protector")),
    (&["-dopt", "--dopt"], OptimizedDebug),
    (&["-compress-mode", "--compress-mode"], CompressMode),
    (&["-o", "--output-file"], Output),
    (&["-odir", "--output-directory"], OutputFolder),
    (&["-L", "--library-path"], LibraryPath),
    (&["-l", "--library"], Library),
    (&["-optf", "--options-file"], OptionsFile),
    (&["-t", "--threads"], Threads),
    (&["-keep-dir", "--keep-dir"], KeepFolder),
    (&["-Werror", "--Werror"], WarningsAsErrors),
    (&["-hls", "--host-linker-script"], HostLinkerScript),
    (
        &["-time", "--time"],
        Refused("is not supported; --offload-stats and --wrapper-time-trace=<file> tell where the time goes"),
    ),
    (&["-x", "--x"], Refused("makes sources of the inputs, and a device link compiles nothing; leave it out")),
    (OTHER_STEPS_WITH_VALUE, OtherStep),
];

/// Those that say how host or device code is compiled, or how and with what the host's code is linked.
const OTHER_STEPS_WITH_VALUE: &[&str] = &[
    "-I",
    "-D",
    "-U",
    "-O",
    "-e",
    "-m",
    "-include",
    "-isystem",
    "-ccbin",
    "-arbin",
    "-cudart",
    "-cudadevrt",
    "-ldir",
    "-target-dir",
    "-opt-info",
    "-ftemplate-backtrace-limit",
    "-ftemplate-depth",
    "-std",
    "-Xcompiler",
    "-Xlinker",
    "-Xarchive",
    "-Xcudafe",
    "-static-global-template-stub",
    "-device-entity-has-hidden-visibility",
    "-fdevice-time-trace",
    "-run-args",
    "-idp",
    "-ddp",
    "-dp",
    "-MT",
    "-MF",
    "-rdc",
    "-ftz",
    "-prec-div",
    "-prec-sqrt",
    "-fmad",
    "-default-stream",
    "-qpp-config",
    "-diag-error",
    "-diag-suppress",
    "-diag-warn",
    "-brief-diag",
    "-jtd",
    "-frandom-seed",
    "-sanitize",
    "-apply-controls",
    "-fdevice-sanitize",
    "-fdevice-time-trace-granularity",
    "-fmax-errors",
    "-stdlib",
    "-tile-preview",
    "-Xnvprune",
    "-Xtileiras",
    "--include-path",
    "--define-macro",
    "--undefine-macro",
    "--optimize",
    "--entries",
    "--machine",
    "--pre-include",
    "--system-include",
    "--compiler-bindir",
    "--archiver-binary",
    "--cudart",
    "--cudadevrt",
    "--libdevice-directory",
    "--target-directory",
    "--optimization-info",
    "--ftemplate-backtrace-limit",
    "--ftemplate-depth",
    "--std",
    "--compiler-options",
    "--linker-options",
    "--archive-options",
    "--static-global-template-stub",
    "--device-entity-has-hidden-visibility",
    "--fdevice-time-trace",
    "--run-args",
    "--input-drive-prefix",
    "--dependency-drive-prefix",
    "--drive-prefix",
    "--dependency-target-name",
    "--dependency-output",
    "--relocatable-device-code",
    "--ftz",
    "--prec-div",
    "--prec-sqrt",
    "--fmad",
    "--default-stream",
    "--qpp-config",
    "--diag-error",
    "--diag-suppress",
    "--diag-warn",
    "--brief-diagnostics",
    "--jump-table-density",
    "--frandom-seed",
    "--sanitize",
    "--apply-controls",
    "--fdevice-sanitize",
    "--fdevice-time-trace-granularity",
    "--fmax-errors",
    "--stdlib",
    "--tile-preview",
    "--nvprune-options",
    "--tileiras-options",
];

/// Options without a value.
const ALONE: [Row; 24] = [
    (&["-dlink", "--device-link"], OtherStep),
    (&["-dlto", "-lto", "--dlink-time-opt", "--lto"], Dlto),
    (&["-r", "--relocatable-link"], Relocatable),
    (&["-G", "--device-debug"], DeviceDebug),
    (&["-ewp", "--extensible-whole-program"], WholeProgram),
    (&["-fatbin", "--fatbin"], Fatbin),
    (&["-no-compress", "--no-compress"], Own("--offload-compress=none")),
    (&["-keep", "--keep", "-save-temps"], Keep),
    (&["-v", "--verbose", "-v2", "--verbose2"], Own("--wrapper-verbose")),
    (&["-dryrun", "--dryrun"], Own("--dry-run")),
    (&["-jobserver", "--jobserver"], Own("--wrapper-jobs=jobserver")),
    (&["-V", "--version"], Own("--version")),
    (&["-h", "--help"], Own("--help")),
    (&["-w", "--disable-warnings"], OwnNvlink("-w")),
    (&["-res-usage", "--resource-usage"], OwnNvlink("-v")),
    (
        &[
            "-forward-unknown-to-host-compiler",
            "--forward-unknown-to-host-compiler",
            "-forward-unknown-to-host-linker",
            "--forward-unknown-to-host-linker",
            "-forward-unknown-opts",
            "--forward-unknown-opts",
        ],
        Forward,
    ),
    (
        &["-reloc-ptx", "--relocatable-ptx"],
        Refused("is not supported; leave it out: the driver finds the PTX of the objects in the objects' own fatbins"),
    ),
    (
        &["-ptx", "--ptx", "-cubin", "--cubin"],
        Refused("is not supported; take -fatbin, and the code out of the fatbin with offload-bundle extract"),
    ),
    (
        &["-concat", "--concat"],
        Refused(
            "makes images that drivers up to 580 pass over; leave it out, or put the result through offload-bundle recompress --concat",
        ),
    ),
    (&["-aug-hls", "--augment-host-linker-script"], OtherStep),
    (&["-astoolspatch", "--compile-as-tools-patch"], Refused("excludes relocatable device code; leave it out")),
    (
        &["-arch-ls", "--list-gpu-arch", "-code-ls", "--list-gpu-code"],
        Refused("is a question to nvcc; ask nvcc, which knows what it compiles for"),
    ),
    (STEPS, Refused(ANOTHER_STEP)),
    (OTHER_STEPS_ALONE, OtherStep),
];

/// Those that choose another step of nvcc.
const STEPS: &[&str] = &[
    "-c",
    "--compile",
    "-dc",
    "--device-c",
    "-dw",
    "--device-w",
    "-cuda",
    "--cuda",
    "-optix-ir",
    "--optix-ir",
    "-ltoir",
    "--ltoir",
    "-tilebc",
    "--tilebc",
    "-tilecubin",
    "--tilecubin",
    "-tilefatbin",
    "--tilefatbin",
    "-E",
    "--preprocess",
    "-M",
    "--generate-dependencies",
    "-MM",
    "--generate-nonsystem-dependencies",
    "-link",
    "--link",
    "-lib",
    "--lib",
    "-run",
    "--run",
    "-clean",
    "--clean-targets",
    "-nodlink",
    "--no-device-link",
];

/// As [`OTHER_STEPS_WITH_VALUE`]. nvcc and nvlink take `-shared`, and link the same.
const OTHER_STEPS_ALONE: &[&str] = &[
    "-g",
    "-pg",
    "-lineinfo",
    "-shared",
    "-MD",
    "-MMD",
    "-MP",
    "-objtemp",
    "-m64",
    "-noeh",
    "-gen-opt-lto",
    "-nohdinitlist",
    "-nohdmoveforward",
    "-expt-relaxed-constexpr",
    "-extended-lambda",
    "-expt-extended-lambda",
    "-allow-unsupported-compiler",
    "-use-local-env",
    "-force-cl-env-setup",
    "-noprof",
    "-fdevice-syntax-only",
    "-use_fast_math",
    "-extra-device-vectorization",
    "-keep-device-functions",
    "-src-in-ptx",
    "-restrict",
    "-Wreorder",
    "-Wdefault-stream-launch",
    "-Wmissing-launch-bounds",
    "-Wext-lambda-captures-this",
    "-Wno-deprecated-declarations",
    "-Wno-deprecated-gpu-targets",
    "-err-no",
    "-no-err-no",
    "-enable-tile",
    "-tile-only",
    "-simt-only",
    "-prune",
    "-safety-compat",
    "-skip-ptx-semantics-check",
    "-utf-8",
    "--debug",
    "--profile",
    "--generate-line-info",
    "--shared",
    "--generate-dependencies-with-compile",
    "--generate-nonsystem-dependencies-with-compile",
    "--generate-dependency-targets",
    "--objdir-as-tempdir",
    "--m64",
    "--no-exceptions",
    "--gen-opt-lto",
    "--no-host-device-initializer-list",
    "--no-host-device-move-forward",
    "--expt-relaxed-constexpr",
    "--extended-lambda",
    "--expt-extended-lambda",
    "--allow-unsupported-compiler",
    "--use-local-env",
    "--force-cl-env-setup",
    "--dont-use-profile",
    "--fdevice-syntax-only",
    "--use_fast_math",
    "--extra-device-vectorization",
    "--keep-device-functions",
    "--source-in-ptx",
    "--restrict",
    "--Wreorder",
    "--Wdefault-stream-launch",
    "--Wmissing-launch-bounds",
    "--Wext-lambda-captures-this",
    "--Wno-deprecated-declarations",
    "--Wno-deprecated-gpu-targets",
    "--display-error-number",
    "--no-display-error-number",
    "--no-align-double",
    "--enable-tile",
    "--tile-only",
    "--simt-only",
    "--prune",
    "--safety-compatibility",
    "--skip-ptx-semantics-check",
    "--utf-8",
];

/// An option that a word is, and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<'w> {
    /// It takes no value.
    Alone(Meaning),
    /// The value is in the same word.
    Joined(Meaning, &'w str),
    /// The value is the next word.
    Separate(Meaning),
}

/// Finds the option that a word is, that with the longest spelling: `-ldir` is not `-l dir`.
pub fn find(word: &str) -> Option<Found<'_>> {
    let spelled =
        |rows: &'static [Row]| rows.iter().flat_map(|(names, meaning)| names.iter().map(move |name| (*name, *meaning)));
    if let Some((_, meaning)) = spelled(&ALONE).find(|(name, _)| *name == word) {
        return Some(Found::Alone(meaning));
    }
    let matching = spelled(&WITH_VALUE).filter_map(|(name, meaning)| {
        let behind = word.strip_prefix(name)?;
        let is_letter = name.len() == 2;
        match behind.strip_prefix('=') {
            _ if behind.is_empty() => Some((name, Found::Separate(meaning))),
            Some(value) => Some((name, Found::Joined(meaning, value))),
            None => is_letter.then_some((name, Found::Joined(meaning, behind))),
        }
    });
    matching.max_by_key(|(name, _)| name.len()).map(|(_, found)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_spelling_is_meant() {
        for (word, expected) in [
            ("-ldir", Some(Found::Separate(OtherStep))),
            ("-ldir=x", Some(Found::Joined(OtherStep, "x"))),
            ("-lfoo", Some(Found::Joined(Library, "foo"))),
            ("-l", Some(Found::Separate(Library))),
            ("-lto", Some(Found::Alone(Dlto))),
            ("-lib", Some(Found::Alone(Refused(ANOTHER_STEP)))),
            ("-O3", Some(Found::Joined(OtherStep, "3"))),
            ("-Ofc=max", Some(Found::Joined(Optimizer("-Ofc"), "max"))),
            ("-t4", Some(Found::Joined(Threads, "4"))),
            ("-keep-dir", Some(Found::Separate(KeepFolder))),
            ("-keep=true", None),
            ("--arch=sm_90", None),
            ("-fPIC", None),
        ] {
            assert_eq!(find(word), expected, "{word}");
        }
    }

    #[test]
    fn no_spelling_is_there_twice() {
        let mut names: Vec<&str> =
            ALONE.iter().chain(&WITH_VALUE).flat_map(|(names, _)| names.iter().copied()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
