//! What the files wished for when they were compiled: `--cuda-include-ptx=`, which clang 22 ignores for
//! relocatable device code, read from what a file carries. PURE but for the reading of sections.
//!
//! A file says it in a string of its offload binary, or in a command line that the compiler recorded: by
//! `-frecord-command-line` in a section of the host object, in the bitcode of host or device, or by `-grecord-command-line` in the
//! producer of the debug information. A file that says nothing is silent, and so is one whose recorded line lacks
//! the option.

use offload_bundle::arch::GpuArch;
use offload_bundle::host_object;

use crate::host::embedded_images::FoundImage;
use crate::host::input_files::{InputFile, InputFiles};

/// The string of an offload binary that holds a wish: values as of the option, separated by commas; `no-` in front of one
/// stands for the negated option.
const STRING: &str = "cuda-include-ptx";
/// What both spellings of the option have in common.
const OPTION: &str = "cuda-include-ptx=";
/// Where compilers record their command line in an ELF object.
const RECORD: &[u8] = b".GCC.command.line";
/// Where the debug producer of an ELF object stands among other strings.
const DEBUG_STRINGS: &[u8] = b".debug_str";
/// How many files of one mind are named.
const FILES_SHOWN: usize = 3;

/// One option, in the order of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wish {
    include: bool,
    /// None: of all targets.
    arch: Option<GpuArch>,
}

/// A file with device code and its wishes, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWishes {
    file: String,
    wishes: Vec<Wish>,
}

/// The wishes of all files with device code, in link order.
pub fn read(inputs: &InputFiles, images: &[&FoundImage<'_>]) -> Vec<FileWishes> {
    let mut files: Vec<FileWishes> = Vec::new();
    for of_file in images.chunk_by(|one, next| one.input == next.input) {
        let Some(first) = of_file.first() else { continue };
        let file = &inputs.files()[first.input];
        let mut wishes = recorded_by_host(inputs.bytes(file), file);
        if wishes.is_empty() {
            wishes = of_file
                .iter()
                .map(|found| recorded_by_device(found))
                .find(|wishes| !wishes.is_empty())
                .unwrap_or_default();
        }
        // What was put in afterwards counts more than what the compiler was told.
        let strings = of_file.iter().filter_map(|found| found.image.get(STRING));
        wishes.extend(strings.flat_map(|text| text.split(',')).filter_map(of_string));
        files.push(FileWishes { file: file.name.clone(), wishes });
    }
    files
}

/// The command lines that a host file records, where they are cheap to find.
fn recorded_by_host(bytes: &[u8], file: &InputFile) -> Vec<Wish> {
    if let Some(host) = &file.bitcode {
        return host.command_lines.iter().flat_map(|line| in_command_line(line)).collect();
    }
    if let Some((_, lines)) = host_object::section(bytes, RECORD) {
        return in_command_line(&String::from_utf8_lossy(lines));
    }
    let Some((_, strings)) = host_object::section(bytes, DEBUG_STRINGS) else { return Vec::new() };
    if memchr::memmem::find(strings, OPTION.as_bytes()).is_none() {
        return Vec::new();
    }
    // The producer is the one string of debug information that holds a command line.
    strings.split(|byte| *byte == 0).flat_map(|text| in_command_line(&String::from_utf8_lossy(text))).collect()
}

/// The command lines in the bitcode of one device image. What cannot be read here is reported where it is linked.
fn recorded_by_device(found: &FoundImage<'_>) -> Vec<Wish> {
    let Some(unit) = &found.unit else { return Vec::new() };
    let lines = unit.command_lines_with(OPTION).unwrap_or_default();
    lines.iter().flat_map(|line| in_command_line(line)).collect()
}

/// The wishes on the link line itself.
pub fn of_line(words: &[String]) -> Vec<FileWishes> {
    vec![FileWishes { file: "the link line".to_owned(), wishes: in_command_line(&words.join(" ")) }]
}

/// The options in recorded command lines: words between blanks and NULs.
fn in_command_line(text: &str) -> Vec<Wish> {
    let words = text.split(|c: char| c.is_whitespace() || c == '\0');
    let options = words.filter_map(|word| match word.strip_prefix("--cuda-include-ptx=") {
        Some(value) => wish(value, true),
        None => wish(word.strip_prefix("--no-cuda-include-ptx=")?, false),
    });
    options.collect()
}

/// One value of the string of an offload binary.
fn of_string(value: &str) -> Option<Wish> {
    match value.strip_prefix("no-") {
        Some(value) => wish(value, false),
        None => wish(value, true),
    }
}

fn wish(value: &str, include: bool) -> Option<Wish> {
    match value {
        "all" => Some(Wish { include, arch: None }),
        _ => Some(Wish { include, arch: Some(value.parse().ok()?) }),
    }
}

/// What the files together say of one target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opinion {
    wanting: Vec<String>,
    refusing: Vec<String>,
    silent: Vec<String>,
}

