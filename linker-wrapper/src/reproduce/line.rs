//! Rewrites a command line for the files of the archive.
//!
//! Files that are read get their names in the archive, files that are written lose their folders. What depends on the machine (stores,
//! distributors) is left out; what the link found by itself (tools, device libraries) is named.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::cli::flags::{self, Reproduced, Shape};
use crate::cli::persona::Persona;
use crate::cli::words::{self, Found, Word};
use crate::reproduce::files::{self, Files};

/// Options of host linkers whose value is a file that they read, without dashes. From the manuals of GNU ld, lld and mold.
const READ: [&str; 17] = [
    "T",
    "script",
    "dT",
    "default-script",
    "mri-script",
    "version-script",
    "dynamic-list",
    "just-symbols",
    "R",
    "retain-symbols-file",
    "symbol-ordering-file",
    "section-ordering-file",
    "call-graph-ordering-file",
    "export-dynamic-symbol-list",
    "remap-inputs-file",
    "in-implib",
    "android-memtag-note",
];

/// Options of host linkers whose value is a file that they write, without dashes.
const WRITTEN: [&str; 8] = [
    "Map",
    "dependency-file",
    "out-implib",
    "print-archive-stats",
    "why-extract",
    "time-trace",
    "lto-obj-path",
    "print-gc-sections-file",
];

/// A rewritten command line.
#[derive(Default)]
pub struct Line {
    /// Its words.
    pub words: Vec<OsString>,
    /// Folders in which the line has libraries of libraries looked for.
    pub run_paths: Vec<String>,
    /// Words that were left out.
    pub left_out: Vec<String>,
}

/// Rewrites the words, and adds the files that options name.
pub fn rewrite(words: &[OsString], persona: Persona, archive: &mut Files) -> Line {
    let mut line = Line::default();
    for word in words::split(words, persona) {
        match word {
            Word::Plain(word) => line.plain(word, archive),
            Word::Option { word, found, value: Some(value) } if found.shape != Shape::Switch => {
                line.option(word, &found, &value, archive);
            }
            Word::Option { word, found, .. } => match found.flag.reproduced {
                Reproduced::As(other) => line.words.push(other.into()),
                _ => line.words.push(word.to_owned()),
            },
        }
    }
    line
}

impl Line {
    /// Handles an input, or an option of the host linker that the table does not have.
    fn plain(&mut self, word: &OsStr, archive: &mut Files) {
        let text = word.to_string_lossy();
        let new = if !text.starts_with('-') || text == "-" {
            file(word, archive)
        } else if let Some((option, value)) = text.split_once('=') {
            self.run_path(option, value);
            host_value(option, OsStr::new(value), archive).map(|value| joined(&format!("{option}="), &value))
        } else {
            // -Tscript.ld
            let script = text.strip_prefix("-T").filter(|script| Path::new(script).is_file());
            script.map(|script| joined("-T", archive.add(Path::new(script)).as_os_str()))
        };
        self.words.push(new.unwrap_or_else(|| word.to_owned()));
    }

    fn option(&mut self, word: &OsStr, found: &Found, value: &OsStr, archive: &mut Files) {
        let text = value.to_string_lossy();
        let new = match found.flag.reproduced {
            Reproduced::Omitted => return,
            Reproduced::LeftOut => {
                self.left_out.push(found.spelling.to_owned());
                return;
            }
            Reproduced::Kept => None,
            Reproduced::As(other) => Some(other.into()),
            Reproduced::Written => Some(base_name(value)),
            Reproduced::WrittenBehindForm => {
                text.split_once(':').map(|(form, file)| joined(&format!("{form}:"), &base_name(OsStr::new(file))))
            }
            Reproduced::ReadBehindKind => text
                .split_once('=')
                .map(|(kind, file)| joined(&format!("{kind}="), archive.add(Path::new(file)).as_os_str())),
            Reproduced::Folder if text.starts_with('=') || text.starts_with("$SYSROOT") => None,
            Reproduced::Folder => Some(folder(value)),
            Reproduced::LlvmOption => recorded_file(&text),
            Reproduced::DeviceArgument => Some(device_word(&text, archive)),
            Reproduced::HostValue => {
                self.run_path(found.spelling, &text);
                host_value(found.spelling, value, archive)
            }
        };
        let value = new.as_deref().unwrap_or(value);
        if found.joined.is_some() {
            self.words.push(joined(found.spelling, value));
        } else {
            self.words.extend([word.to_owned(), value.to_owned()]);
        }
    }

