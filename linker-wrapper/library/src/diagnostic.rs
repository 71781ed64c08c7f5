//! What a link says: messages with the places that they are about.

use std::fmt;

pub use fatlink_protocol::Severity;

/// A message of a link.
///
/// ```
/// # use fatlink::{Link, Linker};
/// let link = Link::new().file("/build/kernel.o");
/// if let Err(error) = Linker::at("/opt/fatlink/bin/fatlink").run(&link) {
///     for diagnostic in error.diagnostics() {
///         eprintln!("{diagnostic}");
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The whole text, of one line or more. It names the place, too.
    pub message: String,
    /// The input that it is about: the path or the name that the link got for it. `None` if it is about none, or about several of which
    /// none comes first.
    pub file: Option<String>,
    /// The member, if the input is an archive.
    pub member: Option<String>,
    /// The offset in the input in bytes, if it is about damage there.
    pub offset: Option<u64>,
}

impl fmt::Display for Diagnostic {
    /// `error: kernel.o: …`, as the program prints it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", word(self.severity), self.message)
    }
}

/// The severity as messages spell it.
pub(crate) fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

impl Diagnostic {
    pub(crate) fn error(message: String) -> Self {
        Diagnostic { severity: Severity::Error, message, file: None, member: None, offset: None }
    }

    /// The message with its place. `names` are the names of all inputs.
    pub(crate) fn of(severity: Severity, message: String, names: &[String]) -> Self {
        let place = Place::of(&message, names).unwrap_or_default();
        Diagnostic { severity, message, file: place.file, member: place.member, offset: place.offset }
    }
}

/// Where in the inputs a message points.
#[derive(Debug, Default, PartialEq, Eq)]
struct Place {
    file: Option<String>,
    member: Option<String>,
    offset: Option<u64>,
}

impl Place {
    /// Reads the first place in a message. The program writes each as `FILE`, `FILE(MEMBER)` or one of these with ` at offset 0x1f0` behind
    /// it.
    fn of(message: &str, names: &[String]) -> Option<Self> {
        let found = names.iter().filter_map(|name| Some((first(message, name)?, name)));
        // Of two names at one place the longer one is there.
        let (at, name) = found.min_by_key(|(at, name)| (*at, usize::MAX - name.len()))?;
        let rest = &message[at + name.len()..];
        let (member, rest) = match rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            Some((member, rest)) => (Some(member.to_owned()), rest),
            None => (None, rest),
        };
        Some(Place { file: Some(name.clone()), member, offset: offset(rest) })
    }
}

/// Where a name stands first as a word of its own.
fn first(message: &str, name: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || "_-./+".contains(c);
    let stands_alone = |at: &usize| {
        let (before, after) = (&message[..*at], &message[at + name.len()..]);
        // A full stop may end the sentence.
        !before.ends_with(is_part) && !after.trim_start_matches('.').starts_with(is_part)
    };
    if name.is_empty() {
        return None;
    }
    message.match_indices(name).map(|(at, _)| at).find(stands_alone)
}

fn offset(rest: &str) -> Option<u64> {
    let digits = rest.strip_prefix(" at offset 0x")?;
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(message: &str) -> (Option<String>, Option<String>, Option<u64>) {
        let names = ["a.o", "/lib/liba.o", "lib.a", "ü.o", ""].map(str::to_owned);
        let Place { file, member, offset } = Place::of(message, &names).unwrap_or_default();
        (file, member, offset)
    }

    #[test]
    fn places_are_read() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(place("a.o at offset 0x1f0: damaged"), (some("a.o"), None, Some(0x1f0)));
        assert_eq!(place("lib.a(x.o) at offset 0x8: damaged"), (some("lib.a"), some("x.o"), Some(8)));
        assert_eq!(place("undefined symbol f: referenced by ü.o"), (some("ü.o"), None, None));
        assert_eq!(place("/lib/liba.o: what"), (some("/lib/liba.o"), None, None));
    }

    #[test]
    fn a_part_of_a_name_is_no_place() {
        for message in ["aa.o: what", "a.oo", "dir/a.o: what", "a.o.bak is not read", "no file at all", "lib.a"] {
            let expected = if message == "lib.a" { Some("lib.a".to_owned()) } else { None };
            assert_eq!(place(message).0, expected, "{message}");
        }
    }

    #[test]
    fn offsets_that_are_too_large_or_missing_are_none() {
        for rest in [" at offset 0x: ", " at offset 0x11111111111111111", " at offset 12"] {
            assert_eq!(offset(rest), None, "{rest}");
        }
    }
}
