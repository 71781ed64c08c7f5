//! Processes that run the jobs of a link. A crash of LLVM there does not end the link, and all memory is freed when the process
//! ends.
//!
//! The link starts a copy of this program with a file that describes the task, or lets the [`ForkServer`] fork one. The copy writes lines of
//! JSON ([`Line`]) to standard output: what the link has to know at once, and its result at the end. [`run_job`](crate::lto::run_job) is
//! what it does.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use llvm_passes::session::Message;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::diag::error::Errors;
use crate::diag::messages;
use crate::lto::compile_job::CompileJob;
use crate::lto::error::Error;
use crate::machines::job_code::Made;
use crate::profile::forwarding::{Boundary, Repeated};
use crate::profile::recorder::Recorder;
use crate::sys::fork_server::ForkServer;
use crate::sys::mapped_file::Mapped;
use crate::sys::process::{self, Ended};
use crate::sys::temp_files;

/// The first argument of the copy; the file follows.
pub const FLAG: &str = "--compile-partition";

/// The first argument of a copy that forks a process for each job; the name of the jobs' machine follows.
pub const SERVER_FLAG: &str = "--serve-partitions";

/// Named instead of a machine, it makes a server of any jobs.
const UNPREPARED: &str = "any";

/// One line of a worker's output.
#[derive(Debug, Serialize, Deserialize)]
pub enum Line {
    /// LLVM has emitted what tools read, and its memory is free again.
    Emitted(EmittedTexts),
    /// The worker is about to run this command, and commands are shown.
    Command(String),
    /// A span of the time trace begins or ends.
    Span(Boundary),
    /// The result, which is the last line.
    Done(Box<Reply>),
}

/// The texts that LLVM has emitted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct EmittedTexts {
    /// The size of each text that tools read, in bytes.
    pub sizes: Vec<u64>,
    /// Peak memory of the process so far, in bytes.
    pub peak: u64,
}

/// The result of a worker.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Reply {
    /// The texts of all errors; empty if the job succeeded.
    pub errors: Vec<String>,
    /// LLVM's text, if it ended with a fatal error. `errors` has it, too.
    #[serde(default)]
    pub fatal: Option<String>,
    /// LLVM's messages.
    pub messages: Vec<Message>,
    /// The reports of `-time-passes`.
    #[serde(default)]
    pub times: String,
    /// What LLVM has emitted.
    pub emitted: EmittedTexts,
    /// What was made of it.
    pub made: Made,
    /// What the code is cached under, if the link has a cache.
    #[serde(default)]
    pub code: Option<[u8; 32]>,
    /// Whether the cache has the result, so that nothing was compiled.
    #[serde(default)]
    pub is_cached: bool,
    /// Processor time of the worker and of its tools.
    #[serde(default)]
    pub cpu: Duration,
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

/// Runs the job in a process of its own, which the server forks if there is one. `what` names it in errors: "the kernels a, b for sm_90".
/// `emitted` is called when LLVM is done, before tools run.
///
/// # Errors
/// The errors that the worker reports, or how it ended.
pub fn compile(
    job: &CompileJob,
    spec: &Path,
    what: &str,
    server: Option<&ForkServer>,
    recorder: &Recorder,
    emitted: &mut dyn FnMut(&EmittedTexts),
) -> Result<Reply, Failure> {
    describe(job, spec, what)?;
    // LLVM's options may change what the code that a server compiles first leaves behind, so such jobs have a server that compiles nothing.
    let machine = if job.llvm_options.is_empty() { job.code.machine() } else { UNPREPARED };
    let server_arguments = [SERVER_FLAG, machine].map(OsString::from);
    let mut said = Said::default();
    let forked =
        server.and_then(|server| server.run(&server_arguments, spec.as_os_str(), &mut |line| said.hear(line, emitted)));
    match forked {
        Some(ended) => said.reply(ended, what, recorder),
        None => of_copy(FLAG, spec, what, recorder, emitted),
    }
}

/// Writes the description of a task to a file. `what` names it in errors.
///
/// # Errors
/// The file cannot be written.
pub fn describe(task: &impl Serialize, spec: &Path, what: &str) -> Result<(), Errors> {
    let text = serde_json::to_vec(task).map_err(|source| Error::Describe { what: what.to_owned(), source })?;
    temp_files::write_file(spec, &text)
}

