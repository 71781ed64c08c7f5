//! Runs a whole job in a worker process: LLVM, and then the tools of the machine.

use std::ffi::OsString;
use std::path::Path;

use llvm_passes::pipeline::NamedBitcode;
use llvm_passes::session::{Message, Session};

use crate::diag::error::Errors;
use crate::lto::compile_job::CompileJob;
use crate::lto::pass_times;
use crate::lto::worker::{self, EmittedTexts, Line, Reply};
use crate::machines::job_code::{self, Written};
use crate::profile;
use crate::sys::cache::Key;
use crate::sys::{fork_server, memory};

/// Runs the job if this process was started as a worker, or serves jobs if it was started for that, and returns the exit code.
pub fn run_if_requested(arguments: &[OsString]) -> Option<u8> {
    let run = |job: &CompileJob| run(job, &worker::say);
    match arguments {
        [_, flag, machine] if flag == worker::SERVER_FLAG => {
            job_code::prepare(machine);
            Some(fork_server::serve(&|file| llvm_passes::crash::exit_at_once(worker::run_task(Path::new(&file), run))))
        }
        _ => worker::run_if_flagged(arguments, worker::FLAG, run),
    }
}

/// What a job reports while it runs.
pub type Report<'r> = &'r dyn Fn(&Line) -> Result<(), Errors>;

/// Runs the job in this process.
///
/// # Errors
/// Errors of LLVM or of a tool.
pub fn run(job: &CompileJob, report: Report<'_>) -> Result<Reply, Errors> {
    if job.traced {
        profile::forward(|boundary| {
            // The link reports a worker whose lines are missing.
            let _ = worker::say(&Line::Span(boundary));
        });
    }
    worker::prepare_llvm(&job.llvm_options)?;
    let mut reply = compile(job, report)?;
    if pass_times::are_timed(&job.llvm_options) {
        reply.times = llvm_passes::take_time_report();
    }
    Ok(reply)
}

fn compile(job: &CompileJob, report: Report<'_>) -> Result<Reply, Errors> {
    let (written, messages, mut emitted, code) = match emit(job)? {
        LlvmPart::Emitted { written, messages, sizes, code } => (written, messages, sizes, code),
        LlvmPart::Cached(code) => return Ok(Reply { code: Some(*code.bytes()), is_cached: true, ..Reply::default() }),
    };
    let steps = job.code.steps();
    emitted.peak = memory::own_peak();
    if steps.runs_tools() {
        // The tools need the memory that LLVM had. The system's figure for their peak includes that of this process.
        llvm_passes::out_of_memory::return_free_memory();
        memory::forget_own_peak();
    }
    if steps.has_tools() {
        report(&Line::Emitted(emitted.clone()))?;
    }
    let show = |command: String| {
        // The link reports a worker whose lines are missing.
        let _ = report(&Line::Command(command));
    };
    let made = steps.run_tools(&job.name, written, &show)?;
    Ok(Reply { messages, emitted, made, code: code.map(|code| *code.bytes()), ..Reply::default() })
}

/// What LLVM did.
enum LlvmPart {
    Emitted {
        written: Written,
        messages: Vec<Message>,
        sizes: EmittedTexts,
        /// What the result is cached under.
        code: Option<Key>,
    },
    /// Nothing: the result of this code is in the cache.
    Cached(Key),
}

/// Runs LLVM, and writes what it emits. LLVM's memory is free afterwards.
fn emit(job: &CompileJob) -> Result<LlvmPart, Errors> {
    let steps = job.code.steps();
    let content = worker::open(&job.units)?;
    let library = steps.library().map(|(name, path)| Ok::<_, Errors>((name, worker::open(path)?))).transpose()?;
    let library = || library.as_ref().map(|(name, content)| NamedBitcode { name, bitcode: content.bytes() });
    let session = Session::new();
    let merged = job.merge_units(&session, content.bytes(), &library)?;
    let cached = job.cached_code.as_ref().map(|cached| (cached, cached.key(&merged)));
    if let Some((_, code)) = cached.filter(|(cached, code)| cached.has(code)) {
        return Ok(LlvmPart::Cached(code));
    }
    let emitted = steps.emit(&session, job.optimize_merged(&session, merged)?, job.is_whole())?;
    let (written, sizes) = steps.write(emitted)?;
    let sizes = EmittedTexts { sizes, peak: 0 };
    Ok(LlvmPart::Emitted { written, messages: session.take_messages(), sizes, code: cached.map(|(_, code)| code) })
}
