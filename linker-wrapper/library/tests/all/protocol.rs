//! The program answers requests that no library of its release writes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

/// The program, and its standard input, whose end cancels the link.
fn served() -> (Child, ChildStdin) {
    let mut command = Command::new(crate::common::program());
    let mut child = command.arg("--link-request").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    (child, stdin)
}

fn lines(child: &mut Child) -> Vec<String> {
    BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).collect()
}

#[test]
fn requests_that_cannot_be_carried_out_have_an_error() {
    for (request, expected) in [
        ("{\"version\": 1\n", "the request of the library fatlink cannot be read: EOF while parsing"),
        ("\n", "the request of the library fatlink cannot be read: EOF while parsing"),
        (
            "{\"version\": 7, \"arguments\": []}\n",
            "the library fatlink has version 7 of the protocol, this program has version 1; ",
        ),
    ] {
        let (mut child, mut stdin) = served();
        stdin.write_all(request.as_bytes()).unwrap();
        let lines = lines(&mut child);
        assert_eq!(lines[0], r#"{"Ready":{"version":1}}"#);
        let error = format!(r#"{{"Message":{{"severity":"Error","text":"{expected}"#);
        assert!(lines[1].starts_with(&error), "{lines:?}");
        assert_eq!(lines[2..], [r#"{"Done":{"code":1}}"#]);
        assert_eq!(child.wait().unwrap().code(), Some(1));
    }
}

#[test]
fn without_a_request_the_program_ends() {
    for request in ["", "{\"version\": 1, \"arguments\": [\"--help\"]}"] {
        let (mut child, mut stdin) = served();
        stdin.write_all(request.as_bytes()).unwrap();
        drop(stdin);
        assert_eq!(lines(&mut child), [r#"{"Ready":{"version":1}}"#]);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}
