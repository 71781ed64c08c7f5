//! What goes wrong when a program links a device image, or a job makes none.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use crate::machines::flaw::Flaw;
use crate::sys::{process, temp_files};

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
    #[error("{program} left {flaw} for {target}: the disk of {folder} may be full; make room there, and link again")]
    Unusable { program: PathBuf, target: String, flaw: Flaw, folder: PathBuf },
    #[error("{program} left no image for {target}: {source}")]
    NoImage { program: PathBuf, target: String, source: io::Error },
}

impl Error {
    /// The error for a program that left such a file.
    pub fn unusable(program: &Path, target: impl fmt::Display, flaw: Flaw, file: &Path) -> Self {
        let (program, folder) = (program.to_owned(), temp_files::place_of(file));
        Error::Unusable { program, target: target.to_string(), flaw, folder }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_code_is_explained_by_program_target_and_folder() {
        let error = |file| Error::unusable(Path::new("/cuda/ptxas"), "sm_90", Flaw::Empty, Path::new(file)).to_string();
        let expected = |folder| {
            format!(
                "/cuda/ptxas left an empty file for sm_90: the disk of {folder} may be full; make room there, and link again"
            )
        };
        assert_eq!(error("/tmp/fatlink-x/a.cubin"), expected("/tmp"));
        assert_eq!(error("build/out.sm_90.cubin"), expected("build"));
        assert_eq!(error("out.sm_90.cubin"), expected("."));
    }
}
