//! What the library `fatlink` and the program `fatlink` say to each other.
//!
//! The library starts the program with [`FLAG`] or [`FLAG_AHEAD`]. The program prepares itself and writes [`Line::Ready`]. It reads one line of JSON from
//! standard input, a [`Request`], runs the link and writes lines of JSON, each a [`Line`], to standard output; the last one is
//! [`Line::Done`]. Results are files, which the arguments of the request name. The end of standard input cancels the link.
#![forbid(unsafe_code)]

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

/// The only argument of a program that serves the library.
pub const FLAG: &str = "--link-request";

/// The same for a program that is started before there is a link for it, and makes the most of the time.
pub const FLAG_AHEAD: &str = "--link-request-ahead";

/// The version of these types: library and program must have the same.
pub const VERSION: u32 = 1;

/// A link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`] of the library.
    pub version: u32,
    /// The command line, without the program's name.
    pub arguments: Vec<OsString>,
}

/// A line of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Line {
    /// The program waits for a request.
    Ready {
        /// [`VERSION`] of the program.
        version: u32,
    },
    /// A message.
    Message {
        /// How bad it is.
        severity: Severity,
        /// The text, of one line or more, without the program's name.
        text: String,
    },
    /// A job has ended, or more jobs are known.
    Jobs {
        /// How many jobs have ended.
        done: u64,
        /// How many jobs are known.
        known: u64,
    },
    /// The link has ended.
    Done {
        /// The exit code that the program would have as a link of a command line.
        code: u8,
    },
}

/// How bad a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// What the link shows because an option requests it.
    Note,
    /// The link goes on.
    Warning,
    /// The link fails.
    Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_line_whatever_its_arguments() {
        use std::os::unix::ffi::OsStringExt;
        let arguments = vec!["a\nb".into(), OsString::from_vec(vec![b'-', 0xff])];
        let request = Request { version: VERSION, arguments };
        let text = serde_json::to_string(&request).unwrap();
        assert!(!text.contains('\n'));
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
    }
}
