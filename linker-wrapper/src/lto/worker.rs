//! Compiles one partition in a process of its own. A crash of LLVM there does not end the link, and all memory is freed when the
//! process ends.
//!
//! The link starts a copy of this program with a file that describes the job ([`CompileJob`]); the copy writes the PTX to files and
//! its result to standard output ([`Reply`]).

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Instant;

use llvm_passes::pipeline::NamedBitcode;
use llvm_passes::session::{Session, Warning};
use rustix::process::Signal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::diag::error::Errors;
use crate::lto::compile_job::CompileJob;
use crate::lto::error::Error;
use crate::sys::mapped_file::Mapped;
use crate::sys::process;
use crate::sys::temp_files;
use offload_bundle::ptx::DebugInfo;

/// The first argument of the copy; the file follows.
pub const FLAG: &str = "--compile-partition";

/// The result of a worker.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Reply {
    /// The texts of all errors; empty if the job succeeded.
    pub errors: Vec<String>,
    /// LLVM's text, if it ended with a fatal error. `errors` has it, too.
    #[serde(default)]
    pub fatal: Option<String>,
    /// LLVM's warnings.
    pub warnings: Vec<Warning>,
    /// The debug information in each emission, in order.
    pub debug_info: Vec<DebugInfo>,
    /// The size of each emission in bytes.
    pub sizes: Vec<u64>,
    /// Wall time of the job.
    pub seconds: f64,
    /// Peak memory of the process in bytes.
    pub peak: u64,
}

/// The failure of a worker.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The errors to report.
    pub errors: Errors,
    /// LLVM's text if it ended with a fatal error or crashed: there is a function that it cannot compile.
    pub llvm_reason: Option<String>,
}

impl<E: Into<Errors>> From<E> for Failure {
    fn from(errors: E) -> Self {
        Failure { errors: errors.into(), llvm_reason: None }
    }
}

/// Runs the job in a process of its own. `what` names it in errors: "the kernels a, b for sm_90".
///
/// # Errors
/// The errors that the worker reports, or how it ended.
pub fn compile(job: &CompileJob, spec: &Path, what: &str) -> Result<Reply, Failure> {
    run_copy(FLAG, job, spec, what)
}

/// Runs a copy of this program with a flag and a file that describes its task, and reads its reply.
///
/// # Errors
/// As [`compile`].
pub fn run_copy(flag: &str, task: &impl Serialize, spec: &Path, what: &str) -> Result<Reply, Failure> {
    let text = serde_json::to_vec(task).map_err(|source| Error::Describe { what: what.to_owned(), source })?;
    temp_files::write_file(spec, &text)?;
    let arguments = [OsString::from(flag), spec.into()];
    let output = process::capture(&process::itself(), &arguments)
        .map_err(|source| Error::WorkerStart { what: what.to_owned(), source })?;
    let reply: Reply = serde_json::from_slice(&output.stdout).map_err(|_| died(what, output.status, &output.stderr))?;
    if !reply.errors.is_empty() {
        return Err(Failure {
            errors: reply.errors.into_iter().map(Error::InWorker).collect(),
            llvm_reason: reply.fatal,
        });
    }
    if !output.status.success() {
        return Err(died(what, output.status, &output.stderr));
    }
    Ok(reply)
}

fn died(what: &str, status: ExitStatus, output: &[u8]) -> Failure {
    let output = String::from_utf8_lossy(output).trim().to_owned();
    let error = Error::WorkerDied { what: what.to_owned(), status, output };
    Failure {
        errors: error.into(),
        llvm_reason: is_crash(status).then(|| format!("it crashed ({})", process::ending(status))),
    }
}

/// Whether a process was killed by a signal that shows a defect in its code. Others, such as SIGKILL, have other causes.
fn is_crash(status: ExitStatus) -> bool {
    const DEFECTS: [Signal; 4] = [Signal::SEGV, Signal::BUS, Signal::ILL, Signal::FPE];
    status.signal().is_some_and(|signal| DEFECTS.iter().any(|defect| defect.as_raw() == signal))
}

