//! Reports a crash from a fresh copy of this program. The copy replaces the process after LLVM crashed, a mapped file was
//! truncated, or memory ran out.
//!
//! It prints the error and removes the files that the link left behind. See `llvm_passes::crash`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use llvm_passes::crash::{GENERATING, NO_MEMORY, OPTIMIZING, OTHER_LIBRARY, REPORT_FLAG, UNREADABLE_MAPPING};
use rustix::process::{Pid, Signal, kill_process};

use crate::cli::persona;
use crate::diag::error::Errors;
use crate::diag::messages;
use crate::lto::worker;
use crate::sys::{process, temp_files};

/// Why a link ended early.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("LLVM cannot compile this device code: {reason}")]
    GaveUp { reason: String },
    #[error("{file} was truncated during the link, or its disk failed; link again when nothing writes to it")]
    Truncated { file: String },
    #[error(
        "the memory has run out{during}; raise the limit (ulimit -v, or that of a container), or let fewer jobs run at a time \
         with --wrapper-jobs= or --offload-memory="
    )]
    OutOfMemory { during: String },
    #[error("fatlink crashed (signal {signal}); this is a defect of fatlink: report it with the files of this link")]
    Fatlink { signal: String },
    #[error(
        "a crash (signal {signal}) while {activity}; if no input is damaged, this is a defect of that library: \
         choose another --offload-backend"
    )]
    Library { signal: String, activity: String },
    #[error(
        "LLVM crashed (signal {signal}) while {activity}; if the file is not damaged, this is a defect of LLVM: \
         try another -O level, and report it with the files that --save-temps keeps"
    )]
    Llvm { signal: String, activity: String },
}

/// Links a command line again, and returns the error that names the function that LLVM cannot compile.
type Diagnose<'a> = &'a dyn Fn(&[OsString]) -> Option<Errors>;

/// Returns the report on a crash, if this process was started to write it.
pub fn report_if_requested(arguments: &[OsString], diagnose: Diagnose<'_>) -> Option<Errors> {
    let [_, flag, signal, activity, folder, output, line @ ..] = arguments else { return None };
    if flag != REPORT_FLAG {
        return None;
    }
    end_children();
    let (signal, activity) = (signal.to_string_lossy(), activity.to_string_lossy());
    let errors = error(signal.trim_start_matches('0'), &activity).into();
    if folder == worker::FLAG {
        worker::reply_with_errors(&errors);
        return Some(Errors::default());
    }
    temp_files::remove_leftovers_of_crashed_link(Path::new(folder), Path::new(output));
    Some(diagnosis(&signal, &activity, line, diagnose).unwrap_or(errors))
}

/// Links the command line again if LLVM could not compile its code, and returns the error that names the function.
fn diagnosis(signal: &str, activity: &str, line: &[OsString], diagnose: Diagnose<'_>) -> Option<Errors> {
    let compiles = [GAVE_UP, OPTIMIZING, GENERATING].iter().any(|what| activity.starts_with(what));
    // LLVM aborts when memory runs out; it would run out again.
    if !compiles || line.is_empty() || [ABORTED, NO_MEMORY].contains(&signal) {
        return None;
    }
    diagnose(line)
}

/// Prefix of the activity where LLVM reported a fatal error; LLVM's message follows.
const GAVE_UP: &str = "gave up: ";

/// SIGABRT, as the signal handler writes it.
const ABORTED: &str = "06";

/// The command line that a copy of this process repeats after a fatal error. LLVM passes its handler nothing but the reason.
static REPEATED: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets what happens when LLVM gives up, as with "Cannot select": a copy of this process repeats the command line and looks for the
/// function that LLVM cannot compile. Without a line, the error is printed.
pub fn on_fatal_error(line: Option<&[OsString]>) {
    if let Some(line) = line {
        // A process runs one link.
        let _ = REPEATED.set(line.to_vec());
    }
    llvm_passes::on_fatal_error(end_with_fatal_error);
}

/// Handles a fatal error of LLVM: removes the temporary files, and lets the copy report the error, or prints it.
#[expect(clippy::exit, reason = "LLVM does not return from its error handler")]
fn end_with_fatal_error(reason: &str) {
    if let Some(line) = REPEATED.get() {
        temp_files::clean_up();
        restart(line, reason);
    }
    messages::print_errors("fatlink", &Error::GaveUp { reason: reason.to_owned() }.into());
    temp_files::clean_up();
    std::process::exit(1);
}

/// Replaces this process by a fresh copy that looks for the function that LLVM cannot compile. Returns only if the copy
/// cannot be started.
fn restart(line: &[OsString], reason: &str) {
    // An argument cannot hold a NUL.
    let activity = format!("{GAVE_UP}{}", reason.replace('\0', ""));
    let mut copy = Command::new(process::itself());
    copy.arg0(persona::program_name(line)).args([REPORT_FLAG, "00", &activity, "", ""]).args(line);
    let _ = copy.exec();
}

fn error(signal: &str, activity: &str) -> Error {
    if let Some(reason) = activity.strip_prefix(GAVE_UP) {
        return Error::GaveUp { reason: reason.to_owned() };
    }
    if let Some(file) = activity.strip_prefix(UNREADABLE_MAPPING) {
        return Error::Truncated { file: file.to_owned() };
    }
    let of_library = activity.strip_prefix(OTHER_LIBRARY);
    if signal == NO_MEMORY {
        let activity = of_library.unwrap_or(activity);
        let during = if activity.is_empty() { String::new() } else { format!(" while {activity}") };
        return Error::OutOfMemory { during };
    }
    let signal = signal.to_owned();
    match of_library {
        _ if activity.is_empty() => Error::Fatlink { signal },
        Some(activity) => Error::Library { signal, activity: activity.to_owned() },
        None => Error::Llvm { signal, activity: activity.to_owned() },
    }
}

/// Ends the tools that the crashed link started; they are still children of this process.
fn end_children() {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    for list in lists {
        for pid in list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}
