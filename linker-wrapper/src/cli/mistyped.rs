//! Finds options of this program that a user mistyped. Passed on to the host linker, they would end in an error that does not name the right
//! one, or in a link without them.

use std::ffi::OsStr;

use crate::cli::error::Error;
use crate::cli::flags::{self, Flag, Scope};

/// No host linker has options that begin like this.
const OWN: [&str; 3] = ["--offload-", "-offload-", "--wrapper-"];
/// The most letters that a mistyped option differs in.
const NEAR: usize = 2;
/// The least length of an option for such a comparison: short ones resemble those of host linkers.
const LONG: usize = 10;

/// The error of a word that is no option, but resembles one of this program.
pub fn error(word: &OsStr) -> Option<Error> {
    let text = word.to_str()?;
    let (name, value) = split(text);
    let is_own = OWN.iter().any(|prefix| name.starts_with(prefix));
    if !is_own && !name.starts_with("--") {
        return None;
    }
    let candidates = spellings(&[Scope::AnyName]).filter(|spelling| is_own || spelling.len() > LONG);
    match nearest(name, candidates) {
        Some((_, meant)) => Some(mistyped(text, meant, value)),
        None => is_own.then(|| Error::NoOption { option: text.to_owned() }),
    }
}

/// The error of a word of a line without inputs, which no driver writes. Options of host linkers that look like one of this program are not
/// expected there.
pub fn without_inputs(word: &OsStr) -> Option<Error> {
    let text = word.to_str().filter(|text| text.starts_with("--"))?;
    let (name, value) = split(text);
    let (far, meant) = nearest(name, spellings(&[Scope::OwnNames, Scope::AnyName]))?;
    (far > 0).then(|| mistyped(text, meant, value))
}

/// The spellings of the options in these scopes.
fn spellings(scopes: &[Scope]) -> impl Iterator<Item = &'static str> {
    let flags = flags::all().filter(|flag| scopes.contains(&flag.scope));
    flags.flat_map(Flag::spellings).map(|(_, spelling)| spelling)
}

/// An option's name and its value.
fn split(text: &str) -> (&str, Option<&str>) {
    text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)))
}

fn mistyped(text: &str, meant: &str, value: Option<&str>) -> Error {
    let value = value.filter(|_| meant.ends_with('=')).unwrap_or_default();
    Error::Mistyped { option: text.to_owned(), meant: format!("{meant}{value}") }
}

/// Returns the spelling that differs from a name in the fewest letters, and their number; `None` if all differ in too many. The `=` that
/// precedes a value does not count.
fn nearest(name: &str, spellings: impl Iterator<Item = &'static str>) -> Option<(usize, &'static str)> {
    let (length, letters) = (name.chars().count(), letters(name));
    let distance = |spelling: &'static str| {
        let word = spelling.trim_end_matches('=');
        // Most options of a line are the host linker's, and have other lengths and letters. A changed letter is one that goes and one that comes.
        let may_be_near =
            word.len().abs_diff(length) <= NEAR && (letters ^ self::letters(word)).count_ones() as usize <= 2 * NEAR;
        Some((may_be_near.then(|| strsim::osa_distance(name, word))?, spelling))
    };
    spellings.filter_map(distance).filter(|(far, _)| *far <= NEAR).min_by_key(|(far, _)| *far)
}

/// A bit for each letter that occurs, some of which share one.
fn letters(word: &str) -> u64 {
    word.chars().fold(0, |letters, letter| letters | 1 << (u32::from(letter) % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(word: &str) -> Option<String> {
        error(OsStr::new(word)).map(|error| error.to_string())
    }

    #[test]
    fn options_of_host_linkers_are_not_mistyped_ones() {
        for word in
            ["--library-path=x", "--compress-debug-sections=zlib", "--print-map", "--output=x", "-omagic", "--versions"]
        {
            assert_eq!(message(word), None, "{word}");
        }
    }

    #[test]
    fn the_nearest_option_is_named_with_the_value() {
        let meant = |word: &str, meant: &str| {
            let message = message(word).unwrap_or_default();
            assert!(message.ends_with(&format!("did you mean {meant}?")), "{message}");
        };
        meant("--offload-ptxx=all", "--offload-ptx=all");
        meant("--ptxas-pth=/bin/ptxas", "--ptxas-path=/bin/ptxas");
        meant("--wrapper-verbos", "--wrapper-verbose");
        assert!(message("--offload-everything").unwrap().contains("--help"));
    }

    #[test]
    fn without_inputs_short_options_are_found_too() {
        let meant = |word: &str| without_inputs(OsStr::new(word)).map(|error| error.to_string());
        assert_eq!(meant("--hlep").unwrap(), "there is no option --hlep; did you mean --help?");
        assert!(meant("--verison").unwrap().ends_with("did you mean --version?"));
        assert!(meant("--cuda-pth=a").unwrap().ends_with("did you mean --cuda-path=a?"));
        for word in [
            "--help",
            "--version",
            "--cuda-path=a",
            "--wrapper-jobs=2",
            "--verbose",
            "-v",
            "--print-output-format",
            "-h",
        ] {
            assert_eq!(meant(word), None, "{word}");
        }
    }
}
