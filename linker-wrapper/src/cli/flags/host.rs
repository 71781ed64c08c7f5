//! Options of the host linker that matter to the device link. They stay on its command line.

use crate::cli::flags::flag::Shape::{Joined, JoinedOrSeparate, Separate};
use crate::cli::flags::flag::{Flag, Form, Reproduced, Scope, Switches, Topic, Value, add, assign};
use crate::cli::options::{Input, Options};
use crate::cli::referenced_symbols;
use crate::diag::error::Errors;

pub const TOPIC: Topic = Topic {
    title: "Options of the host linker that concern the device link, too",
    flags: &[
        Flag::joined(&["--sysroot="], "<dir>", "Root of -L=<dir>", |options, value| {
            assign(&mut options.sysroot, value.path())
        })
        .also(&[Form(Separate, &["--sysroot"])])
        .of(Scope::HostLinker)
        .reproduced(Reproduced::Folder),
        Flag::valued(JoinedOrSeparate, &["-o"], "<path>", "Output file", output)
            .also(&[Form(Joined, &["--output="]), Form(Separate, &["--output"])])
            .of(Scope::HostLinker)
            .reproduced(Reproduced::Written),
        Flag::valued(JoinedOrSeparate, &["-L"], "<dir>", "Folder to search for libraries", |options, value| {
            add(&mut options.library_paths, [value.path()])
        })
        .also(&[
            Form(Joined, &["--library-path=", "-library-path=", "--library-p=", "--library-pa=", "--library-pat="]),
            // GNU ld takes a beginning that no other option has.
            Form(Separate, &["--library-path", "-library-path", "--library-p", "--library-pa", "--library-pat"]),
        ])
        .of(Scope::HostLinker)
        .reproduced(Reproduced::Folder),
        Flag::valued(JoinedOrSeparate, &["-l"], "<name>", "Library to link", library)
            .also(&[Form(Joined, &["--library=", "-library="]), Form(Separate, &["--library", "-library"])])
            .of(Scope::HostLinker),
        Flag::switch(&["-r", "--relocatable", "-relocatable", "-i"], "Link to a relocatable object", |options, _| {
            assign(&mut options.relocatable, true)
        })
        .of(Scope::HostLinker),
        Flag::valued(Separate, ROOTS, "", "", |options, value| {
            add(&mut options.roots, referenced_symbols::of_value(value.text))
        })
        .of(Scope::HostLinker)
        .unlisted(),
        Flag::valued(Separate, VALUES, "", "", |_, _| Ok(()))
            .of(Scope::HostLinker)
            .reproduced(Reproduced::HostValue)
            .unlisted(),
    ],
};

/// Options that reference a symbol.
#[rustfmt::skip] // one spelling a line is a long list
const ROOTS: &[&str] = &[
    "-u", "--undefined", "-undefined", "--require-defined", "-require-defined", "--undefined-glob", "-undefined-glob", "-e", "--entry",
    "-entry", "-init", "--init", "-fini", "--fini", "--wrap", "-wrap", "--defsym", "-defsym", "--export-dynamic-symbol",
];

/// Options that take their value from the next argument, from the manuals of GNU ld and lld. It must not be mistaken for an input.
#[rustfmt::skip] // one spelling a line is a long list
const VALUES: &[&str] = &[
    "-m", "-z", "-T", "--script", "-h", "-soname", "--soname", "-y", "--trace-symbol", "-Map", "--Map",
    "-dynamic-linker", "--dynamic-linker", "-I", "-rpath", "--rpath", "-R", "-rpath-link", "--rpath-link",
    "-plugin", "--plugin", "-plugin-opt", "--plugin-opt", "-f", "--auxiliary", "-F", "--filter", "-A",
    "--architecture", "-b", "--format", "-c", "-G", "--gpsize", "-Y", "--oformat",
    "--version-script", "--dynamic-list", "--exclude-libs", "--retain-symbols-file",
    "--section-start", "-Ttext", "-Tdata", "-Tbss", "--dependency-file", "--just-symbols", "-a", "-P",
    "-assert",
];

fn output(options: &mut Options, value: &Value<'_>) -> Result<(), Errors> {
    options.insertion = options.host_line.len();
    options.inputs_before_output = options.inputs.len();
    options.output_words = value.words;
    assign(&mut options.output, value.path())
}

fn library(options: &mut Options, value: &Value<'_>) -> Result<(), Errors> {
    let Switches { archive_only, whole } = value.switches;
    add(&mut options.inputs, [Input::Library { name: value.text.to_owned(), archive_only, whole }])
}
