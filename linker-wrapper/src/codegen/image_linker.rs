//! Device code of the host's own kind (OpenMP on x86-64): a shared image, made by the host's linker with the
//! libraries of the host link.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use offload_bundle::host_object::{self, FileKind};

use crate::cli::parse;
use crate::diag::error::Errors;
use crate::diag::messages;
use crate::sys::mapped_file::Mapped;
use crate::sys::process::{self, Mode};

/// Switches of the host line that hold for the image's libraries too. Not `-Bstatic`: a second copy of a
/// runtime library inside the image would start without its constructors. Not `--whole-archive`: it is meant
/// for the host code.
const SWITCHES: [&str; 8] =
    ["--as-needed", "--no-as-needed", "--start-group", "--end-group", "-(", "-)", "--push-state", "--pop-state"];
/// Options of the host line that the image's link needs too, with their values.
const WITH_VALUE: [&str; 9] =
    ["-m", "-L", "-l", "-rpath", "--rpath", "--sysroot", "--library-path", "--library", "-plugin"];
/// The same, value in the same word.
const JOINED: [&str; 11] = [
    "-L",
    "-l",
    "-rpath=",
    "--rpath=",
    "--sysroot=",
    "--library-path=",
    "--library=",
    "-plugin-opt=",
    "--hash-style=",
    "--build-id",
    "--eh-frame-hdr",
];

/// Links the objects `inputs` into a shared image, by the words of [`line()`], and returns its bytes.
///
/// # Errors
/// The linker cannot be started, fails or does not end; its own words are in the message.
pub fn link_shared(
    linker: &Path,
    target: &str,
    inputs: &[PathBuf],
    line: &[OsString],
    output: &Path,
    mode: Mode,
) -> Result<Vec<u8>, Errors> {
    process::show(mode, linker, line);
    if mode.dry {
        return Ok(Vec::new());
    }
    let program = linker.display();
    let limit = process::limit(inputs);
    let captured = process::capture_within(linker, line, limit);
    let (result, late) = captured.map_err(|error| Errors::one(format_args!("cannot run {program}: {error}")))?;
    if late {
        return Err(Errors::one(format_args!(
            "{program} did not finish the device image of {target} within {} s, where milliseconds are usual: one of the \
             objects is damaged; rebuild them",
            limit.as_secs()
        )));
    }
    let words = String::from_utf8_lossy(&result.stderr).trim().to_owned();
    if !result.status.success() {
        let failure = process::failure(linker, &format!("the device image of {target}"), result.status, &words);
        return Err(Errors::one(failure));
    }
    if !words.is_empty() {
        messages::show(words);
    }
    std::fs::read(output).map_err(|error| Errors::one(format_args!("{program} left no image for {target}: {error}")))
}

/// The linker's words: start files, inputs, and the libraries of the host line.
pub fn line(inputs: &[PathBuf], output: &Path, host_line: &[OsString], arguments: &[String]) -> Vec<OsString> {
    let mut line: Vec<OsString> = vec!["-shared".into(), "-o".into(), output.into()];
    let crt = |name: &str, shared: &str| start_file(host_line, name, shared);
    line.extend(crt("crti.o", "crti.o"));
    line.extend(crt("crtbegin", "crtbeginS.o"));
    line.extend(["-Bsymbolic".into(), "--no-undefined".into()]);
    line.extend(inputs.iter().map(|path| path.clone().into_os_string()));
    line.extend(libraries(host_line));
    line.extend(arguments.iter().map(OsString::from));
    line.extend(crt("crtend", "crtendS.o"));
    line.extend(crt("crtn.o", "crtn.o"));
    line
}

/// The compiler's start file for shared objects that stands beside the host line's file of that kind.
fn start_file(host_line: &[OsString], begins: &str, shared: &str) -> Option<OsString> {
    let named = |word: &&OsString| {
        let name = Path::new(word).file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(begins) && name.ends_with(".o")
    };
    let path = Path::new(host_line.iter().find(named)?).with_file_name(shared);
    path.is_file().then(|| path.into())
}

/// Libraries and what steers them, in the order of the host line.
fn libraries(host_line: &[OsString]) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut words = host_line.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if WITH_VALUE.contains(&&*text) {
            kept.push(word.clone());
            kept.extend(words.next().cloned());
        } else if parse::takes_next_word(word) {
            // Its value is no library, whatever it looks like.
            words.next();
        } else if SWITCHES.contains(&&*text) || JOINED.iter().any(|prefix| text.starts_with(prefix)) || is_library(word)
        {
            kept.push(word.clone());
        }
    }
    kept
}

fn is_library(word: &OsStr) -> bool {
    let path = Path::new(word);
    let kind = || Mapped::open(path).map(|content| host_object::file_kind(content.bytes()));
    !word.to_string_lossy().starts_with('-')
        && matches!(kind(), Ok(FileKind::Archive | FileKind::ThinArchive | FileKind::ElfShared))
}
