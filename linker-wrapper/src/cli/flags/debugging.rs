//! What helps to debug a link.

use crate::cli::flags::flag::Shape::Separate;
use crate::cli::flags::flag::{Flag, Form, Reproduced, Topic, assign};

pub const TOPIC: Topic = Topic {
    title: "Debugging",
    flags: &[
        Flag::switch(&["--dry-run"], "Print what would be run, and run nothing", |options, _| {
            assign(&mut options.dry_run, true)
        }),
        Flag::joined(
            &["--reproduce=", "-reproduce="],
            "<file>.tar",
            "Write an archive of the inputs, the command line and the releases of the tools, to link them \
             again elsewhere",
            |options, value| assign(&mut options.reproduce, value.path()),
        )
        .also(&[Form(Separate, &["--reproduce", "-reproduce"])])
        .reproduced(Reproduced::Omitted),
        Flag::switch(&["--wrapper-verbose"], "Print the commands that are run, quoted for pasting", |options, _| {
            assign(&mut options.verbose, true)
        }),
        Flag::switch(&["--print-wrapped-module"], "Print the registration module's IR", |options, _| {
            assign(&mut options.print_wrapped_module, true)
        }),
        Flag::switch(&["--save-temps"], "Keep intermediate files beside the output", |options, _| {
            assign(&mut options.save_temps, true)
        }),
        Flag::joined(&["--save-temps="], "<dir>", "Keep intermediate files in this folder", |options, value| {
            options.save_temps = true;
            assign(&mut options.temps_folder, value.path())
        })
        .reproduced(Reproduced::Written),
    ],
};
