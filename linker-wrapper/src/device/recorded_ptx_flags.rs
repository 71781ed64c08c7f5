//! The `--cuda-include-ptx=` options that each file was compiled with. clang 22 ignores the option for relocatable device
//! code, so the link applies it: see [`crate::machines::nvptx::image_policy`].
//!
//! The options are read from a string in the file's offload binaries, or from a command line that the compiler recorded: by
//! `-frecord-command-line` in a section of the host object or in the bitcode of host or device, or by `-grecord-command-line` in
//! the producer of the debug information. A file without such a record, or whose record lacks the option, is silent.

use offload_bundle::arch::GpuArch;
use offload_bundle::host_object;

use crate::host::embedded_images::FoundImage;
use crate::host::input_files::{InputFile, InputFiles};

/// Name of the string in an offload binary that holds the option's values, separated by commas. A value with `no-` in front
/// belongs to the negated option.
const STRING: &str = "cuda-include-ptx";
/// Common part of the option and its negation.
const OPTION: &str = "cuda-include-ptx=";
/// Section of an ELF object in which compilers record their command line.
const RECORD: &[u8] = b".GCC.command.line";
/// Section of an ELF object that holds, among other strings, the producer of the debug information.
const DEBUG_STRINGS: &[u8] = b".debug_str";
/// Maximum number of files that a message lists.
const FILES_SHOWN: usize = 3;

/// One `--cuda-include-ptx=` or `--no-cuda-include-ptx=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PtxFlag {
    include: bool,
    /// `None` for all targets.
    arch: Option<GpuArch>,
}

/// The PTX flags that one file with device code records, in the order of its command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedFlags {
    file: String,
    flags: Vec<PtxFlag>,
}

/// Reads the flags of all files with device code, in link order.
pub fn read(inputs: &InputFiles, images: &[&FoundImage<'_>]) -> Vec<RecordedFlags> {
    let mut files: Vec<RecordedFlags> = Vec::new();
    for of_file in images.chunk_by(|one, next| one.input == next.input) {
        let Some(first) = of_file.first() else { continue };
        let file = &inputs.files()[first.input];
        let mut flags = recorded_by_host(inputs.bytes(file), file);
        if flags.is_empty() {
            let mut of_images = of_file.iter().map(|found| recorded_by_device(found));
            flags = of_images.find(|flags| !flags.is_empty()).unwrap_or_default();
        }
        // The last flag counts: a string that was added to a finished object overrides the recorded command line.
        let strings = of_file.iter().filter_map(|found| found.image.get(STRING));
        flags.extend(strings.flat_map(|text| text.split(',')).filter_map(in_string));
        files.push(RecordedFlags { file: file.name.clone(), flags });
    }
    files
}

/// Reads the flags from the command lines in a host file, as far as they are cheap to find.
fn recorded_by_host(bytes: &[u8], file: &InputFile) -> Vec<PtxFlag> {
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
    // The producer is the only string of the debug information that holds a command line.
    strings.split(|byte| *byte == 0).flat_map(|text| in_command_line(&String::from_utf8_lossy(text))).collect()
}

/// Reads the flags from the command lines in the bitcode of a device image. Unreadable bitcode has none; the link reports it.
fn recorded_by_device(found: &FoundImage<'_>) -> Vec<PtxFlag> {
    let Some(unit) = &found.unit else { return Vec::new() };
    let lines = unit.command_lines_with(OPTION).unwrap_or_default();
    lines.iter().flat_map(|line| in_command_line(line)).collect()
}

/// Reads the flags on the link line itself.
pub fn of_link_line(words: &[String]) -> Vec<RecordedFlags> {
    vec![RecordedFlags { file: "the link line".to_owned(), flags: in_command_line(&words.join(" ")) }]
}

/// Finds the flags in recorded command lines, whose words are separated by blanks or NULs.
fn in_command_line(text: &str) -> Vec<PtxFlag> {
    let words = text.split(|c: char| c.is_whitespace() || c == '\0');
    let flags = words.filter_map(|word| match word.strip_prefix("--cuda-include-ptx=") {
        Some(value) => flag(value, true),
        None => flag(word.strip_prefix("--no-cuda-include-ptx=")?, false),
    });
    flags.collect()
}

/// Parses one value from the string of an offload binary.
fn in_string(value: &str) -> Option<PtxFlag> {
    match value.strip_prefix("no-") {
        Some(value) => flag(value, false),
        None => flag(value, true),
    }
}

fn flag(value: &str, include: bool) -> Option<PtxFlag> {
    match value {
        "all" => Some(PtxFlag { include, arch: None }),
        _ => Some(PtxFlag { include, arch: Some(value.parse().ok()?) }),
    }
}

/// All files, grouped by their flag for one target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlagSummary {
    included_by: Vec<String>,
    excluded_by: Vec<String>,
    silent: Vec<String>,
}