/// Asks all files about one target. In each, the last option that fits counts, as with clang.
pub fn about(arch: GpuArch, files: &[FileWishes]) -> Opinion {
    let mut opinion = Opinion::default();
    for file in files {
        let fitting = file.wishes.iter().rfind(|wish| wish.arch.is_none_or(|of| of == arch));
        let side = match fitting {
            Some(Wish { include: true, .. }) => &mut opinion.wanting,
            Some(Wish { include: false, .. }) => &mut opinion.refusing,
            None => &mut opinion.silent,
        };
        side.push(file.file.clone());
    }
    opinion
}

impl Opinion {
    /// Somebody wants PTX for the target.
    pub fn wants(&self) -> bool {
        !self.wanting.is_empty()
    }

    /// Every file with its mind: `include`, `exclude` or `silent`.
    pub fn by_file(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let sides = [(&self.wanting, "include"), (&self.refusing, "exclude"), (&self.silent, "silent")];
        sides.into_iter().flat_map(|(files, mind)| files.iter().map(move |file| (file.as_str(), mind)))
    }

    /// Some want it and some refuse it: the files of each mind.
    pub fn contradiction(&self) -> Option<String> {
        (self.wants() && !self.refusing.is_empty()).then(|| {
            format!(
                "{} was compiled with --cuda-include-ptx for it, and {} with --no-cuda-include-ptx",
                shown(&self.wanting),
                shown(&self.refusing)
            )
        })
    }

    /// Some want it and some say nothing: those.
    pub fn silence(&self) -> Option<String> {
        (self.wants() && !self.silent.is_empty()).then(|| shown(&self.silent))
    }
}

/// The names of a few files, and how many more there are.
pub fn shown(files: &[String]) -> String {
    let more = files.len().saturating_sub(FILES_SHOWN);
    let named = files[..files.len().min(FILES_SHOWN)].join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, line: &str) -> FileWishes {
        FileWishes { file: name.to_owned(), wishes: in_command_line(line) }
    }

    fn sm(number: u32) -> GpuArch {
        GpuArch::plain(number)
    }

    #[test]
    fn the_last_option_that_fits_counts() {
        for (line, on_80, on_90) in [
            ("clang -c a.cu", None, None),
            ("clang\0--cuda-include-ptx=all\0a.cu", Some(true), Some(true)),
            ("--cuda-include-ptx=sm_90", None, Some(true)),
            ("--cuda-include-ptx=all --no-cuda-include-ptx=sm_80", Some(false), Some(true)),
            ("--no-cuda-include-ptx=all --cuda-include-ptx=sm_90", Some(false), Some(true)),
            ("--cuda-include-ptx=nonsense", None, None),
        ] {
            for (arch, expected) in [(sm(80), on_80), (sm(90), on_90)] {
                let opinion = about(arch, &[file("a.o", line)]);
                let said = match (opinion.wanting.len(), opinion.refusing.len()) {
                    (1, _) => Some(true),
                    (_, 1) => Some(false),
                    _ => None,
                };
                assert_eq!(said, expected, "{line} {arch}");
            }
        }
    }

    #[test]
    fn strings_of_offload_binaries() {
        let all = |include| Some(Wish { include, arch: None });
        assert_eq!(of_string("all"), all(true));
        assert_eq!(of_string("no-all"), all(false));
        assert_eq!(of_string("no-sm_90"), Some(Wish { include: false, arch: Some(sm(90)) }));
        assert_eq!(of_string("nothing"), None);
    }

    #[test]
    fn contradictions_and_silence_name_the_files() {
        let files = [
            file("a.o", "--cuda-include-ptx=all"),
            file("b.o", "--no-cuda-include-ptx=sm_90"),
            file("c.o", ""),
            file("d.o", ""),
            file("e.o", ""),
            file("f.o", ""),
        ];
        let opinion = about(sm(90), &files);
        let text = opinion.contradiction().unwrap();
        assert!(text.starts_with("a.o was compiled") && text.contains("and b.o with"), "{text}");
        assert_eq!(opinion.silence().unwrap(), "c.o, d.o, e.o and 1 more");
        assert_eq!(about(sm(80), &files[1..]).contradiction(), None);
    }
}
