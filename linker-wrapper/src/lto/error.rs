//! Errors in compiling the code of a target.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::sys::process;

/// A job that cannot be run, a worker that fails, or code that LLVM cannot compile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {file}: {source}")]
    Read { file: PathBuf, source: io::Error },
    #[error("{file} has {length} bytes, {written} were written: is the disk full?")]
    Incomplete { file: PathBuf, length: usize, written: usize },
    #[error("{unit}: not in {file}")]
    MissingUnit { unit: String, file: PathBuf },
    #[error("cannot describe {what}: {source}")]
    Describe { what: String, source: serde_json::Error },
    #[error("{file}: {source}")]
    Description { file: PathBuf, source: serde_json::Error },
    #[error("cannot start a process to compile {what}: {source}")]
    WorkerStart { what: String, source: io::Error },
    #[error(
        "the process that compiled {what} ended early ({}){}{output}; if LLVM crashed there, try another -O level and report it \
         with the files that --save-temps keeps; if it was killed, the memory may have run out: --offload-memory= or \
         --wrapper-jobs= lets fewer run at a time",
        process::ending(*.status), if .output.is_empty() { "" } else { ": " }
    )]
    WorkerDied { what: String, status: ExitStatus, output: String },
    #[error("the process that compiled {what} has no result and names no error; report this as a defect of fatlink")]
    NothingCompiled { what: String },
    #[error("cannot report to the link that started this process: {source}")]
    NotRead { source: io::Error },
    /// The text of an error in a worker.
    #[error("{0}")]
    InWorker(String),
    #[error("cannot encode the result of a job: {source}")]
    EncodeResult { source: postcard::Error },
    #[error("cannot compress the result of a job: {source}")]
    CompressResult { source: io::Error },
    #[error("cannot make {folder}: {source}")]
    Folder { folder: PathBuf, source: io::Error },
    #[error(
        "--offload-distributor=: there is no program {} beside fatlink or on PATH; name the path of one that runs jobs as LLVM's \
         distributed ThinLTO does", .name.display()
    )]
    NoDistributor { name: PathBuf },
    #[error("cannot start the distributor {program}: {source}")]
    DistributorStart { program: PathBuf, source: io::Error },
    #[error("usage: fatlink --run-job MANIFEST -o RESULT [--loader=LOADER,FOLDER]")]
    RunJobUsage,
    #[error(
        "{manifest}: made by another build of fatlink ({expected}, this is {own}); all machines that run jobs of a link need the \
         program that links"
    )]
    OtherProgram { manifest: PathBuf, expected: String, own: String },
    #[error("{file}: is not the file that the link used; all machines need the same tools")]
    OtherContent { file: PathBuf },
    #[error("cannot write {path}, which -pass-remarks-output= names: {reason}")]
    RemarksFile { path: String, reason: String },
    #[error("LLVM rejects its options")]
    LlvmOptions,
    #[error("LLVM cannot compile this device code: {reason}")]
    GaveUp { reason: String },
    #[error(
        "LLVM cannot compile the {function} for {target}: {reason}; this is a defect of LLVM: change the code or the -O level, and \
         report it with the files that --save-temps keeps"
    )]
    Culprit { function: String, target: String, reason: String },
}