/// Runs a copy of this program with a flag and a file that describes its task, and reads its lines.
///
/// # Errors
/// As [`compile`].
pub fn run_copy(
    flag: &str,
    task: &impl Serialize,
    spec: &Path,
    what: &str,
    recorder: &Recorder,
    emitted: &mut dyn FnMut(&EmittedTexts),
) -> Result<Reply, Failure> {
    describe(task, spec, what)?;
    of_copy(flag, spec, what, recorder, emitted)
}

fn of_copy(
    flag: &str,
    spec: &Path,
    what: &str,
    recorder: &Recorder,
    emitted: &mut dyn FnMut(&EmittedTexts),
) -> Result<Reply, Failure> {
    let arguments = [OsString::from(flag), spec.into()];
    let mut said = Said::default();
    let ended = process::capture_lines(&process::itself(), &arguments, &mut |line| said.hear(line, emitted))
        .map_err(|source| Error::WorkerStart { what: what.to_owned(), source })?;
    said.reply(ended, what, recorder)
}

/// What a worker has said so far.
#[derive(Default)]
struct Said {
    spans: Repeated,
    reply: Option<Reply>,
    is_unreadable: bool,
}

impl Said {
    fn hear(&mut self, line: &[u8], emitted: &mut dyn FnMut(&EmittedTexts)) {
        match serde_json::from_slice(line) {
            Ok(Line::Emitted(texts)) => emitted(&texts),
            Ok(Line::Command(command)) => messages::show(&command),
            Ok(Line::Span(boundary)) => self.spans.repeat(&boundary),
            Ok(Line::Done(result)) => self.reply = Some(*result),
            Err(_) => self.is_unreadable = true,
        }
    }

    /// The reply of a worker that has ended.
    fn reply(self, ended: Ended, what: &str, recorder: &Recorder) -> Result<Reply, Failure> {
        let reply = self.reply.filter(|_| !self.is_unreadable && ended.stdout.is_empty());
        let reply = reply.ok_or_else(|| died(what, ended.status, &ended.stderr))?;
        recorder.pass_times(&reply.times);
        if !reply.errors.is_empty() {
            return Err(Failure {
                errors: reply.errors.into_iter().map(Error::InWorker).collect(),
                llvm_reason: reply.fatal,
            });
        }
        if !ended.status.success() {
            return Err(died(what, ended.status, &ended.stderr));
        }
        Ok(reply)
    }
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
    // Nobody needs the result of a worker whose link was killed. Where this fails, the worker notices it when it writes.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    Some(run_task(Path::new(file), run))
}

/// Runs the task that a file describes, replies, and returns the exit code.
pub fn run_task<T: DeserializeOwned>(file: &Path, run: impl FnOnce(&T) -> Result<Reply, Errors>) -> u8 {
    llvm_passes::on_fatal_error(give_up);
    llvm_passes::crash::prepare_for_mappings("fatlink", FLAG);
    let reply = match read(file).and_then(|task| run(&task)) {
        Ok(reply) => Reply { cpu: process::processor_time(), ..reply },
        Err(errors) => Reply { errors: errors.messages(), ..Reply::default() },
    };
    let code = u8::from(!reply.errors.is_empty());
    // If this fails, the reader reports that the reply is missing.
    let _ = say(&Line::Done(Box::new(reply)));
    code
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<T, Errors> {
    let text = std::fs::read(file).map_err(|source| Error::Read { file: file.to_owned(), source })?;
    Ok(serde_json::from_slice(&text).map_err(|source| Error::Description { file: file.to_owned(), source })?)
}

/// Writes a line.
///
/// # Errors
/// Nobody reads it.
pub fn say(line: &Line) -> Result<(), Errors> {
    let cannot = |source| Error::NotRead { source };
    let mut text = serde_json::to_vec(line).map_err(|error| cannot(error.into()))?;
    text.push(b'\n');
    // A single write, so that a crash leaves no half of a line.
    Ok(std::io::stdout().lock().write_all(&text).map_err(cannot)?)
}

/// Replies in place of a worker that crashed.
pub fn reply_with_errors(errors: &Errors) {
    // If this fails, the reader reports that the reply is missing.
    let _ = say(&Line::Done(Box::new(Reply { errors: errors.messages(), ..Reply::default() })));
}

/// Handles a fatal error of LLVM, such as "Cannot select".
#[expect(clippy::exit, reason = "LLVM does not return from its error handler")]
fn give_up(reason: &str) {
    let errors = vec![Error::GaveUp { reason: reason.to_owned() }.to_string()];
    // If this fails, the reader reports that the reply is missing.
    let _ = say(&Line::Done(Box::new(Reply { errors, fatal: Some(reason.to_owned()), ..Reply::default() })));
    std::process::exit(1);
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
