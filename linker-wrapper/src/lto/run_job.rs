//! Runs a whole job in a worker process: LLVM, and then ptxas for NVIDIA's GPUs.

use std::ffi::OsString;
use std::path::Path;

use llvm_passes::amdgpu::PartitionCode;
use llvm_passes::pipeline::NamedBitcode;
use llvm_passes::session::{Message, Session};
use offload_bundle::arch::GpuArch;

use crate::codegen::{Assembler, Attempted, DeviceObject, PtxBackend, PtxSource};
use crate::diag::error::Errors;
use crate::lto::compile_job::CompileJob;
use crate::lto::generate::{self, Emitted};
use crate::lto::pass_times;
use crate::lto::target_code::{AmdCode, NvptxCode, TargetCode};
use crate::lto::worker::{self, EmittedPtx, Line, Reply};
use crate::profile;
use crate::sys::cache::Key;
use crate::sys::{memory, process, signals, temp_files};

/// Runs the job if this process was started as a worker, and returns the exit code.
pub fn run_if_requested(arguments: &[OsString]) -> Option<u8> {
    worker::run_if_flagged(arguments, worker::FLAG, |job| run(job, &worker::say))
}

/// What a job reports while it runs.
pub type Report<'r> = &'r dyn Fn(&Line) -> Result<(), Errors>;

/// Runs the job in this process.
///
/// # Errors
/// Errors of LLVM or ptxas.
pub fn run(job: &CompileJob, report: Report<'_>) -> Result<Reply, Errors> {
    if job.traced {
        profile::forward(|boundary| {
            // The link reports a worker whose lines are missing.
            let _ = worker::say(&Line::Span(boundary));
        });
    }
    worker::prepare_llvm(&job.llvm_options)?;
    let mut reply = match &job.code {
        TargetCode::Nvptx(code) => run_nvptx(job, code, report),
        TargetCode::Amdgpu(code) => run_amdgpu(job, code),
    }?;
    if pass_times::are_timed(&job.llvm_options) {
        reply.times = llvm_passes::take_time_report();
    }
    Ok(reply)
}

fn run_nvptx(job: &CompileJob, code: &NvptxCode, report: Report<'_>) -> Result<Reply, Errors> {
    let (mut texts, messages, mut ptx, kept) = match emit(job, code)? {
        LlvmPart::Emitted { texts, messages, ptx, code } => (texts, messages, ptx, code),
        LlvmPart::Kept(code) => return Ok(Reply { code: Some(*code.bytes()), is_kept: true, ..Reply::default() }),
    };
    ptx.peak = memory::own_peak();
    if code.assembler.is_some() {
        // ptxas needs the memory that LLVM had. The system's figure for its peak includes that of this process.
        llvm_passes::out_of_memory::return_free_memory();
        memory::forget_own_peak();
    }
    report(&Line::Emitted(ptx.clone()))?;
    let objects = match &code.assembler {
        Some(ptxas) => generate(&job.name, code, &mut texts, &InWorker { ptxas, report })?,
        None => Vec::new(),
    };
    let code = kept.map(|code| *code.bytes());
    Ok(Reply { messages, emitted: ptx, objects, code, ..Reply::default() })
}

/// Writes the object. It needs no other tool before the link of all objects.
fn run_amdgpu(job: &CompileJob, code: &AmdCode) -> Result<Reply, Errors> {
    let content = worker::open(&job.units)?;
    let session = Session::new();
    let module = job.optimize_units(&session, content.bytes(), &|| None)?;
    // A search for code that LLVM cannot compile stops here.
    let is_emitted = !code.object.as_os_str().is_empty();
    let emitted = is_emitted.then(|| code.emit(&session, &module, job.is_whole())).transpose()?;
    let mut reply = Reply { messages: session.take_messages(), ..Reply::default() };
    match emitted {
        Some(PartitionCode::Object(object, functions)) => {
            temp_files::write_file(&code.object, &object)?;
            reply.functions = functions;
        }
        Some(PartitionCode::Calls(functions)) => reply.calls = functions,
        None => {}
    }
    reply.emitted.peak = memory::own_peak();
    Ok(reply)
}

/// What LLVM did.
enum LlvmPart {
    Emitted {
        texts: Vec<Emitted>,
        messages: Vec<Message>,
        ptx: EmittedPtx,
        /// What the result is cached under.
        code: Option<Key>,
    },
    /// Nothing: the result of this code is in the cache.
    Kept(Key),
}

/// Runs LLVM, and writes the files of all emissions. LLVM's memory is free afterwards.
fn emit(job: &CompileJob, code: &NvptxCode) -> Result<LlvmPart, Errors> {
    let content = worker::open(&job.units)?;
    let libdevice = code.libdevice.as_deref().map(worker::open).transpose()?;
    let libdevice = || Some(NamedBitcode { name: "libdevice", bitcode: libdevice.as_ref()?.bytes() });
    let session = Session::new();
    let (mut texts, mut ptx) = (Vec::new(), EmittedPtx::default());
    let merged = job.merge_units(&session, content.bytes(), &libdevice)?;
    let kept = job.kept.as_ref().map(|kept| (kept, kept.key(&merged)));
    if let Some((_, code)) = kept.filter(|(kept, code)| kept.has(code)) {
        return Ok(LlvmPart::Kept(code));
    }
    let emitted = code.emit(&session, job.optimize_merged(&session, merged)?)?;
    for (index, (text, emission)) in emitted.into_iter().zip(&code.emissions).enumerate() {
        temp_files::write_file(&emission.path, &text)?;
        ptx.sizes.push(text.len() as u64);
        let mut text = Emitted::of(text);
        ptx.debug_info.push(text.debug_info);
        if !code.outputs.has_ptx_of(index) {
            text.text = None;
        }
        texts.push(text);
    }
    Ok(LlvmPart::Emitted { texts, messages: session.take_messages(), ptx, code: kept.map(|(_, code)| code) })
}

/// Generates the outputs, all of them in files.
fn generate(
    name: &str,
    code: &NvptxCode,
    texts: &mut [Emitted],
    ptxas: &InWorker<'_>,
) -> Result<Vec<DeviceObject>, Errors> {
    // A signal that ends this process ends ptxas, too.
    signals::before_end(process::end_children)?;
    let generated = generate::generate(name, code, texts, ptxas)?;
    for (ptx, (_, text)) in code.outputs.ptx.iter().zip(&generated.ptx) {
        temp_files::write_file(&ptx.path, text)?;
    }
    Ok(generated.objects)
}

/// ptxas as the backend of a worker. The link shows the commands and reads the machine code.
struct InWorker<'j> {
    ptxas: &'j Assembler,
    report: Report<'j>,
}

impl PtxBackend for InWorker<'_> {
    fn assemble(&self, source: PtxSource) -> Result<DeviceObject, Errors> {
        self.ptxas.assemble(source, &|command| {
            // The link reports a worker whose lines are missing.
            let _ = (self.report)(&Line::Command(command));
        })
    }

    fn attempt(&self, ptx: &[u8], arch: GpuArch, file: &Path) -> Attempted {
        self.ptxas.attempt(ptx, arch, file)
    }
}