/// Groups files by their flag for one target. Of several flags in a file that fit the target, the last counts, as with clang.
pub fn summarize(arch: GpuArch, files: &[RecordedFlags]) -> FlagSummary {
    let mut summary = FlagSummary::default();
    for file in files {
        let last = file.flags.iter().rfind(|flag| flag.arch.is_none_or(|of| of == arch));
        let group = match last {
            Some(PtxFlag { include: true, .. }) => &mut summary.included_by,
            Some(PtxFlag { include: false, .. }) => &mut summary.excluded_by,
            None => &mut summary.silent,
        };
        group.push(file.file.clone());
    }
    summary
}

impl FlagSummary {
    /// Whether any file requests PTX for the target.
    pub fn includes_ptx(&self) -> bool {
        !self.included_by.is_empty()
    }

    /// Pairs each file with its group: `include`, `exclude` or `silent`.
    pub fn by_file(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let groups = [(&self.included_by, "include"), (&self.excluded_by, "exclude"), (&self.silent, "silent")];
        groups.into_iter().flat_map(|(files, group)| files.iter().map(move |file| (file.as_str(), group)))
    }

    /// Names the files on each side if some include PTX and others exclude it.
    pub fn conflict(&self) -> Option<String> {
        (self.includes_ptx() && !self.excluded_by.is_empty()).then(|| {
            format!(
                "{} was compiled with --cuda-include-ptx for it, and {} with --no-cuda-include-ptx",
                shown(&self.included_by),
                shown(&self.excluded_by)
            )
        })
    }

    /// Names the files without a flag if others include PTX.
    pub fn silent_files(&self) -> Option<String> {
        (self.includes_ptx() && !self.silent.is_empty()).then(|| shown(&self.silent))
    }
}

/// Lists the first few files and the number of the others.
pub fn shown(files: &[String]) -> String {
    let more = files.len().saturating_sub(FILES_SHOWN);
    let named = files[..files.len().min(FILES_SHOWN)].join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, line: &str) -> RecordedFlags {
        RecordedFlags { file: name.to_owned(), flags: in_command_line(line) }
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
                let summary = summarize(arch, &[file("a.o", line)]);
                let include = match (summary.included_by.len(), summary.excluded_by.len()) {
                    (1, _) => Some(true),
                    (_, 1) => Some(false),
                    _ => None,
                };
                assert_eq!(include, expected, "{line} {arch}");
            }
        }
    }

    #[test]
    fn strings_of_offload_binaries_are_flags() {
        let all = |include| Some(PtxFlag { include, arch: None });
        assert_eq!(in_string("all"), all(true));
        assert_eq!(in_string("no-all"), all(false));
        assert_eq!(in_string("no-sm_90"), Some(PtxFlag { include: false, arch: Some(sm(90)) }));
        assert_eq!(in_string("nothing"), None);
    }

    #[test]
    fn conflicts_and_silent_files_are_listed() {
        let files = [
            file("a.o", "--cuda-include-ptx=all"),
            file("b.o", "--no-cuda-include-ptx=sm_90"),
            file("c.o", ""),
            file("d.o", ""),
            file("e.o", ""),
            file("f.o", ""),
        ];
        let summary = summarize(sm(90), &files);
        let text = summary.conflict().unwrap();
        assert!(text.starts_with("a.o was compiled") && text.contains("and b.o with"), "{text}");
        assert_eq!(summary.silent_files().unwrap(), "c.o, d.o, e.o and 1 more");
        assert_eq!(summarize(sm(80), &files[1..]).conflict(), None);
    }
}
