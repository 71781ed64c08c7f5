//! The names of this program: they decide which options are accepted, and whether `--version` and `-v` are the real linker's.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The interface that the program presents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persona {
    /// `clang-linker-wrapper` or `fatlink`: the options of clang's wrapper, then a linker's command line.
    Wrapper,
    /// `ld`, `ld.fatlink`: a linker. Options and queries are the real linker's.
    Linker,
}

/// Reads the interface from `argv[0]`.
pub fn of(words: &[OsString]) -> Persona {
    let name = words.first().map_or_else(String::new, |word| file_name(word));
    if name == "ld" || name.starts_with("ld.") || name.ends_with("-ld") { Persona::Linker } else { Persona::Wrapper }
}

/// The prefix of messages: the name that the program was started by.
pub fn program_name(words: &[OsString]) -> String {
    words.first().map_or_else(|| "fatlink".to_owned(), |word| file_name(word))
}

/// The linkers that a name of this program stands for, best first. None for fatlink's own names: any linker will do. A driver
/// that starts `ld.gold` passes options for that linker: gcc's LTO plugin works with GNU ld, gold and mold, and lld rejects
/// it.
pub fn linkers_named(program: &str) -> Vec<&str> {
    match program {
        "ld.fatlink" => Vec::new(),
        "ld.mold" => vec!["ld.mold", "mold"],
        name if name == "ld" || name.starts_with("ld.") => vec![name],
        // A linker for one target, such as x86_64-linux-gnu-ld.
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
    fn a_linkers_name_stands_for_that_linker() {
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
