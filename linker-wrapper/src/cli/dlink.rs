//! `--dlink`: the command line of a device link, as `nvcc -dlink` takes it.
//!
//! Build systems that make the device link a step of its own, such as CMake, put nvcc's flags on its line: those of the compiler and of
//! the host linker, too. The flags that concern device code become options of this program, and all others of nvcc's are ignored as
//! nvcc ignores them in this step. Like nvlink, the step takes every unit of an archive.

use std::ffi::OsString;

use crate::cli::error::Error;
use crate::cli::flags;
use crate::diag::error::Errors;

/// The option that begins such a line.
pub const OPTION: &str = "--dlink";

/// What a flag of nvcc becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Nothing.
    Ignored,
    /// Targets, of which `sm_` and `lto_` ones get machine code.
    Targets,
    /// Options of nvlink, separated by commas.
    Nvlink,
    /// Options of ptxas, separated by commas.
    Ptxas,
    /// One option of ptxas with this value.
    MaxRegisters,
    Output,
    LibraryPath,
    Library,
    OptionsFile,
}

/// The flags of nvcc with a value, behind `=` or a blank, or behind a single letter at once (nvcc 13.0 `--help`).
const WITH_VALUE: [(&[&str], Meaning); 12] = [
    (&["-arch", "--gpu-architecture", "-code", "--gpu-code", "-gencode", "--generate-code"], Meaning::Targets),
    (&["-Xnvlink", "--nvlink-options"], Meaning::Nvlink),
    (&["-Xptxas", "--ptxas-options"], Meaning::Ptxas),
    (&["-maxrregcount", "--maxrregcount"], Meaning::MaxRegisters),
    (&["-o", "--output-file"], Meaning::Output),
    (&["-L", "--library-path"], Meaning::LibraryPath),
    (&["-l", "--library"], Meaning::Library),
    (&["-optf", "--options-file"], Meaning::OptionsFile),
    (
        &["-Xcompiler", "--compiler-options", "-Xlinker", "--linker-options", "-Xarchive", "--archive-options"],
        Meaning::Ignored,
    ),
    (
        &["-Xfatbin", "--fatbin-options", "-Xcudafe", "-Xnvvm", "-ccbin", "--compiler-bindir", "-std", "--std"],
        Meaning::Ignored,
    ),
    (
        &[
            "-I",
            "--include-path",
            "-D",
            "--define-macro",
            "-U",
            "--undefine-macro",
            "-isystem",
            "--system-include",
            "-include",
        ],
        Meaning::Ignored,
    ),
    (
        &[
            "-x",
            "--x",
            "-t",
            "--threads",
            "-cudart",
            "--cudart",
            "-cudadevrt",
            "--cudadevrt",
            "-rdc",
            "--relocatable-device-code",
            "-m",
            "--machine",
            "-arbin",
            "--archiver-binary",
            "-diag-suppress",
            "--diag-suppress",
            "-odir",
            "--output-directory",
            "-MF",
            "-MT",
            "-idp",
            "-ldir",
            "--libdevice-directory",
            "-target-dir",
            "--target-directory",
            "-Ofc",
            "--Ofast-compile",
            "-split-compile",
            "--split-compile",
            "-split-compile-extended",
            "--split-compile-extended",
        ],
        Meaning::Ignored,
    ),
];

/// Flags of nvcc without a value, and the options that they become.
const FLAGS: [(&[&str], &[&str]); 4] = [
    (&["-G", "--device-debug"], &["--device-compiler=-g"]),
    (&["-v", "--verbose"], &["--wrapper-verbose"]),
    (&["-dryrun", "--dryrun"], &["--dry-run"]),
    (&["-keep", "--keep"], &["--save-temps"]),
];

/// Translates the line if it is one of `--dlink`: to options of this program, whose archives are linked whole.
///
/// # Errors
/// One for each option without its value, options file that cannot be read, and misspelt option of this program.
pub fn translate(words: &[OsString]) -> Result<Option<Vec<OsString>>, Errors> {
    if !words.iter().any(|word| word == OPTION) {
        return Ok(None);
    }
    let words_before = vec![OPTION.into(), "--whole-archive".into()];
    let mut line = Line { words: words_before, ..Line::default() };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word != OPTION {
            line.add(word, &mut rest);
        }
    }
    let Line { mut words, mut targets, lto, errors, .. } = line;
    targets.sort();
    targets.dedup();
    words.extend((!targets.is_empty()).then(|| format!("--offload-sass={}", targets.join(",")).into()));
    // Like nvcc, without -dlto the step takes machine code or PTX of objects that have LTO-IR, too.
    words.extend((!lto).then(|| "--device-compiler=-fno-lto".into()));
    errors.or(Some(words))
}

#[derive(Default)]
struct Line {
    words: Vec<OsString>,
    targets: Vec<String>,
    /// LTO-IR is linked: `-dlto`, or a target `lto_NN`.
    lto: bool,
    /// The options files that are being read, the innermost last.
    options_files: Vec<OsString>,
    errors: Errors,
}

impl Line {
    fn add(&mut self, word: &OsString, rest: &mut std::slice::Iter<'_, OsString>) {
        let Some(text) = word.to_str().filter(|text| text.starts_with('-') && text.len() > 1) else {
            self.words.push(word.clone());
            return;
        };
        if matches!(text, "-dlto" | "--dlink-time-opt") {
            self.lto = true;
        } else if matches!(text, "-r" | "--relocatable-link") {
            self.words.push("-r".into());
        } else if flags::is_own(word) {
            self.words.push(word.clone());
        } else if let Some((_, options)) = FLAGS.iter().find(|(names, _)| names.contains(&text)) {
            self.words.extend(options.iter().map(OsString::from));
        } else if let Some((meaning, joined)) = with_value(text) {
            match joined.map(OsString::from).or_else(|| rest.next().cloned()) {
                Some(value) => self.value(meaning, &value),
                None => self.errors.extend(Error::NoValue { option: text.to_owned() }),
            }
        } else if text.starts_with("--offload-") || text.starts_with("--wrapper-") {
            self.errors.extend(Error::UnknownOption { option: text.to_owned() });
        }
        // Everything else concerns other steps of nvcc, or the host: -O3, -shared, -fPIC, -Wno-deprecated-gpu-targets.
    }

