//! What an option is: everything that the program has to know about it.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::cli::error::Error;
use crate::cli::options::Options;
use crate::diag::error::Errors;

/// An option.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Its shape, and its spellings: help has the first.
    pub form: Form,
    /// Other forms, which only `--help-hidden` lists.
    pub also: &'static [Form],
    /// What help and errors call its value: words, and names in angle brackets, with `|` between alternatives. Shells
    /// complete the words, and paths for `<path>`, `<dir>` and `<file>`.
    pub value: &'static str,
    /// The help text; empty if only `--help-hidden` lists the option.
    pub help: &'static str,
    /// Whether any help lists it.
    pub listed: bool,
    /// Who accepts it.
    pub scope: Scope,
    /// Stores its value.
    pub apply: Apply,
    /// What `--reproduce` makes of it.
    pub reproduced: Reproduced,
    /// Whether a word continues the list that is its value: clang splits `-Wl,--offload-ptx=sm_80,sm_90` at its commas.
    pub continues: fn(&str) -> bool,
}

/// Stores the value of an option.
pub type Apply = fn(&mut Options, &Value<'_>) -> Result<(), Errors>;

/// Spellings of one shape.
#[derive(Debug, Clone, Copy)]
pub struct Form(pub Shape, pub &'static [&'static str]);

/// How an option takes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// It has none.
    Switch,
    /// In the same word, after the spelling.
    Joined,
    /// In the next word.
    Separate,
    /// Either.
    JoinedOrSeparate,
}

/// Who accepts an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The wrapper by its own names. For a linker's name, the option is the host linker's.
    OwnNames,
    /// The wrapper by every name. The host linker does not get the option.
    AnyName,
    /// The host linker. The option stays on its command line.
    HostLinker,
}

/// What `--reproduce` makes of an option.
#[derive(Debug, Clone, Copy)]
pub enum Reproduced {
    /// The same.
    Kept,
    /// This word.
    As(&'static str),
    /// Nothing: the link finds that by itself.
    Omitted,
    /// Nothing, and a note for the user: it depends on the machine.
    LeftOut,
    /// The file's name: links write it to their own folder.
    Written,
    /// `<form>:<file>` with the file's name.
    WrittenBehindForm,
    /// `<kind>=<file>` with the file in the archive.
    ReadBehindKind,
    /// The folder in the archive, unless it is one in the sysroot.
    Folder,
    /// An option of LLVM, which may name a file to write.
    LlvmOption,
    /// An argument of the device link, which may name a file or folder.
    DeviceArgument,
    /// What the host linker's option says.
    HostValue,
}

/// The value of an option in a command line. That of a switch is empty.
pub struct Value<'v> {
    pub word: &'v OsStr,
    /// `word`, as far as it is UTF-8.
    pub text: &'v str,
    /// How many words option and value are.
    pub words: usize,
    /// The linker's switches that apply to it.
    pub switches: Switches,
}

impl Value<'_> {
    pub fn path(&self) -> PathBuf {
        self.word.into()
    }
}

/// Switches of the linker that apply to the inputs after them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Switches {
    pub archive_only: bool,
    pub whole: bool,
}

impl Flag {
    /// An option without a value.
    pub const fn switch(spellings: &'static [&'static str], help: &'static str, apply: Apply) -> Self {
        Flag::valued(Shape::Switch, spellings, "", help, apply)
    }

    /// An option whose value follows in the same word.
    pub const fn joined(
        spellings: &'static [&'static str],
        value: &'static str,
        help: &'static str,
        apply: Apply,
    ) -> Self {
        Flag::valued(Shape::Joined, spellings, value, help, apply)
    }

    pub const fn valued(
        shape: Shape,
        spellings: &'static [&'static str],
        value: &'static str,
        help: &'static str,
        apply: Apply,
    ) -> Self {
        Flag {
            form: Form(shape, spellings),
            also: &[],
            value,
            help,
            listed: true,
            scope: Scope::AnyName,
            apply,
            reproduced: Reproduced::Kept,
            continues: |_| false,
        }
    }

    pub const fn also(self, also: &'static [Form]) -> Self {
        Flag { also, ..self }
    }

    pub const fn of(self, scope: Scope) -> Self {
        Flag { scope, ..self }
    }

    pub const fn reproduced(self, reproduced: Reproduced) -> Self {
        Flag { reproduced, ..self }
    }

    pub const fn listing(self, continues: fn(&str) -> bool) -> Self {
        Flag { continues, ..self }
    }

    pub const fn unlisted(self) -> Self {
        Flag { listed: false, ..self }
    }

    /// All forms.
    pub fn forms(&self) -> impl Iterator<Item = &Form> {
        std::iter::once(&self.form).chain(self.also)
    }

    /// All spellings with their shapes.
    pub fn spellings(&self) -> impl Iterator<Item = (Shape, &'static str)> {
        self.forms().flat_map(|Form(shape, spellings)| spellings.iter().map(|spelling| (*shape, *spelling)))
    }

    /// The words that its value can be.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        let is_word =
            |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        self.value.split(['|', ',', '[']).filter(is_word)
    }

    /// Whether its value can be a path.
    pub fn takes_path(&self) -> bool {
        ["<path>", "<dir>", "<file>"].iter().any(|place| self.value.contains(place))
    }
}

/// Options about one topic: a section of help.
pub struct Topic {
    pub title: &'static str,
    pub flags: &'static [Flag],
}

/// Stores the value of an option that not every text is.
pub fn set<P: From<T>, T>(place: &mut P, value: Result<T, Error>) -> Result<(), Errors> {
    *place = value?.into();
    Ok(())
}

/// Stores a value that cannot be wrong.
#[expect(clippy::unnecessary_wraps, reason = "what all options do has one type")]
pub fn assign<P: From<T>, T>(place: &mut P, value: T) -> Result<(), Errors> {
    *place = value.into();
    Ok(())
}

/// Adds to the values of an option that may be given several times.
#[expect(clippy::unnecessary_wraps, reason = "what all options do has one type")]
pub fn add<T>(place: &mut Vec<T>, values: impl IntoIterator<Item = T>) -> Result<(), Errors> {
    place.extend(values);
    Ok(())
}
