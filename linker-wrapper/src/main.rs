//! fatlink: device linking for a host link, by the names `fatlink`, `clang-linker-wrapper`,
//! `ld.fatlink` and `ld`. [`link`] tells the story.
#![deny(clippy::print_stdout, clippy::print_stderr)] // messages.rs alone prints.

mod agreement;
mod arguments;
mod backend;
mod cache;
mod coff;
mod command;
mod crash_report;
mod cuda_image;
mod culprit;
mod dependency_file;
mod device_compiler;
mod device_files;
mod device_library;
mod device_link;
mod device_linker;
mod device_symbols;
mod error;
mod estimates;
mod fatbin_section;
mod fatbin_storage;
mod host_link;
mod host_object;
mod image_policy;
mod image_report;
mod images;
mod inputs;
mod jobs;
mod link;
mod linker_script;
mod lost_images;
mod mapped;
mod memory;
mod messages;
mod openmp;
mod option_table;
mod options;
mod override_image;
mod partition_job;
mod partitioned;
mod persona;
mod plan;
mod pool;
mod private_images;
mod progress;
mod recorder;
mod relocatable;
mod report;
mod results;
mod scratch;
mod select;
mod size;
mod stamp;
mod stats;
mod symbol_name;
mod threads;
mod toolchain;
mod trace;
mod warnings;
mod whole;
mod wishes;
mod worker;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: llvm_passes::out_of_memory::Allocator = llvm_passes::out_of_memory::Allocator;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if let Some(code) = worker::requested(&words).or_else(|| culprit::requested(&words)) {
        return ExitCode::from(code);
    }
    let outcome = crash_report::requested(&words).map_or_else(|| link::run(&words), Err);
    command::stand_still_if_ending();
    llvm_passes::crash::forget_stream_errors();
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(errors) => {
            errors.print(&persona::program_name(&words));
            ExitCode::FAILURE
        }
    }
}
