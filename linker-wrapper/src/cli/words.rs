//! Splits a command line into options with their values, and other words, by the table in [`crate::cli::flags`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::slice;

use crate::cli::flags::Shape::{Flag, Joined, JoinedOrSeparate, Separate};
use crate::cli::flags::{ALWAYS, HOST, Meaning, Row, WRAPPER};
use crate::cli::mistyped;
use crate::cli::persona::Persona;

/// A word of a command line, or an option and the word with its value.
pub enum Word<'l> {
    /// An option of the table. A flag has no value, nor has an option whose value is missing.
    Option {
        /// The first of its words.
        word: &'l OsStr,
        /// Its row.
        found: Found,
        /// Its value.
        value: Option<OsString>,
    },
    /// An input, or an option of the host linker that the table does not have.
    Plain(&'l OsStr),
}

/// Splits a command line without `argv[0]` whose response files are expanded.
pub fn split(words: &[OsString], persona: Persona) -> impl Iterator<Item = Word<'_>> {
    let mut rest = words.iter();
    std::iter::from_fn(move || {
        let word = rest.next()?;
        let Some(found) = find(word, persona) else { return Some(Word::Plain(word)) };
        let value = match &found.joined {
            Some(value) => Some(value.clone()),
            None if found.row.1 == Flag => None,
            None => rest.next().cloned(),
        };
        let value = value.map(|value| with_split_targets(value, found.row.2, &mut rest));
        Some(Word::Option { word, found, value })
    })
}

/// Adds the arguments that clang made of the rest of a list of targets.
fn with_split_targets(mut value: OsString, meaning: Meaning, rest: &mut slice::Iter<'_, OsString>) -> OsString {
    while let Some(word) = rest.as_slice().first().filter(|word| mistyped::continues(meaning, word)) {
        value.push(",");
        value.push(word);
        rest.next();
    }
    value
}

/// A row that an argument matches.
pub struct Found {
    pub row: &'static Row,
    /// The spelling that the argument has.
    pub spelling: &'static str,
    /// The value, if it is part of the same argument.
    pub joined: Option<OsString>,
}

/// Finds the row with the longest spelling that the argument begins with, so that `--library=` takes precedence over `-l`.
fn find(word: &OsStr, persona: Persona) -> Option<Found> {
    let bytes = word.as_bytes();
    let tables: &[&[Row]] = match persona {
        Persona::Wrapper => &[WRAPPER, ALWAYS, HOST],
        Persona::Linker => &[ALWAYS, HOST],
    };
    let rows = tables.iter().flat_map(|table| table.iter());
    let matching = rows.flat_map(|row| row.0.iter().map(move |spelling| (row, *spelling))).filter(|(row, spelling)| {
        let exact = bytes == spelling.as_bytes();
        match row.1 {
            Flag | Separate => exact,
            Joined => bytes.starts_with(spelling.as_bytes()),
            JoinedOrSeparate => bytes.starts_with(spelling.as_bytes()) && !is_long_word(bytes, spelling),
        }
    });
    let (row, spelling) = matching.max_by_key(|(_, spelling)| spelling.len())?;
    let behind = &bytes[spelling.len()..];
    let joined = match row.1 {
        Joined => Some(behind),
        JoinedOrSeparate if !behind.is_empty() => Some(behind),
        _ => None,
    };
    Some(Found { row, spelling, joined: joined.map(|value| OsString::from_vec(value.to_vec())) })
}

/// Whether the next argument is the value of this one.
pub fn takes_next_word(word: &OsStr) -> bool {
    find(word, Persona::Linker).is_some_and(|found| found.row.1 != Flag && found.joined.is_none())
}

/// Linkers accept long options with a single dash, so `-omagic` does not name an output.
fn is_long_word(word: &[u8], spelling: &str) -> bool {
    const LONG: [&str; 2] = ["-omagic", "-oformat"];
    spelling == "-o" && LONG.iter().any(|long| word == long.as_bytes())
}