    fn value(&mut self, meaning: Meaning, value: &OsString) {
        let text = value.to_string_lossy();
        let pieces = || text.split(',').filter(|piece| !piece.is_empty());
        match meaning {
            Meaning::Ignored => {}
            Meaning::Targets => {
                self.lto |= text.contains("lto_");
                self.targets.extend(targets(&text));
            }
            Meaning::Nvlink => self.words.extend(pieces().map(|piece| format!("--device-linker={piece}").into())),
            Meaning::Ptxas => pieces().for_each(|piece| self.ptxas(piece)),
            Meaning::MaxRegisters => self.ptxas(&format!("--maxrregcount={text}")),
            Meaning::Output => self.words.extend(["-o".into(), value.clone()]),
            Meaning::LibraryPath => self.words.extend(["-L".into(), value.clone()]),
            Meaning::Library => self.words.extend(["-l".into(), value.clone()]),
            Meaning::OptionsFile => self.options_file(value),
        }
    }

    fn ptxas(&mut self, argument: &str) {
        self.words.extend(["-Xcuda-ptxas", argument].map(|word| format!("--device-compiler={word}").into()));
    }

    fn options_file(&mut self, file: &OsString) {
        if self.options_files.contains(file) {
            self.errors.extend(Error::OptionsFileLoop { file: file.into() });
            return;
        }
        self.options_files.push(file.clone());
        match std::fs::read(file) {
            Ok(text) => {
                let words = crate::cli::response_file::split(&text);
                let mut rest = words.iter();
                while let Some(word) = rest.next() {
                    self.add(word, &mut rest);
                }
            }
            Err(source) => self.errors.extend(Error::OptionsFile { file: file.into(), reason: source.to_string() }),
        }
        self.options_files.pop();
    }
}

/// The meaning of a flag with a value, and the value if it is in the same word.
fn with_value(text: &str) -> Option<(Meaning, Option<&str>)> {
    let flags = WITH_VALUE.iter().flat_map(|(names, meaning)| names.iter().map(move |name| (*name, *meaning)));
    let matching = flags.filter_map(|(name, meaning)| {
        let behind = text.strip_prefix(name)?;
        let is_letter = name.len() == 2;
        match behind.strip_prefix('=') {
            _ if behind.is_empty() => Some((name, meaning, None)),
            Some(value) => Some((name, meaning, Some(value))),
            None if is_letter && "-L-l-o-I-D-U".contains(name) => Some((name, meaning, Some(behind))),
            None => None,
        }
    });
    matching.max_by_key(|(name, ..)| name.len()).map(|(_, meaning, value)| (meaning, value))
}

/// The targets of machine code in `sm_90`, `arch=compute_90,code=[sm_90,compute_90]` and the like. Objects carry their PTX themselves.
fn targets(value: &str) -> Vec<String> {
    let code = value.split_once("code=").map_or(value, |(_, code)| code);
    let words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let real = words.filter_map(|word| word.strip_prefix("sm_").or_else(|| word.strip_prefix("lto_")));
    real.map(|number| format!("sm_{number}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let words = translate(&words).unwrap()?;
        let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Some(shown.join(" "))
    }

    #[test]
    fn the_lines_of_build_systems() {
        let begin = "--dlink --whole-archive";
        for (line, expected) in [
            // CMake 3.25 and 4.4 with Ninja.
            (
                "--dlink -O3 -DNDEBUG --generate-code=arch=compute_90,code=[compute_90,sm_90] -Xcompiler=-fPIC \
                 -Wno-deprecated-gpu-targets -shared -dlink a.o b.o -o dlink.o -L/usr/lib libk.a -lcudadevrt -lrt",
                "a.o b.o -o dlink.o -L /usr/lib libk.a -l cudadevrt -l rt --offload-sass=sm_90 --device-compiler=-fno-lto",
            ),
            ("--dlink -r a.o --relocatable-link", "-r a.o -r --device-compiler=-fno-lto"),
            ("--dlink a.o -arch=sm_80 -o d.o", "a.o -o d.o --offload-sass=sm_80 --device-compiler=-fno-lto"),
            (
                "--dlink -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=lto_90 -dlto a.o",
                "a.o --offload-sass=sm_80,sm_90",
            ),
            (
                "--dlink a.o -Xnvlink -v,--warn -ccbin gcc -Xptxas -v",
                "a.o --device-linker=-v --device-linker=--warn --device-compiler=-Xcuda-ptxas --device-compiler=-v --device-compiler=-fno-lto",
            ),
            (
                "a.o --dlink --offload-report=text -maxrregcount=32",
                "a.o --offload-report=text --device-compiler=-Xcuda-ptxas --device-compiler=--maxrregcount=32 --device-compiler=-fno-lto",
            ),
        ] {
            assert_eq!(translated(line), Some(format!("{begin} {expected}")), "{line}");
        }
        assert_eq!(translated("a.o -o a.out"), None);
    }

    #[test]
    fn a_missing_value_is_an_error() {
        let words: Vec<OsString> = ["--dlink", "a.o", "-arch"].map(OsString::from).to_vec();
        assert!(translate(&words).unwrap_err().to_string().contains("-arch"));
    }
}
