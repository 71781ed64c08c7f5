//! A process of its own for the code generation of one partition: LLVM may crash there without harm to the
//! link, and all its memory goes back at the end.
//!
//! The link starts a copy of this program with a file that says what to do ([`CompileJob`]); the copy writes PTX
//! and says on stdout how it went ([`Reply`]).

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

/// First argument of the copy; behind it the file.
pub const FLAG: &str = "--compile-partition";

/// How it went.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Reply {
    /// Empty: well.
    pub errors: Vec<String>,
    /// LLVM gave up for this reason, which is among the errors.
    #[serde(default)]
    pub fatal: Option<String>,
    /// What LLVM warns about.
    pub warnings: Vec<Warning>,
    /// What each emission carries for debuggers, in order.
    pub debug_info: Vec<DebugInfo>,
    /// Of each emission, in bytes.
    pub sizes: Vec<u64>,
    /// Wall time in the process.
    pub seconds: f64,
    /// The most memory that the process had, in bytes.
    pub peak: u64,
}

/// Why there is no result.
#[derive(Debug, Clone)]
pub struct Failure {
    /// For the user.
    pub errors: Errors,
    /// LLVM's own words, where it gave up or crashed: some function is too much for it.
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
/// What the worker says, or how it died.
pub fn compile(job: &CompileJob, spec: &Path, what: &str) -> Result<Reply, Failure> {
    run_copy(FLAG, job, spec, what)
}

/// Starts a copy of this program with a flag and a description of its task, and reads its answer.
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

/// Whether a process died by a signal that its own code raises; others are somebody else's.
fn is_crash(status: ExitStatus) -> bool {
    const OWN: [Signal; 4] = [Signal::SEGV, Signal::BUS, Signal::ILL, Signal::FPE];
    status.signal().is_some_and(|signal| OWN.iter().any(|own| own.as_raw() == signal))
}

/// Does the job, if that is what this process was started for. The exit code comes back.
pub fn run_if_requested(arguments: &[OsString]) -> Option<u8> {
    run_if_flagged(arguments, FLAG, run)
}

/// Answers [`run_copy`], if this process was started with its flag. The exit code comes back.
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
    // Should this fail, the reader sees that the answer is missing.
    let _ = serde_json::to_writer(std::io::stdout().lock(), reply);
}

/// Answers in the place of a worker that cannot any more.
pub fn reply_with_errors(errors: &Errors) {
    print(&Reply { errors: errors.messages(), ..Reply::default() });
}

/// LLVM cannot go on ("Cannot select", say).
#[expect(clippy::exit, reason = "LLVM does not return from its error handler")]
fn give_up(reason: &str) {
    let errors = vec![Error::GaveUp { reason: reason.to_owned() }.to_string()];
    print(&Reply { errors, fatal: Some(reason.to_owned()), ..Reply::default() });
    std::process::exit(1);
}

/// `VmHWM` of /proc/self/status, in bytes; 0: the system does not say.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.map_or(0, |number| number << 10)
}

/// Makes LLVM ready, with its own options.
///
/// # Errors
/// LLVM does not take the options.
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
/// Those of the file system.
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
