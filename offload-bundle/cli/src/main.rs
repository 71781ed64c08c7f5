//! Shows the device code that objects, archives, executables and containers carry, and what becomes of it.
#![forbid(unsafe_code)]

mod annotate;
mod coverage;
mod create;
mod diff;
mod edit;
mod error;
mod expansion;
mod extract;
mod file_change;
mod files;
mod gate;
mod image_error;
mod input;
mod list;
mod load_modules;
mod names;
mod output;
mod packages;
mod pages;
mod recompress;
mod report;
mod reports;
mod resources;
mod response_file;
mod sarif;
mod strip;
mod wheel;
mod words;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use offload_bundle::printable;

use crate::error::{Error, Result};
use crate::output::CommandOutput;

/// Shows the device code that objects, archives, executables and containers carry, and what becomes of it.
///
/// `@FILE` stands for the words in that file, which are quoted as for a shell.
#[derive(Parser)]
#[command(name = "offload-bundle", version)]
struct CommandLine {
    /// Read files that grow to over 100 times their size when they are decompressed (and over 64 MiB), and single images and files in
    /// packages of over 4 GiB
    #[arg(long, global = true, display_order = 900)]
    allow_expansion: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the device images of a file, one per line
    List(list::ListArguments),
    /// Write device images of a file into files of their own, decompressed
    ///
    /// The options select images by the columns of `offload-bundle list`. An image is written if it matches all options given; of an
    /// option that is given several times, one value has to match.
    Extract(extract::ExtractArguments),
    /// Create a container of device images
    ///
    /// `--image=kind=KIND,arch=ARCH,file=FILE` adds an image. For a fatbin, KIND is cubin (or elf), ptx or ltoir (or nvvm), and ARCH is a
    /// target such as sm_90a; both can be omitted if the file itself records them. The kind reloc adds the relocatable PTX of an object of
    /// nvcc. For an offload binary, KIND is the programming model (cuda, openmp, hip, sycl), triple= names the target triple, other keys
    /// are recorded unchanged, and the file's extension determines the kind of image, as with llvm-offload-binary. The syntax of fatbinary
    /// and nvcc is accepted, too: `--image3=kind=elf,sm=90,file=FILE`, and `--gencode=arch=compute_90,code=sm_90,file=FILE`, where the code
    /// sm_90 stands for machine code, compute_90 for PTX and lto_90 for LTO-IR.
    Create(create::CreateArguments),
    /// Drop device images from a file without linking it again
    ///
    /// IMAGES is a target (sm_80), a kind (ptx, cubin, ltoir, bitcode), or both (ptx:sm_80); compute_80 is the PTX of sm_80. A target alone
    /// selects all of its images.
    ///
    /// In a program or shared library nothing moves in memory, so it runs as before; the freed space is removed from the file in whole
    /// pages. The result is read back before it replaces the file.
    ///
    /// `--for` drops what none of the GPUs needs, by the rules of `explain`: images that the driver takes there, and those that it links again,
    /// stay. `--equal` drops images whose code is there twice, for several targets: every GPU runs the same instructions as before. Both also
    /// rewrite wheels.
    Strip(strip::StripArguments),
    /// Store device images in another form: smaller, or so that older drivers read them
    ///
    /// In a program or shared library nothing moves in memory, so there is room only for fatbins that become smaller. In a wheel, RECORD gets
    /// the new hashes. The result is read back before it is put in place.
    Recompress(recompress::RecompressArguments),
    /// Compare the device images of two files
    ///
    /// Exit code: 0 if they are the same, 1 if not, 2 if a file cannot be read.
    ///
    /// Images are matched by archive member, target and kind. `-` marks an image that only the first file has, `+` one that only the
    /// second has, and `!` one that differs.
    ///
    /// `--within FILE sm_89 sm_86` compares the cubins for two targets in each fatbin of one file: their code, apart from what the compiler
    /// notes of itself.
    Diff(diff::DiffArguments),
    /// Show what each kernel needs, and what makes a cubin large
    ///
    /// For each cubin, prints how its bytes are divided, and a line for each kernel and each function with code of its own, the largest
    /// first. % is a function's share of the machine code. SPILLS are bytes stored and loaded by each thread. STACK includes the functions
    /// that are called.
    Resources(resources::ResourcesArguments),
    /// Load modules for `check --load`
    #[command(hide = true)]
    LoadModules(load_modules::LoadModulesArguments),
    /// Write man pages and shell completions
    #[command(hide = true)]
    GeneratePages(pages::PagesArguments),
    /// Show what the CUDA driver or HIP's runtime will run on each GPU, and why
    ///
    /// Exit code: 0 if every fatbin and bundle runs (on the GPU given, else on at least one), 2 if one does not, 1 if the file cannot be read.
    Explain(coverage::ExplainArguments),
    /// Find faults in a fatbin or HIP bundle before it ships
    ///
    /// Exit code: 0 without errors (warnings are printed), 2 with errors, 1 if the file cannot be read.
    ///
    /// With --gpus, judges whether all files run on each of these GPUs with each --driver, as one process that needs all of them: a matrix
    /// of GPUs and drivers. What does not run, is compiled by the driver (with --no-jit) or is not known is an error.
    Check(coverage::CheckArguments),
    /// Draw where the bytes are, what each GPU runs and what each kernel takes, as one HTML file
    ///
    /// The file needs no network. It has what `list`, `resources`, `explain` and `check` print. `--diff` shows what differs between two files.
    Report(report::ReportArguments),
    /// Record in a compiled object which PTX the link includes
    Annotate(annotate::AnnotateArguments),
}

