//! Runs a job elsewhere: `fatlink --run-job MANIFEST -o RESULT`, as a distributor starts it. The other files are next to the manifest.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::diag::error::Errors;
use crate::diag::messages;
use crate::lto::compile_job::CompileJob;
use crate::lto::distribution::action::{self, Action, unit_name};
use crate::lto::distribution::result_file::JobResult;
use crate::lto::error::Error;
use crate::lto::run_job;
use crate::lto::worker::{self, Line};
use crate::machines::job_code::Place;
use crate::sys::temp_files;

/// The first argument of the process.
pub const FLAG: &str = "--run-job";

/// Starts the tools by way of a loader: `--loader=LOADER,FOLDER`, with the folder of its shared libraries.
const LOADER: &str = "--loader=";

/// Runs the job if this process was started for one, and returns the exit code.
pub fn run_if_requested(arguments: &[OsString]) -> Option<u8> {
    let [program, given, rest @ ..] = arguments else { return None };
    if given != FLAG {
        return None;
    }
    llvm_passes::on_fatal_error(give_up);
    Some(match Request::of(program, rest).and_then(|request| request.run()) {
        Ok(()) => 0,
        Err(errors) => {
            messages::print_errors("fatlink", &errors);
            1
        }
    })
}

/// What the command line says.
struct Request {
    program: PathBuf,
    manifest: PathBuf,
    result: PathBuf,
    loader: Option<(PathBuf, PathBuf)>,
}

impl Request {
    fn of(program: &OsString, rest: &[OsString]) -> Result<Self, Errors> {
        let (manifest, result, loader) = match rest {
            [manifest, dash, result] if dash == "-o" => (manifest, result, None),
            [manifest, dash, result, loader] if dash == "-o" => {
                let text = loader.to_string_lossy();
                let loader = text.strip_prefix(LOADER).and_then(|text| text.split_once(','));
                let loader = loader.ok_or(Error::RunJobUsage)?;
                (manifest, result, Some((PathBuf::from(loader.0), PathBuf::from(loader.1))))
            }
            _ => return Err(Error::RunJobUsage.into()),
        };
        // A loader that runs this program is what /proc names.
        let program = if loader.is_some() { program.into() } else { crate::sys::process::itself() };
        Ok(Request { program, manifest: manifest.into(), result: result.into(), loader })
    }

    fn run(&self) -> Result<(), Errors> {
        let text = temp_files::read_file(&self.manifest)?;
        let hash = blake3::hash(&text);
        let action: Action = serde_json::from_slice(&text)
            .map_err(|source| Error::Description { file: self.manifest.clone(), source })?;
        let own = action::build_id(&self.program)?;
        if action.program != own {
            return Err(Error::OtherProgram { manifest: self.manifest.clone(), expected: action.program, own }.into());
        }
        let folder = parent(&self.manifest);
        for tool in &action.tools {
            read_checked(&folder.join(&tool.name), &tool.hash)?;
        }
        let work = tempfile::Builder::new().prefix(".fatlink-job-").tempdir_in(parent(&self.result));
        let work = work.map_err(|source| Error::Folder { folder: parent(&self.result), source })?;
        let job = self.placed(&action.job, &folder, work.path());
        let mut units = Vec::new();
        for range in &job.ranges {
            units.extend_from_slice(read_checked(&folder.join(unit_name(range)), &range.hash)?.bytes());
        }
        temp_files::write_file(&job.units, &units)?;
        drop(units);
        let result = compile(&job)?.encode(&hash)?;
        // Renamed when it is whole: a distributor may look for it at any time.
        let unfinished = work.path().join("result");
        temp_files::write_file(&unfinished, &result)?;
        let renamed = std::fs::rename(&unfinished, &self.result);
        Ok(renamed.map_err(|source| Error::Folder { folder: self.result.clone(), source })?)
    }

    /// The job with paths of this machine: what it reads is in `folder`, what it writes in `work`.
    fn placed(&self, job: &CompileJob, folder: &Path, work: &Path) -> CompileJob {
        let loader = self.loader.as_ref().map(|(loader, libraries)| (&**loader, &**libraries));
        let code = job.code.steps().placed(Place { inputs: folder, work, loader });
        CompileJob {
            units: work.join(&job.units),
            code,
            saved_stages: None,
            cached_code: None,
            traced: false,
            ..job.clone()
        }
    }
}

/// Runs LLVM and the tools, and collects what they leave.
fn compile(job: &CompileJob) -> Result<JobResult, Errors> {
    let begun = Instant::now();
    let llvm_ended = std::sync::OnceLock::new();
    let reply = run_job::run(job, &|line| {
        if let Line::Emitted(_) = line {
            let _ = llvm_ended.set(begun.elapsed());
        }
        Ok(())
    })?;
    let whole = begun.elapsed();
    let llvm = llvm_ended.get().copied().unwrap_or(whole);
    let paths = job.code.steps().files(&reply.made);
    let files = paths.iter().map(|path| temp_files::read_file(path)).collect::<Result<_, _>>()?;
    let tool_seconds = whole.saturating_sub(llvm).as_secs_f64();
    let result = JobResult { reply, files, llvm_seconds: llvm.as_secs_f64(), tool_seconds };
    // Engines keep what comes back.
    result.check(job)?;
    Ok(result)
}

/// Reads a file whose content has this hash.
fn read_checked(file: &Path, hash: &str) -> Result<crate::sys::mapped_file::Mapped, Errors> {
    let content = worker::open(file)?;
    if blake3::hash(content.bytes()).to_hex().as_str() == hash {
        return Ok(content);
    }
    Err(Error::OtherContent { file: file.to_owned() }.into())
}

fn parent(file: &Path) -> PathBuf {
    let parent = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// Handles a fatal error of LLVM, such as "Cannot select". The link compiles the job again and explains it.
#[expect(clippy::exit, reason = "LLVM does not return from its error handler")]
fn give_up(reason: &str) {
    messages::print_errors("fatlink", &Error::GaveUp { reason: reason.to_owned() }.into());
    std::process::exit(1);
}
