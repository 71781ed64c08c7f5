//! Splits a command line into options with their values, and other words, by the table in [`crate::cli::flags`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::slice;

use crate::cli::flags::Shape::{Joined, JoinedOrSeparate, Separate, Switch};
use crate::cli::flags::{self, Flag, Form, Scope, Shape};
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
    // Plain loops: this runs for each option of every link, and a chain of iterators costs several times as much.
    let mut longest: Option<(&'static Flag, Shape, &'static str)> = None;
    for flag in flags::TOPICS.iter().flat_map(|topic| topic.flags) {
        for Form(shape, spellings) in std::iter::once(&flag.form).chain(flag.also) {
            for spelling in *spellings {
                let is_longer = longest.is_none_or(|(_, _, longest)| spelling.len() >= longest.len());
                if is_longer && matches(bytes, *shape, spelling) && is_accepted(flag, persona) {
                    longest = Some((flag, *shape, spelling));
                }
            }
        }
    }
    let (flag, shape, spelling) = longest?;
    let behind = &bytes[spelling.len()..];
    let is_joined = shape == Joined || shape == JoinedOrSeparate && !behind.is_empty();
    let joined = is_joined.then(|| OsString::from_vec(behind.to_vec()));
    Some(Found { flag, spelling, shape, joined })
}

fn is_accepted(flag: &Flag, persona: Persona) -> bool {
    persona == Persona::Wrapper || flag.scope != Scope::OwnNames
}

fn matches(word: &[u8], shape: Shape, spelling: &str) -> bool {
    // The last byte tells most spellings apart, which begin alike.
    let last = spelling.len() - 1;
    if word.get(last) != spelling.as_bytes().get(last) || !word.starts_with(spelling.as_bytes()) {
        return false;
    }
    match shape {
        Switch | Separate => word.len() == spelling.len(),
        Joined => true,
        JoinedOrSeparate => !is_long_word(word, spelling),
    }
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
