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

/// The linkers that a name of this program stands for, best first; none: the name is our own, and any linker will do.
///
/// A driver that calls `ld.gold` has already decided what to say to it: gcc's LTO plugin is for GNU ld, gold and mold, and
/// lld rejects it.
pub fn linkers_named(program: &str) -> Vec<&str> {
    match program {
        "ld.fatlink" => Vec::new(),
        "ld.mold" => vec!["ld.mold", "mold"],
        name if name == "ld" || name.starts_with("ld.") => vec![name],
        // A linker for one platform, such as x86_64-linux-gnu-ld.
        name if name.ends_with("-ld") => vec![name, "ld"],
        _ => Vec::new(),
    }
}

fn file_name(word: &OsStr) -> String {
    Path::new(word).file_name().unwrap_or(word).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_11_16_a_linkers_name_stands_for_that_linker() {
        for (name, expected) in [
            ("ld", &["ld"][..]),
            ("ld.gold", &["ld.gold"]),
            ("ld.lld", &["ld.lld"]),
            ("ld.mold", &["ld.mold", "mold"]),
            ("x86_64-linux-gnu-ld", &["x86_64-linux-gnu-ld", "ld"]),
            ("ld.fatlink", &[]),
            ("fatlink", &[]),
            ("clang-linker-wrapper", &[]),
        ] {
            assert_eq!(linkers_named(name), expected, "{name}");
        }
    }
}
