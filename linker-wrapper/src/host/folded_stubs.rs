//! Kernels whose host code is equal. A linker that folds equal code (`--icf=`) gives their stubs one address, and a launch of one kernel runs
//! another: the runtimes find kernels by the addresses of their stubs.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::Path;

use offload_bundle::host_object::{self, FileKind, LinkedEntry, host_symbols};

use crate::diag::error::Errors;
use crate::host::error::{Error, damaged};
use crate::host::input_files::InputFiles;
use crate::host::linker_kind::{self, LinkerKind};
use crate::sys;
use crate::sys::mapped_file::Mapped;
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

/// Checks that no two kernels of a linked program have one address.
///
/// # Errors
/// They have. A program that cannot be read.
pub fn check(output: &Path) -> Result<(), Errors> {
    let program = Mapped::open(output).map_err(|source| sys::error::Error::Read { path: output.to_owned(), source })?;
    let name = output.display().to_string();
    let entries = host_object::linked_entries(program.bytes()).map_err(|error| damaged(&name, 0, &error))?;
    match one_address(&entries) {
        Some((first, second)) => {
            Err(Error::FoldedStubs { output: output.to_owned(), first: first.to_owned(), second: second.to_owned() }
                .into())
        }
        None => Ok(()),
    }
}

/// Two kernels at one address.
fn one_address(entries: &[LinkedEntry]) -> Option<(&str, &str)> {
    let mut names: HashMap<u64, &str> = HashMap::new();
    let kernels = entries.iter().filter(|linked| linked.entry.size == 0);
    kernels.filter_map(|kernel| Some((kernel.address?, kernel.entry.name.as_str()))).find_map(|(address, name)| {
        let first = *names.entry(address).or_insert(name);
        (first != name).then_some((first, name))
    })
}

#[cfg(test)]
mod tests {
    use offload_bundle::host_object::{EntryForm, HostEntry};
    use offload_bundle::offload_binary::OffloadKinds;

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

    #[test]
    fn kernels_at_one_address() {
        let entry = |name: &str, size, address| LinkedEntry {
            entry: HostEntry {
                name: name.to_owned(),
                kinds: OffloadKinds::CUDA,
                flags: 0,
                size,
                data: 0,
                form: EntryForm::Current,
            },
            address,
        };
        let (a, b) = (|address| entry("a", 0, address), |address| entry("b", 0, address));
        assert_eq!(one_address(&[a(Some(1)), b(Some(1))]), Some(("a", "b")));
        // The units of a template, a variable, and entries whose address the loader finds.
        assert_eq!(one_address(&[a(Some(1)), a(Some(1)), b(Some(2)), entry("v", 4, Some(1))]), None);
        assert_eq!(one_address(&[a(None), b(None)]), None);
    }
}
