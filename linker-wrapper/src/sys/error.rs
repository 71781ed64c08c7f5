//! Errors of the operating system.

use std::io;
use std::path::PathBuf;

use remote_cache::LocationError;

use crate::diag::error::reason;

/// A request to the operating system that failed, or a file that changed under the link.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path}: {}", reason(.source))]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {path}: {}", reason(.source))]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot make a temporary folder in {place}: {}; set TMPDIR", reason(.source))]
    TemporaryFolder { place: PathBuf, source: io::Error },
    #[error("cannot start {program}: {}", reason(.source))]
    Start { program: PathBuf, source: io::Error },
    #[error("cannot create the folder {folder}: {}", reason(.source))]
    KeptFiles { folder: PathBuf, source: io::Error },
    #[error("cannot watch for signals: {source}")]
    Signals { source: io::Error },
    #[error(
        "cannot start a thread: {reason}; raise the limit of processes (ulimit -u) or of memory (ulimit -v), or use --wrapper-jobs=1"
    )]
    Thread { reason: String },
    #[error(
        "{path} changed during the link, so the program could mix two versions of it; link again when nothing writes to it"
    )]
    Changed { path: PathBuf },
    #[error(
        "the cache is on, but neither XDG_CACHE_HOME nor HOME names an absolute folder for it; name one with \
         --offload-cache=<dir> or FATLINK_CACHE"
    )]
    NoCacheFolder,
    #[error(transparent)]
    RemoteCache(#[from] LocationError),
}
