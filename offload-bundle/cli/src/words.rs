//! Arguments that are one word of a list.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A word, what it stands for, and what the help says of it.
pub type Word<T> = (&'static str, T, &'static str);

/// The parser of an argument that is one of these words.
pub fn one_of<T: Copy + Send + Sync>(words: &'static [Word<T>]) -> impl TypedValueParser<Value = T> {
    let values = words.iter().map(|(word, _, help)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(values).try_map(|text| {
        let known = words.iter().find(|(word, ..)| *word == text);
        known.map(|(_, value, _)| *value).ok_or("not one of the words")
    })
}
