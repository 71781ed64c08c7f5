//! The table of options. Parser, help, man page, shell completions and `--reproduce` read it.

mod cache;
mod debugging;
mod device;
mod flag;
mod general;
mod host;
mod image;
mod output;
mod reports;
mod resources;
mod tools;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

pub use device::split_triple;
pub use flag::{Flag, Form, Reproduced, Scope, Shape, Switches, Topic, Value};
pub use output::EMIT_CODE_OBJECT;

/// All options, in the order of the help.
pub static TOPICS: [Topic; 10] = [
    general::TOPIC,
    image::TOPIC,
    device::TOPIC,
    output::TOPIC,
    reports::TOPIC,
    cache::TOPIC,
    resources::TOPIC,
    tools::TOPIC,
    debugging::TOPIC,
    host::TOPIC,
];

pub fn all() -> impl Iterator<Item = &'static Flag> {
    TOPICS.iter().flat_map(|topic| topic.flags)
}

/// Whether a word is an option of this program itself, by every name.
pub fn is_own(word: &OsStr) -> bool {
    let bytes = word.as_bytes();
    all().filter(|flag| flag.scope == Scope::AnyName).flat_map(Flag::spellings).any(|(shape, spelling)| {
        if shape == Shape::Switch { bytes == spelling.as_bytes() } else { bytes.starts_with(spelling.as_bytes()) }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_options_have_a_spelling_in_common() {
        let mut known = BTreeSet::new();
        for (_, spelling) in all().flat_map(Flag::spellings) {
            assert!(known.insert(spelling) && spelling.starts_with('-'), "{spelling}");
        }
    }

    #[test]
    fn values_that_follow_in_the_same_word_come_behind_an_equals_sign() {
        for (shape, spelling) in all().flat_map(Flag::spellings) {
            assert_eq!(shape == Shape::Joined, spelling.ends_with('='), "{spelling}");
        }
    }
}
