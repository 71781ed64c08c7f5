//! Shows the device code that objects, archives, executables and containers carry, and what becomes of it.
#![forbid(unsafe_code)]

mod coverage;
mod create;
mod diff;
mod extract;
mod files;
mod list;
mod output;
mod resources;
mod strip;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Shows the device code that objects, archives, executables and containers carry, and what becomes of it.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the device images of a file, one a line
    List(list::Arguments),
    /// Write device images of a file into files of their own, decompressed
    Extract(extract::Arguments),
    /// Make a container of device images
    Create(create::Arguments),
    /// Drop device images from a file that is linked already
    Strip(strip::Arguments),
    /// Compare the device images of two files
    ///
    /// Exit code: 0 if they are the same, 1 if not, 2 if a file cannot be read.
    Diff(diff::Arguments),
    /// Tell what each kernel takes of a GPU, and what makes a cubin large
    Resources(resources::Arguments),
    /// Tell what the CUDA driver will run on each GPU, and why
    ///
    /// Exit code: 0 if every fatbin runs (on the GPU given, else on at least one), 2 if one does not, 1 if the file cannot be read.
    Explain(coverage::ExplainArguments),
    /// Find faults of a fatbin before it ships
    ///
    /// Exit code: 0 without errors (warnings are printed), 2 with errors, 1 if the file cannot be read.
    Check(coverage::CheckArguments),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(usage) => {
            // Not clap's own 2 for a wrong argument: that says something about a file.
            let _ = usage.print();
            return if usage.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    let result = match arguments.command {
        Command::List(arguments) => list::run(&arguments),
        Command::Extract(arguments) => extract::run(&arguments),
        Command::Create(arguments) => create::run(&arguments),
        Command::Strip(arguments) => strip::run(&arguments),
        Command::Diff(arguments) => return output::finish(diff::run(&arguments), 2),
        Command::Resources(arguments) => resources::run(&arguments),
        Command::Explain(arguments) => coverage::explain(&arguments),
        Command::Check(arguments) => coverage::check(&arguments),
    };
    output::finish(result, 1)
}