    fn run_path(&mut self, option: &str, value: &str) {
        if matches!(option.trim_start_matches('-'), "rpath" | "rpath-link") {
            self.run_paths.extend(value.split(':').map(str::to_owned));
        }
    }
}

/// The value of an option of the host linker, if it is the name of a file or folder.
fn host_value(option: &str, value: &OsStr, archive: &mut Files) -> Option<OsString> {
    let option = option.trim_start_matches('-');
    if option == "rpath-link" {
        let folders = value.as_bytes().split(|byte| *byte == b':').map(|part| folder(OsStr::from_bytes(part)));
        return Some(folders.collect::<Vec<_>>().join(OsStr::new(":")));
    }
    if WRITTEN.contains(&option) {
        return Some(base_name(value));
    }
    READ.contains(&option).then(|| file(value, archive)).flatten()
}

/// The name in the archive of a file that exists.
fn file(path: &OsStr, archive: &mut Files) -> Option<OsString> {
    Path::new(path).is_file().then(|| archive.add(Path::new(path)).into_os_string())
}

fn folder(path: &OsStr) -> OsString {
    let name = files::name_of(Path::new(path));
    if name.as_os_str().is_empty() { ".".into() } else { name.into_os_string() }
}

fn base_name(path: &OsStr) -> OsString {
    Path::new(path).file_name().unwrap_or(path).to_owned()
}

fn joined(before: &str, value: &OsStr) -> OsString {
    OsString::from_vec([before.as_bytes(), value.as_bytes()].concat())
}

/// An argument of the device link: a file, a library, a folder of libraries, or another word.
fn device_word(text: &str, archive: &mut Files) -> OsString {
    let (triple, word) = flags::split_triple(text);
    let before = triple.map_or_else(String::new, |triple| format!("{triple}="));
    let path_of = |option: &str| word.strip_prefix(option).filter(|path| !path.is_empty()).map(OsStr::new);
    let folder_of = |option: &str| path_of(option).map(|path| joined(option, &folder(path)));
    let folder = folder_of("-L").or_else(|| folder_of("--library-path="));
    let is_folder = !word.starts_with('-') && Path::new(&word).is_dir();
    let new = folder.or_else(|| is_folder.then(|| self::folder(OsStr::new(&word))));
    let new = new.or_else(|| file(OsStr::new(&word), archive)).or_else(|| recorded_file(&word));
    let new = new.or_else(|| file_of_tool(&word, archive));
    joined(&before, &new.unwrap_or_else(|| word.into()))
}

/// An option of ptxas or nvlink with the file that it names.
fn file_of_tool(word: &str, archive: &mut Files) -> Option<OsString> {
    let (option, path) = word.split_once('=')?;
    let names = ["apply-controls", "options-file", "optf"];
    let path = names.contains(&option.trim_start_matches('-')).then(|| file(OsStr::new(path), archive))??;
    Some(joined(&format!("{option}="), &path))
}

/// An option of LLVM that names a file of remarks, with the file in the folder of the link.
fn recorded_file(text: &str) -> Option<OsString> {
    let (option, file) = text.split_once('=')?;
    // --plugin-opt=opt-remarks-filename=FILE
    if option.trim_start_matches('-') == "plugin-opt" {
        return recorded_file(file).map(|file| joined("--plugin-opt=", &file));
    }
    let names = ["pass-remarks-output", "opt-remarks-filename", "lto-pass-remarks-output"];
    let is_recorded = names.contains(&option.trim_start_matches('-'));
    is_recorded.then(|| joined(&format!("{option}="), &base_name(OsStr::new(file))))
}

