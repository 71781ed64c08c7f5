//! Help and version.

use crate::cli::flags::flag::{Flag, Scope, Topic, assign};
use crate::cli::options::Help;

pub const TOPIC: Topic = Topic {
    title: "Help",
    flags: &[
        Flag::switch(&["--help"], "Display available options (--help-hidden for more)", |options, _| {
            assign(&mut options.help, Help::Options)
        })
        .of(Scope::OwnNames),
        Flag::switch(&["--help-hidden"], "", |options, _| assign(&mut options.help, Help::Hidden)).of(Scope::OwnNames),
        // For the shell completions and the man page.
        Flag::switch(&["--help-table"], "", |options, _| assign(&mut options.help, Help::Table))
            .of(Scope::OwnNames)
            .unlisted(),
        Flag::switch(&["--version", "-version"], "Display the version number and exit", |options, _| {
            assign(&mut options.version, true)
        })
        .of(Scope::OwnNames),
    ],
};
