//! Kernels whose host code is equal. A linker that folds equal code (`--icf=`) gives their stubs one address, and a launch of one kernel runs
//! another: the runtimes find kernels by the addresses of their stubs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use offload_bundle::host_object::{FileKind, host_symbols};

use crate::diag::error::Errors;
use crate::host::error::damaged;
use crate::host::input_files::InputFiles;
use crate::host::linker_kind::{self, LinkerKind};
use crate::sys::process::Mode;

/// A part of the names of clang's stubs.
const STUB: &[u8] = b"__device_stub__";

/// Whether the linker may fold equal functions.
pub fn folds(line: &[OsString]) -> bool {
    let mut folds = false;
    for (index, word) in line.iter().enumerate() {
        let Some(word) = word.to_str() else { continue };
        let value = match word.trim_start_matches('-').split_once('=') {
            Some(("icf", value)) => value,
            None if matches!(word, "--icf" | "-icf") => {
                line.get(index + 1).and_then(|next| next.to_str()).unwrap_or("")
            }
            None if matches!(word, "--no-icf" | "-no-icf") => "none",
            _ => continue,
        };
        folds = value != "none";
    }
    folds
}

/// Options with which the linker keeps stubs apart, as far as it has one and can name them: not those of static kernels. `others` are names
/// of kernels that other compilers use for stubs.
///
/// # Errors
/// Damaged symbol tables.
pub fn keeping_apart(
    linker: &Path,
    mode: Mode,
    inputs: &InputFiles,
    linked: &[bool],
    others: BTreeSet<String>,
) -> Result<Vec<OsString>, Errors> {
    if !matches!(linker_kind::of(linker, mode), LinkerKind::Lld | LinkerKind::Gold) {
        return Ok(Vec::new());
    }
    let mut stubs = others;
    let objects =
        inputs.files().iter().zip(linked).filter(|(file, linked)| **linked && file.kind == FileKind::ElfRelocatable);
    for (file, _) in objects {
        let symbols = host_symbols(inputs.bytes(file), false);
        let symbols = symbols.map_err(|error| damaged(&file.name, file.base(), &error))?;
        let names = symbols.iter().filter(|symbol| symbol.defined && is_stub(symbol.name));
        stubs.extend(names.map(|symbol| String::from_utf8_lossy(symbol.name).into_owned()));
    }
    Ok(stubs.into_iter().map(|name| format!("--keep-unique={name}").into()).collect())
}

fn is_stub(name: &[u8]) -> bool {
    name.windows(STUB.len()).any(|part| part == STUB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_fold() {
        for (line, expected) in [
            (&["--icf=all"][..], true),
            (&["-icf=safe"], true),
            (&["--icf", "all"], true),
            (&["--icf=all", "--icf=none"], false),
            (&["--icf=all", "--no-icf"], false),
            (&["--print-icf-sections", "a.o"], false),
        ] {
            let words: Vec<OsString> = line.iter().map(OsString::from).collect();
            assert_eq!(folds(&words), expected, "{line:?}");
        }
    }
}