/// Runs the job if this process was started as a worker, and returns the exit code.
pub fn run_if_requested(arguments: &[OsString]) -> Option<u8> {
    run_if_flagged(arguments, FLAG, run)
}

/// Runs a task of [`run_copy`] if this process was started with its flag, and returns the exit code.
pub fn run_if_flagged<T: DeserializeOwned>(
    arguments: &[OsString],
    flag: &str,
    run: impl FnOnce(&T) -> Result<Reply, Errors>,
) -> Option<u8> {
    let [_, given, file] = arguments else { return None };
    if given != flag {
        return None;
    }
    llvm_passes::on_fatal_error(give_up);
    llvm_passes::crash::prepare_for_mappings("fatlink", FLAG);
    let start = Instant::now();
    let mut reply = match read(Path::new(file)).and_then(|task| run(&task)) {
        Ok(reply) => reply,
        Err(errors) => Reply { errors: errors.messages(), ..Reply::default() },
    };
    reply.seconds = start.elapsed().as_secs_f64();
    reply.peak = peak_memory();
    print(&reply);
    Some(u8::from(!reply.errors.is_empty()))
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<T, Errors> {
    let text = std::fs::read(file).map_err(|source| Error::Read { file: file.to_owned(), source })?;
    Ok(serde_json::from_slice(&text).map_err(|source| Error::Description { file: file.to_owned(), source })?)
}

fn print(reply: &Reply) {
    // If this fails, the reader reports that the reply is missing.
    let _ = serde_json::to_writer(std::io::stdout().lock(), reply);
}

/// Replies in place of a worker that crashed.
pub fn reply_with_errors(errors: &Errors) {
    print(&Reply { errors: errors.messages(), ..Reply::default() });
}

/// Handles a fatal error of LLVM, such as "Cannot select".
#[expect(clippy::exit, reason = "LLVM does not return from its error handler")]
fn give_up(reason: &str) {
    let errors = vec![Error::GaveUp { reason: reason.to_owned() }.to_string()];
    print(&Reply { errors, fatal: Some(reason.to_owned()), ..Reply::default() });
    std::process::exit(1);
}

/// Returns the peak memory of this process in bytes (`VmHWM` in /proc/self/status), or 0 if it is unknown.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.map_or(0, |number| number << 10)
}

/// Initializes LLVM with its own options.
///
/// # Errors
/// LLVM rejects the options.
pub fn prepare_llvm(options: &[String]) -> Result<(), Errors> {
    llvm_passes::initialize();
    if !options.is_empty() && !llvm_passes::parse_llvm_options("fatlink", options) {
        return Err(Error::LlvmOptions.into());
    }
    Ok(())
}

/// Maps a file of the job.
///
/// # Errors
/// The file cannot be opened.
pub fn open(path: &Path) -> Result<Mapped, Errors> {
    Ok(Mapped::open(path).map_err(|source| Error::Read { file: path.to_owned(), source })?)
}

fn run(job: &CompileJob) -> Result<Reply, Errors> {
    prepare_llvm(&job.llvm_options)?;
    let content = open(&job.units)?;
    let libdevice = job.libdevice.as_deref().map(open).transpose()?;
    let libdevice = || Some(NamedBitcode { name: "libdevice", bitcode: libdevice.as_ref()?.bytes() });
    let session = Session::new();
    let mut reply = Reply::default();
    for (text, emission) in job.compile_units(&session, content.bytes(), &libdevice)?.iter().zip(&job.emissions) {
        reply.debug_info.push(DebugInfo::of(text));
        reply.sizes.push(text.len() as u64);
        temp_files::write_file(&emission.path, text)?;
    }
    reply.warnings = session.take_warnings();
    Ok(reply)
}
