//! Splits a command line into options with their values, and other words, by the table in [`crate::cli::flags`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::slice;

use crate::cli::flags::Shape::{Joined, JoinedOrSeparate, Separate, Switch};
use crate::cli::flags::{self, Flag, Scope, Shape};
use crate::cli::persona::Persona;

/// A word of a command line, or an option and the word with its value.
pub enum Word<'l> {
    /// An option of the table. A switch has no value, nor has an option whose value is missing.
    Option {
        /// The first of its words.
        word: &'l OsStr,
        /// What it is.
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
            None if found.shape == Switch => None,
            None => rest.next().cloned(),
        };
        let value = value.map(|value| with_split_targets(value, found.flag, &mut rest));
        Some(Word::Option { word, found, value })
    })
}

/// Adds the arguments that clang made of the rest of a list of targets.
fn with_split_targets(mut value: OsString, flag: &Flag, rest: &mut slice::Iter<'_, OsString>) -> OsString {
    while let Some(word) = rest.as_slice().first().filter(|word| word.to_str().is_some_and(flag.continues)) {
        value.push(",");
        value.push(word);
        rest.next();
    }
    value
}

/// An option that an argument matches.
pub struct Found {
    pub flag: &'static Flag,
    /// The spelling that the argument has.
    pub spelling: &'static str,
    /// The shape of that.
    pub shape: Shape,
    /// The value, if it is part of the same argument.
    pub joined: Option<OsString>,
}

/// Finds the option with the longest spelling that the argument begins with, so that `--library=` takes precedence over `-l`.
fn find(word: &OsStr, persona: Persona) -> Option<Found> {
    let bytes = word.as_bytes();
    // Most words of a link are files.
    if !bytes.starts_with(b"-") {
        return None;
    }
    let accepted = flags::all().filter(|flag| persona == Persona::Wrapper || flag.scope != Scope::OwnNames);
    let spellings = accepted.flat_map(|flag| flag.spellings().map(move |(shape, spelling)| (flag, shape, spelling)));
    let matching = spellings.filter(|(_, shape, spelling)| match shape {
        Switch | Separate => bytes == spelling.as_bytes(),
        Joined => bytes.starts_with(spelling.as_bytes()),
        JoinedOrSeparate => bytes.starts_with(spelling.as_bytes()) && !is_long_word(bytes, spelling),
    });
    let (flag, shape, spelling) = matching.max_by_key(|(_, _, spelling)| spelling.len())?;
    let behind = &bytes[spelling.len()..];
    let is_joined = shape == Joined || shape == JoinedOrSeparate && !behind.is_empty();
    let joined = is_joined.then(|| OsString::from_vec(behind.to_vec()));
    Some(Found { flag, spelling, shape, joined })
}

/// Whether the next argument is the value of this one.
pub fn takes_next_word(word: &OsStr) -> bool {
    find(word, Persona::Linker).is_some_and(|found| found.shape != Switch && found.joined.is_none())
}

/// Linkers accept long options with a single dash, so `-omagic` does not name an output.
fn is_long_word(word: &[u8], spelling: &str) -> bool {
    const LONG: [&str; 2] = ["-omagic", "-oformat"];
    spelling == "-o" && LONG.iter().any(|long| word == long.as_bytes())
}
