//! Shows the device code that objects, archives, executables and containers carry, and what becomes of it.
#![forbid(unsafe_code)]

mod annotate;
mod coverage;
mod list;
mod output;

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
    /// Tell what the CUDA driver will run on each GPU, and why
    ///
    /// Exit code: 0 if every fatbin runs (on the GPU given, else on at least one), 2 if one does not, 1 if the file cannot be read.
    Explain(coverage::ExplainArguments),
    /// Find faults of a fatbin before it ships
    ///
    /// Exit code: 0 without errors (warnings are printed), 2 with errors, 1 if the file cannot be read.
    Check(coverage::CheckArguments),
    /// Record in an object what the compiler was not told: which PTX the link is to put in
    Annotate(annotate::Arguments),
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
        Command::Explain(arguments) => coverage::explain(&arguments),
        Command::Check(arguments) => coverage::check(&arguments),
        Command::Annotate(arguments) => annotate::run(&arguments),
    };
    output::finish(result)
}
