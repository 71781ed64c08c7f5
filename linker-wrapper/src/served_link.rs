//! Serves the library `fatlink`: runs one link whose command line comes from standard input, and writes its messages as lines of JSON. See
//! `fatlink_protocol`.
//!
//! The library may start this process long before it has a link for it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, channel};

use fatlink_protocol::{FLAG, FLAG_AHEAD, Line, Request, VERSION};
use llvm_passes::warm_up::warm_up;
use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group, kill_process};

use crate::cli::host_triple;
use crate::diag::error::Errors;
use crate::diag::{messages, served};
use crate::sys::{temp_files, threads};

/// A request that cannot be carried out.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the request of the library fatlink cannot be read: {source}")]
    Request { source: serde_json::Error },
    #[error(
        "the library fatlink has version {library} of the protocol, this program has version {VERSION}; install both of one release"
    )]
    Version { library: u32 },
}

/// Runs a link if this process was started for the library, and returns the exit code. `run` runs the link of a command line, prints its
/// errors and returns its exit code.
pub fn run_if_requested(arguments: &[OsString], run: impl FnOnce(&[OsString]) -> u8) -> Option<u8> {
    let [program, flag] = arguments else { return None };
    if flag != FLAG && flag != FLAG_AHEAD {
        return None;
    }
    served::begin();
    llvm_passes::initialize();
    if flag == FLAG_AHEAD {
        warm_up(host_triple::NATIVE.triple);
    }
    served::say(&Line::Ready { version: VERSION });
    let code = match request() {
        Ok(None) => return Some(0),
        Ok(Some(words)) => run(&[vec![program.clone()], words].concat()),
        Err(errors) => {
            messages::print_errors("", &errors);
            1
        }
    };
    served::say(&Line::Done { code });
    Some(code)
}

/// Waits for the request, and returns the words of its command line; none if the library has no link for this process.
fn request() -> Result<Option<Vec<OsString>>, Errors> {
    let Ok(text) = watched_request()?.recv() else { return Ok(None) };
    let request: Request = serde_json::from_slice(&text).map_err(|source| Error::Request { source })?;
    if request.version != VERSION {
        return Err(Error::Version { library: request.version }.into());
    }
    Ok(Some(request.arguments))
}

/// Ends this process, with the tools that have not heeded the request to end.
fn end() {
    let own = getpid();
    let _ = if getpgrp() == own { kill_current_process_group(Signal::KILL) } else { kill_process(own, Signal::KILL) };
}

/// Reads the request in a thread, which ends the link as soon as the library closes the stream: it cancels the link, or is gone.
fn watched_request() -> Result<Receiver<Vec<u8>>, Errors> {
    let (send, receive) = channel();
    let watch = move || {
        let mut stream = BufReader::new(std::io::stdin());
        let mut line = Vec::new();
        // A line that is cut off is none.
        if stream.read_until(b'\n', &mut line).is_err() || line.pop() != Some(b'\n') || send.send(line).is_err() {
            return;
        }
        while stream.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
        temp_files::clean_up();
        end();
    };
    std::thread::Builder::new().spawn(watch).map_err(|error| threads::cannot_start(&error))?;
    Ok(receive)
}
