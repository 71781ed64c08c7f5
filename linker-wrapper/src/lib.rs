//! fatlink: the device link of a host link, under the names `fatlink`, `clang-linker-wrapper`, `ld.fatlink` and `ld`.
//! `link.rs` lists the phases of a link.
#![deny(clippy::print_stdout, clippy::print_stderr)] // only diag/messages.rs prints

mod cli;
mod compilers;
mod crash_report;
mod device;
mod diag;
mod host;
mod image;
mod kinds;
mod link;
mod lto;
mod machines;
mod nvcc_command;
mod plan;
mod profile;
mod reproduce;
mod served_link;
mod sys;
mod toolchain;

use std::ffi::OsString;
use std::process::ExitCode;

use cli::{nvcc_to_clang, persona};
use diag::messages;
use lto::distribution::run_action;
use lto::{culprit, run_job};
use sys::process;

#[global_allocator]
static ALLOCATOR: llvm_passes::out_of_memory::Allocator = llvm_passes::out_of_memory::Allocator;

/// Runs the program: a link, or the part of one that its arguments request of this copy.
pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(code) = run_job::run_if_requested(&arguments)
        .or_else(|| culprit::run_if_requested(&arguments))
        .or_else(|| run_action::run_if_requested(&arguments))
        .or_else(|| served_link::run_if_requested(&arguments, run_link))
    {
        return ExitCode::from(code);
    }
    ExitCode::from(run_link(&arguments))
}

/// Runs a link, prints its errors, and returns the exit code.
fn run_link(arguments: &[OsString]) -> u8 {
    let outcome = nvcc_to_clang::translate(arguments).and_then(|command| match command {
        Some(translated) => process::replace_by(&nvcc_command::of(translated)),
        None => crash_report::report_if_requested(arguments, &link::diagnose).map_or_else(|| link::run(arguments), Err),
    });
    process::stand_still_if_ending();
    llvm_passes::crash::forget_stream_errors();
    outcome.unwrap_or_else(|errors| {
        messages::print_errors(&persona::program_name(arguments), &errors);
        1
    })
}
