//! What goes wrong when a program links a device image, or a job makes none.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crate::sys::process;

/// A linker of device images that cannot be run, or that fails, or a job without code.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the job {name} has not made the code that it describes; report this as a defect of fatlink")]
    NoCode { name: String },
    #[error("cannot run {program}: {source}")]
    Start { program: PathBuf, source: io::Error },
    #[error("{}", process::failure(.program, &format!("the device image of {target}"), *.status, .output))]
    ImageLinker { program: PathBuf, target: String, status: ExitStatus, output: String },
    #[error(
        "{program} did not finish the device image of {target} with {} s of processor time, where milliseconds are usual, and was ended; link \
         again, and if that ends in the same way, rebuild the objects",
        .limit.as_secs()
    )]
    ImageLinkerLate { program: PathBuf, target: String, limit: Duration },
    #[error("{program} left no image for {target}: {source}")]
    NoImage { program: PathBuf, target: String, source: io::Error },
}
