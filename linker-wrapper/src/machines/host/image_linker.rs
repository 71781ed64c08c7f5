//! Links device code for the host's own kind of processor (OpenMP on the host's own processor): the host linker links it to a shared library, with
//! the libraries of the host link.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use offload_bundle::host_object::{self, FileKind};

use crate::cli::words;
use crate::diag::error::Errors;
use crate::machines::llvm_programs;
use crate::sys::mapped_file::Mapped;
use crate::sys::process::{self, Mode};

/// Flags of the host's command line that apply to the libraries of the image too. Not `-Bstatic`: a second copy of a runtime
/// library inside the image would run without its constructors. Not `--whole-archive`, which is meant for host code.
const SWITCHES: [&str; 8] =
    ["--as-needed", "--no-as-needed", "--start-group", "--end-group", "-(", "-)", "--push-state", "--pop-state"];
/// Options of the host's command line that the link of the image needs too, with their values in the next word.
const WITH_VALUE: [&str; 9] =
    ["-m", "-L", "-l", "-rpath", "--rpath", "--sysroot", "--library-path", "--library", "-plugin"];
/// The same with the value in the same word.
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

/// Links the objects `inputs` to a shared library with the command line of [`line()`], and returns its bytes.
///
/// # Errors
/// The linker cannot be started, fails or does not finish; the error contains its messages.
pub fn link_shared(
    linker: &Path,
    target: &str,
    inputs: &[PathBuf],
    line: &[OsString],
    output: &Path,
    mode: Mode,
) -> Result<Vec<u8>, Errors> {
    process::show(mode, linker, line);
    llvm_programs::finish(linker, target, inputs, line, output, mode)
}

/// The linker's command line: start files, inputs, and the libraries of the host's command line.
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

/// The compiler's start file for shared libraries, from the folder of the one on the host's command line.
fn start_file(host_line: &[OsString], begins: &str, shared: &str) -> Option<OsString> {
    let named = |word: &&OsString| {
        let name = Path::new(word).file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(begins) && name.ends_with(".o")
    };
    let path = Path::new(host_line.iter().find(named)?).with_file_name(shared);
    path.is_file().then(|| path.into())
}

/// The libraries and the options that apply to them, in their order on the host's command line.
fn libraries(host_line: &[OsString]) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut words = host_line.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if WITH_VALUE.contains(&&*text) {
            kept.push(word.clone());
            kept.extend(words.next().cloned());
        } else if words::takes_next_word(word) {
            // The value is not a library even if it looks like one.
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