/// The libraries of the device link that these arguments name, with the folders to find them in.
pub fn device_libraries(words: &[(Option<String>, String)]) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut names = Vec::new();
    let mut rest = words.iter().map(|(_, word)| word.as_str());
    while let Some(word) = rest.next() {
        let value = |joined: &str| if joined.is_empty() { None } else { Some(joined.to_owned()) };
        if let Some(folder) = word.strip_prefix("-L").or_else(|| word.strip_prefix("--library-path=")) {
            folders.extend(value(folder).or_else(|| rest.next().map(str::to_owned)));
        } else if let Some(name) = word.strip_prefix("-l").or_else(|| word.strip_prefix("--library=")) {
            names.extend(value(name).or_else(|| rest.next().map(str::to_owned)));
        }
    }
    let candidates = |name: &String| match name.strip_prefix(':') {
        Some(file) => vec![file.to_owned()],
        None => vec![format!("lib{name}.so"), format!("lib{name}.a")],
    };
    let files = names.iter().flat_map(candidates).collect::<Vec<_>>();
    let all = folders.iter().flat_map(|folder| files.iter().map(move |file| Path::new(folder).join(file)));
    all.filter(|path| path.is_file()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(words: &[&str]) -> Vec<String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let line = rewrite(&words, Persona::Wrapper, &mut Files::default());
        line.words.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn outputs_lose_their_folders_and_places_of_this_machine_are_left_out() {
        assert_eq!(
            rewritten(&[
                "-o",
                "/out/app",
                "-Map=/tmp/a.map",
                "--offload-report=json:/x/r.json",
                "--reproduce=r.tar",
                "--linker-path=/usr/bin/ld",
                "--offload-cache-remote=http://a/",
                "--offload-opt=-pass-remarks-output=/x/y.yaml",
                "--device-linker=--plugin-opt=opt-remarks-filename=/x/z.yaml",
                "-L=/lib",
                "-L/opt/../lib",
                "--wrapper-verbose",
                "-rpath",
                "/run",
                "-rpath-link",
                "/a:/b",
            ]),
            [
                "-o",
                "app",
                "-Map=a.map",
                "--offload-report=json:r.json",
                "--offload-opt=-pass-remarks-output=y.yaml",
                "--device-linker=--plugin-opt=opt-remarks-filename=z.yaml",
                "-L=/lib",
                "-Llib",
                "--wrapper-verbose",
                "-rpath",
                "/run",
                "-rpath-link",
                "a:b",
            ]
        );
    }

    #[test]
    fn files_that_exist_get_their_names_in_the_archive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.o");
        std::fs::write(&path, "").unwrap();
        let path = path.to_str().unwrap();
        let name = path.trim_start_matches('/');
        let line = rewritten(&[
            path,
            "no-such.o",
            &format!("--version-script={path}"),
            &format!("-T{path}"),
            "-T",
            path,
            &format!("--device-linker=nvptx64-nvidia-cuda={path}"),
            &format!("--device-linker=-L{}", folder.path().display()),
            &format!("--override-image=cuda={path}"),
        ]);
        let expected = [
            name.to_owned(),
            "no-such.o".to_owned(),
            format!("--version-script={name}"),
            format!("-T{name}"),
            "-T".to_owned(),
            name.to_owned(),
            format!("--device-linker=nvptx64-nvidia-cuda={name}"),
            format!("--device-linker=-L{}", files::name_of(folder.path()).display()),
            format!("--override-image=cuda={name}"),
        ];
        assert_eq!(line, expected);
    }

    #[test]
    fn libraries_of_the_device_link_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libdev.a");
        std::fs::write(&library, "").unwrap();
        let words = [format!("-L{}", folder.path().display()), "-l".to_owned(), "dev".to_owned(), "-lnone".to_owned()];
        assert_eq!(device_libraries(&words.map(|word| (None, word))), [library]);
    }
}