impl Command {
    /// The exit code for an error. That of `diff` differs, since 1 reports a difference.
    fn failure_code(&self) -> u8 {
        if matches!(self, Command::Diff(_)) { 2 } else { 1 }
    }

    fn run(&self) -> Result<CommandOutput> {
        match self {
            Command::List(arguments) => list::run(arguments),
            Command::Extract(arguments) => extract::run(arguments),
            Command::Create(arguments) => create::run(arguments),
            Command::Strip(arguments) => strip::run(arguments),
            Command::Recompress(arguments) => recompress::run(arguments),
            Command::Diff(arguments) => diff::run(arguments),
            Command::Resources(arguments) => resources::run(arguments),
            Command::LoadModules(arguments) => load_modules::run(arguments),
            Command::GeneratePages(arguments) => {
                pages::run(arguments, CommandLine::command().disable_help_subcommand(true))
            }
            Command::Explain(arguments) => coverage::explain(arguments),
            Command::Check(arguments) => coverage::check(arguments),
            Command::Report(arguments) => report::run(arguments),
            Command::Annotate(arguments) => annotate::run(arguments),
        }
    }
}

fn main() -> ExitCode {
    let words = match response_file::expand(std::env::args_os()) {
        Ok(words) => words,
        Err(error) => {
            print_error(&error);
            return ExitCode::FAILURE;
        }
    };
    let (result, failure_code) = match CommandLine::try_parse_from(words) {
        Ok(CommandLine { allow_expansion, command }) => {
            if allow_expansion {
                expansion::allow();
            }
            (command.run().and_then(print_output), command.failure_code())
        }
        Err(usage) if usage.use_stderr() => {
            // Not clap's exit code 2, with which commands report on a file. An error of standard error cannot be reported.
            let _ = usage.print();
            return ExitCode::FAILURE;
        }
        Err(help_or_version) => (print_help(&help_or_version), 1),
    };
    ExitCode::from(result.unwrap_or_else(|error| {
        print_error(&error);
        failure_code
    }))
}

/// Prints the text of a command, and returns its exit code.
fn print_output(output: CommandOutput) -> Result<u8> {
    output::print(printable::lines(&output.text).as_bytes())?;
    Error::all(output.errors)?;
    Ok(output.exit_code)
}

/// Prints the help or the version, which clap returns as an error.
fn print_help(help: &clap::Error) -> Result<u8> {
    output::unless_closed(help.print().and_then(|()| std::io::stdout().flush()))?;
    Ok(0)
}

/// Prints an error, of which each line is one message.
fn print_error(error: &Error) {
    let text = error.to_string();
    let lines = printable::lines(&text);
    let text: String = lines.lines().map(|line| format!("offload-bundle: error: {line}\n")).collect();
    // An error of standard error cannot be reported.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
