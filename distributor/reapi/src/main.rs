//! fatlink-reapi: runs the jobs of a link on a server of the Remote Execution API (version 2), such as Bazel's.
//!
//! All inputs, with the program, ptxas and the shared libraries that they load, are uploaded once; the server's action cache then knows the
//! results of jobs with the same inputs. Jobs without a result are left to the link, which runs them itself.
#![forbid(unsafe_code)]

mod arguments;
mod blobs;
mod cas;
mod connection;
mod error;
mod execution;
mod inputs;
mod libraries;
mod schedule;

use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use schedule::Outcome;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let outcome = runtime.map_err(error::Error::from).and_then(|runtime| {
        let outcome = runtime.block_on(schedule::run(&arguments));
        // Connections to a server that no longer answers must not delay the link.
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(Outcome { failures, summary }) => {
            if arguments.verbose {
                say(&summary);
            }
            failures.iter().for_each(|failure| say(failure));
            if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Prints a message; the link shows it if jobs are missing.
#[expect(clippy::print_stderr, reason = "the only place that prints")]
fn say(text: &str) {
    eprintln!("fatlink-reapi: {text}");
}
