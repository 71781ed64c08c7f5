//! Errors of this program.

use std::io;
use std::path::PathBuf;

/// Why jobs cannot run on the server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    List(#[from] distributor::job_list::Error),
    #[error("{0}")]
    System(#[from] io::Error),
    #[error("cannot read {}: {source}", .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("{}: no program for this system", .file.display())]
    NoProgram { file: PathBuf },
    #[error("{}: cannot list its shared libraries: {reason}", .file.display())]
    Libraries { file: PathBuf, reason: String },
    #[error("{url}: expected grpc://HOST:PORT or grpcs://HOST:PORT")]
    Url { url: String },
    #[error("cannot connect to {url}: {reason}")]
    Connect { url: String, reason: String },
    #[error("{what}: {status}")]
    Server { what: &'static str, status: Status },
    #[error("{url} cannot execute commands for this instance, or does not know SHA-256")]
    Incapable { url: String },
    #[error("the answer of the server is damaged: {0}")]
    Damaged(String),
    #[error("the job failed (exit code {code}): {said}")]
    Job { code: i32, said: String },
    #[error("the job left no result")]
    NoResult,
}

/// A status of gRPC in one line.
#[derive(Debug)]
pub struct Status {
    /// Its code.
    pub code: tonic::Code,
    /// Its text.
    pub text: String,
}

impl std::fmt::Display for Status {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} ({:?})", self.text, self.code)
    }
}

impl Error {
    /// The server's answer to a request.
    pub fn server(what: &'static str) -> impl Fn(tonic::Status) -> Error {
        move |status| {
            let status = Status { code: status.code(), text: status.message().to_owned() };
            Error::Server { what, status }
        }
    }

    /// Whether another try may succeed.
    pub fn is_passing(&self) -> bool {
        use tonic::Code::{Aborted, Cancelled, DeadlineExceeded, Internal, ResourceExhausted, Unavailable, Unknown};
        match self {
            Error::Server { status, .. } => {
                matches!(
                    status.code,
                    Aborted | Cancelled | DeadlineExceeded | Internal | ResourceExhausted | Unavailable | Unknown
                )
            }
            Error::Damaged(_) | Error::Job { .. } | Error::NoResult => true,
            _ => false,
        }
    }
}
