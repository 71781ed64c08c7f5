//! As whom we were called: the name decides who answers `--version` and what `-v` means.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The face that this program shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persona {
    /// `clang-linker-wrapper` or `fatlink`: the options of clang's wrapper, then a linker's line.
    Wrapper,
    /// `ld`, `ld.fatlink`: a linker, whose own options and answers are the real linker's.
    Linker,
}

/// Reads the face from `argv[0]`.
pub fn of(words: &[OsString]) -> Persona {
    let name = words.first().map_or_else(String::new, |word| file_name(word));
    if name == "ld" || name.starts_with("ld.") || name.ends_with("-ld") { Persona::Linker } else { Persona::Wrapper }
}

/// What messages begin with: the name by which we were called.
pub fn program_name(words: &[OsString]) -> String {
    words.first().map_or_else(|| "fatlink".to_owned(), |word| file_name(word))
}

fn file_name(word: &OsStr) -> String {
    Path::new(word).file_name().unwrap_or(word).to_string_lossy().into_owned()
}
