//! Parses the command line with the table in [`crate::cli::flags`].
//!
//! The wrapper's options are removed; everything else stays on the host linker's command line, in order and as spelled.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::cli::error::Error;
use crate::cli::flags::{Scope, Shape, Switches, Value};
use crate::cli::mistyped;
use crate::cli::options::{Input, Options};
use crate::cli::persona::Persona;
use crate::cli::referenced_symbols;
use crate::cli::words::{self, Found, Word};
use crate::diag::color;
use crate::diag::error::Errors;

/// Parses a command line without `argv[0]` whose response files are expanded.
///
/// # Errors
/// Every option with a bad or missing value.
pub fn parse(words: &[OsString], persona: Persona) -> Result<Options, Errors> {
    let mut parser = Parser {
        options: Options::default(),
        errors: Errors::default(),
        persona,
        switches: Switches::default(),
        pushed: Vec::new(),
        separated: false,
    };
    for word in words::split(words, persona) {
        match word {
            Word::Option { word, found, value } => parser.option(word, &found, value),
            Word::Plain(word) => parser.plain(word),
        }
    }
    if let (None, Some(argument)) = (&parser.options.distributor, parser.options.distributor_arguments.first()) {
        parser.errors.extend(Error::LoneDistributorArgument { argument: argument.into() });
    }
    parser.errors.or(parser.options)
}

struct Parser {
    options: Options,
    errors: Errors,
    persona: Persona,
    /// The state of `-Bstatic`, `--whole-archive` and their opposites at this point of the command line.
    switches: Switches,
    /// States saved by `--push-state`.
    pushed: Vec<Switches>,
    /// The `--` in front of the host linker's options was there.
    separated: bool,
}

impl Switches {
    /// Updates the state if the argument is a switch.
    fn switch(&mut self, word: &[u8], pushed: &mut Vec<Switches>) {
        let long = word.strip_prefix(b"-").unwrap_or(word);
        match long.strip_prefix(b"-").unwrap_or(long) {
            b"static" | b"Bstatic" | b"dn" | b"non_shared" => self.archive_only = true,
            b"Bdynamic" | b"dy" | b"call_shared" => self.archive_only = false,
            b"whole-archive" => self.whole = true,
            b"no-whole-archive" => self.whole = false,
            b"push-state" => pushed.push(*self),
            b"pop-state" => *self = pushed.pop().unwrap_or_default(),
            _ => {}
        }
    }
}

impl Parser {
    /// Handles an argument that is not in the table.
    fn plain(&mut self, word: &OsStr) {
        // Old releases of clang write it. For a host linker it is an error, or the end of all options.
        if word == "--" && self.persona == Persona::Wrapper && !self.separated {
            self.separated = true;
            return;
        }
        let is_option = word.as_bytes().starts_with(b"-") && word.len() > 1;
        if !is_option {
            self.options.inputs.push(Input::File { path: word.into(), whole: self.switches.whole });
        } else {
            if let Some(error) = mistyped::error(word) {
                self.errors.extend(error);
            }
            // The host linker follows it, too.
            if let Some(choice) = word.to_str().and_then(color::Choice::parse) {
                self.options.color = choice;
            }
            self.switches.switch(word.as_bytes(), &mut self.pushed);
            self.options.roots.extend(referenced_symbols::of_word(&word.to_string_lossy()));
        }
        if is_option && self.persona == Persona::Linker {
            self.options.linker_query |= matches!(word.as_bytes(), b"--version" | b"--help");
        }
        self.options.host_line.push(word.to_owned());
    }

    fn option(&mut self, word: &OsStr, found: &Found, value: Option<OsString>) {
        let is_switch = found.shape == Shape::Switch;
        let Some(value) = value.or(is_switch.then(OsString::new)) else {
            let expected = if found.flag.value.is_empty() { "<value>" } else { found.flag.value };
            self.errors.extend(Error::MissingValue { option: found.spelling, expected });
            return;
        };
        let words = if is_switch || found.joined.is_some() { 1 } else { 2 };
        let options = &mut self.options;
        if found.flag.scope == Scope::HostLinker {
            // clang's wrapper writes -L and -l for these, which GNU ld takes for -l with an odd name.
            let is_lld_spelling = self.persona == Persona::Wrapper && found.spelling.starts_with("-library");
            options.host_line.push(if is_lld_spelling { with_dash(word) } else { word.to_owned() });
            options.host_line.extend((words == 2).then(|| value.clone()));
        }
        let value = Value { word: &value, text: &value.to_string_lossy(), words, switches: self.switches };
        (found.flag.apply)(options, &value).unwrap_or_else(|errors| self.errors.extend(errors));
    }
}

fn with_dash(word: &OsStr) -> OsString {
    let mut long = OsString::from("-");
    long.push(word);
    long
}
