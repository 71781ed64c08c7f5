//! `--dlink`: the command line of a device link, as `nvcc -dlink` takes it.
//!
//! Build systems that make the device link a step of its own, such as CMake, put nvcc's options on its line: those of the compiler and of
//! the host linker, too. Options that concern device code become options of this program, those of other steps are left out as nvcc's device
//! link leaves them out, and all others are errors. Like nvlink, the step takes every unit of an archive.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use offload_bundle::arch::GpuArch;

use crate::cli::device_options::CUDA_TRIPLE;
use crate::cli::error::Error;
use crate::cli::flags;
use crate::cli::nvcc_options::{self, Found, Meaning};
use crate::diag::error::Errors;

/// The option that begins such a line.
pub const OPTION: &str = "--dlink";

/// Files of device code without host code, which nvcc accepts like objects.
const DEVICE_FILES: [&str; 4] = ["cubin", "fatbin", "ltoir", "ptx"];

/// Files that nvcc would compile first.
const SOURCES: [&str; 8] = ["c", "cc", "cpp", "cu", "cxx", "gpu", "i", "ii"];

/// The names that nvcc gives its output if there is no `-o`.
const OBJECT: &str = "a_dlink.o";
const FATBIN: &str = "a_dlink.fatbin";

/// Translates the line if it is one of `--dlink`: to options of this program, whose archives are linked whole.
///
/// # Errors
/// One for each option that is unknown, cannot be followed or lacks its value, for each options file that cannot be read, and for each
/// source file.
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
    line.finished().map(Some)
}

/// What the line says so far.
#[derive(Default)]
struct Line {
    words: Vec<OsString>,
    targets: Targets,
    /// LTO-IR is linked: `-dlto`, or a target `lto_NN`.
    lto: bool,
    /// Options of nvlink for link-time optimization.
    optimizer: Vec<String>,
    /// `-G`.
    debug: bool,
    /// `-dopt`: `-G` leaves the code optimized.
    optimized: bool,
    /// The spelling of an option that link-time optimization excludes.
    excluded: Option<String>,
    keep: bool,
    keep_folder: Option<OsString>,
    output: Option<OsString>,
    output_folder: PathBuf,
    fatbin: bool,
    /// nvcc would pass unknown options on.
    forwards: bool,
    unknown: Vec<String>,
    /// The options files that are being read, the innermost last.
    options_files: Vec<OsString>,
    errors: Errors,
}

impl Line {
    fn add(&mut self, word: &OsString, rest: &mut std::slice::Iter<'_, OsString>) {
        let Some(text) = word.to_str().filter(|text| text.starts_with('-') && text.len() > 1) else {
            self.file(word);
            return;
        };
        if flags::is_own(word) {
            self.words.push(word.clone());
            return;
        }
        match nvcc_options::find(text) {
            Some(Found::Alone(meaning)) => self.alone(text, meaning),
            Some(Found::Joined(meaning, value)) => self.value(text, meaning, &value.into()),
            Some(Found::Separate(meaning)) => match rest.next() {
                Some(value) => self.value(text, meaning, value),
                None => self.errors.extend(Error::NoValue { option: text.to_owned() }),
            },
            None if text.starts_with("--offload-") || text.starts_with("--wrapper-") => {
                self.errors.extend(Error::UnknownOption { option: text.to_owned() });
            }
            None => self.unknown.push(text.to_owned()),
        }
    }

    fn file(&mut self, file: &OsString) {
        let ending = Path::new(file).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if SOURCES.contains(&ending) {
            self.errors.extend(Error::DlinkSource { file: file.into() });
        } else if DEVICE_FILES.contains(&ending) {
            let mut word = OsString::from(format!("--device-linker={CUDA_TRIPLE}="));
            word.push(file);
            self.words.push(word);
        } else {
            self.words.push(file.clone());
        }
    }

    fn alone(&mut self, option: &str, meaning: Meaning) {
        match meaning {
            Meaning::Dlto => self.lto = true,
            Meaning::Relocatable => self.words.push("-r".into()),
            Meaning::DeviceDebug => self.debug = true,
            Meaning::WholeProgram => self.excluded = Some(option.to_owned()),
            Meaning::Fatbin => self.fatbin = true,
            Meaning::Keep => self.keep = true,
            Meaning::Forward => self.forwards = true,
            Meaning::Own(own) => self.words.push(own.into()),
            Meaning::OwnNvlink(own) => self.nvlink(own),
            Meaning::Refused(why) => self.refuse(option, why),
            _ => {}
        }
    }

    fn value(&mut self, option: &str, meaning: Meaning, value: &OsString) {
        let text = value.to_string_lossy();
        let pieces = || text.split(',').filter(|piece| !piece.is_empty());
        match meaning {
            Meaning::Targets => {
                self.lto |= text.contains("lto_");
                self.targets.add(&text).unwrap_or_else(|error| self.errors.extend(error));
            }
            Meaning::Nvlink => pieces().for_each(|piece| self.nvlink(piece)),
            Meaning::Ptxas => pieces().for_each(|piece| self.ptxas(piece)),
            Meaning::Fatbinary => pieces().for_each(|piece| self.fatbinary(piece)),
            Meaning::MaxRegisters => self.ptxas(&format!("--maxrregcount={text}")),
            Meaning::Optimizer(name) => self.optimizer.push(format!("{name}={text}")),
            Meaning::OptimizedDebug => self.optimized = true,
            Meaning::CompressMode => self.words.push(format!("--offload-compress={text}").into()),
            Meaning::Output => self.output = Some(value.clone()),
            Meaning::OutputFolder => self.output_folder = value.into(),
            Meaning::LibraryPath => pieces().for_each(|piece| self.words.extend(["-L".into(), piece.into()])),
            Meaning::Library => pieces().for_each(|piece| self.words.extend(["-l".into(), piece.into()])),
            Meaning::OptionsFile => pieces().for_each(|piece| self.options_file(&piece.into())),
            // nvcc's meaning of 0 is the default here, and it ignores 1.
            Meaning::Threads if !matches!(&*text, "0" | "1") => {
                self.words.push(format!("--wrapper-jobs={text}").into());
            }
            Meaning::KeepFolder => self.keep_folder = Some(value.clone()),
            Meaning::WarningsAsErrors if pieces().any(|piece| piece == "all-warnings") => {
                self.nvlink("--warning-as-error");
            }
            Meaning::HostLinkerScript if text == "gen-lcs" => {
                self.refuse(option, "writes a linker script and links nothing; leave it out");
            }
            Meaning::Refused(why) => self.refuse(option, why),
            _ => {}
        }
    }

