//! Whether messages are coloured: by `--color-diagnostics`, else by `NO_COLOR` and `CLICOLOR_FORCE`, else on a terminal.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU8, Ordering};

/// Bold red, as clang and lld print errors.
pub const ERROR: &str = "\x1b[1;31m";
/// Bold magenta.
pub const WARNING: &str = "\x1b[1;35m";

/// What the command line says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Choice {
    /// Nothing, or `auto`.
    #[default]
    Auto,
    /// Coloured.
    Always,
    /// Not coloured.
    Never,
}

impl Choice {
    /// Reads `--color-diagnostics`, `--color-diagnostics=always` and the like, with one dash or two.
    pub fn parse(word: &str) -> Option<Self> {
        let long = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
        match long {
            "color-diagnostics" | "color-diagnostics=always" => Some(Choice::Always),
            "no-color-diagnostics" | "color-diagnostics=never" => Some(Choice::Never),
            "color-diagnostics=auto" => Some(Choice::Auto),
            _ => None,
        }
    }
}

static CHOICE: AtomicU8 = AtomicU8::new(Choice::Auto as u8);

/// Follows the command line from now on.
pub fn choose(choice: Choice) {
    CHOICE.store(choice as u8, Ordering::Relaxed);
}

/// Whether messages on standard error are coloured.
pub fn is_on() -> bool {
    let is = |choice: Choice| CHOICE.load(Ordering::Relaxed) == choice as u8;
    if !is(Choice::Auto) {
        return is(Choice::Always);
    }
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let forced = std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    !set("NO_COLOR") && (forced || (std::io::stderr().is_terminal() && !is_dumb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_linkers_are_read() {
        for (word, choice) in [
            ("--color-diagnostics", Some(Choice::Always)),
            ("-color-diagnostics=always", Some(Choice::Always)),
            ("--no-color-diagnostics", Some(Choice::Never)),
            ("--color-diagnostics=never", Some(Choice::Never)),
            ("--color-diagnostics=auto", Some(Choice::Auto)),
            ("--color-diagnostics=red", None),
            ("color-diagnostics", None),
        ] {
            assert_eq!(Choice::parse(word), choice, "{word}");
        }
    }
}