    fn refuse(&mut self, option: &str, why: &'static str) {
        self.errors.extend(Error::DlinkRefused { option: option.to_owned(), why });
    }

    fn nvlink(&mut self, argument: &str) {
        self.words.push(format!("--device-linker={argument}").into());
    }

    fn ptxas(&mut self, argument: &str) {
        self.words.extend(["-Xcuda-ptxas", argument].map(|word| format!("--device-compiler={word}").into()));
    }

    /// fatbinary itself is not run.
    fn fatbinary(&mut self, argument: &str) {
        let name = argument.trim_start_matches('-');
        let mode = match name {
            "compress-all" => "size",
            "compress=false" => "none",
            "compress=true" => "default",
            _ => match name.strip_prefix("compress-mode=") {
                Some(mode) => mode,
                None => return self.refuse(argument, "is an option of fatbinary, which is not run; leave it out"),
            },
        };
        self.words.push(format!("--offload-compress={mode}").into());
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

    /// The whole line, with what depends on more than one of its options.
    fn finished(mut self) -> Result<Vec<OsString>, Errors> {
        if !self.forwards {
            let unknown = std::mem::take(&mut self.unknown);
            let unknown = unknown.into_iter().map(|option| Error::NoNvccOption { option });
            self.errors.extend(unknown.collect::<Errors>());
        }
        let debug = self.debug && !self.optimized;
        if self.lto {
            let debug = debug.then(|| "-G".to_owned());
            let excluded = debug.into_iter().chain(self.excluded.take());
            self.errors.extend(excluded.map(|option| Error::NotWithDlto { option }).collect::<Errors>());
            self.words.push("--device-compiler=-flto".into());
            // Without LTO-IR, nvcc's device link has no use for these.
            std::mem::take(&mut self.optimizer).iter().for_each(|word| self.nvlink(word));
        } else {
            // Like nvcc, without -dlto the step takes machine code or PTX of objects that have LTO-IR, too.
            self.words.push("--device-compiler=-fno-lto".into());
        }
        self.words.extend(debug.then(|| "--device-compiler=-g".into()));
        self.words.extend(self.targets.word().map(Into::into));
        if self.keep {
            let mut word = OsString::from("--save-temps");
            if let Some(folder) = &self.keep_folder {
                word.push("=");
                word.push(folder);
            }
            self.words.push(word);
        }
        self.words.extend(self.fatbin.then(|| "--emit-fatbin-only".into()));
        let name = if self.fatbin { FATBIN } else { OBJECT };
        let output = self.output.unwrap_or_else(|| self.output_folder.join(name).into());
        self.words.extend(["-o".into(), output]);
        self.errors.or(self.words)
    }
}

/// The targets on the line.
#[derive(Default)]
struct Targets {
    /// Those of machine code, `sm_NN` and `lto_NN`.
    real: Vec<GpuArch>,
    /// Whether any is virtual: the objects carry their PTX themselves.
    is_virtual: bool,
    /// `all`, `all-major` and `native` stand for what the objects were compiled for.
    of_objects: bool,
}

impl Targets {
    /// Adds those in `sm_90`, `arch=compute_90,code=[sm_90,compute_90]` and the like.
    fn add(&mut self, value: &str) -> Result<(), Error> {
        let code = value.split_once("code=").map_or(value, |(_, code)| code);
        let code = code.trim_matches(|c| "[]\"\\'".contains(c));
        for word in code.split(',').map(|word| word.trim_matches(|c| "[]\"\\'".contains(c))) {
            let unknown = || Error::DlinkTarget { value: word.to_owned() };
            let number = |name: &str| format!("sm_{name}").parse::<GpuArch>().map_err(|_| unknown());
            if matches!(word, "all" | "all-major" | "native") {
                self.of_objects = true;
            } else if let Some(name) = word.strip_prefix("sm_").or_else(|| word.strip_prefix("lto_")) {
                self.real.push(number(name)?);
            } else if let Some(name) = word.strip_prefix("compute_") {
                number(name)?;
                self.is_virtual = true;
            } else {
                return Err(unknown());
            }
        }
        Ok(())
    }

    /// The option that requests them; `None` requests those that the objects have code for.
    fn word(&mut self) -> Option<String> {
        self.real.sort();
        self.real.dedup();
        let names: Vec<String> = self.real.iter().map(ToString::to_string).collect();
        match names.is_empty() {
            _ if self.of_objects => None,
            false => Some(format!("--offload-sass={}", names.join(","))),
            true => self.is_virtual.then(|| "--offload-sass=none".to_owned()),
        }
    }
}

#[cfg(test)]
#[path = "dlink_tests.rs"]
mod tests;
