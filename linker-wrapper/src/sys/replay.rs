//! The script that replays a link step by step, which `--wrapper-verbose` and `--save-temps` write together. Nothing here runs it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The steps so far, as lines of a shell; `None` if there is no script.
static STEPS: Mutex<Option<Vec<u8>>> = Mutex::new(None);

/// Begins the script: from now on steps are recorded.
pub fn begin() {
    let mut text =
        b"#!/bin/sh\n# Replays this link step by step. The files of --save-temps are its inputs and outputs.\nset -e\n"
            .to_vec();
    if let Ok(folder) = std::env::current_dir() {
        text.extend_from_slice(b"cd ");
        quote(folder.as_os_str(), &mut text);
        text.push(b'\n');
    }
    with_steps(|steps| *steps = Some(text));
}

/// Whether steps are recorded.
pub fn is_on() -> bool {
    with_steps(|steps| steps.is_some())
}

/// Adds a command, which runs when all commands before it have ended.
pub fn step(program: &Path, arguments: &[OsString]) {
    add(|text| {
        quote(program.as_os_str(), text);
        for argument in arguments {
            text.push(b' ');
            quote(argument, text);
        }
        text.push(b'\n');
    });
}

/// Adds a remark.
pub fn note(remark: &str) {
    // A line break would end the comment.
    let remark = remark.replace(['\n', '\r'], " ");
    add(|text| text.extend_from_slice(format!("# {}\n", remark.trim()).as_bytes()));
}

/// Ends the script and returns its text.
pub fn end() -> Option<Vec<u8>> {
    with_steps(Option::take)
}

/// A program that is installed beside this one, or else by its name alone.
pub fn sibling(name: &str) -> PathBuf {
    let beside = own_path().with_file_name(name);
    if beside.is_file() { beside } else { PathBuf::from(name) }
}

/// The path of this program, which is still the same when the script runs.
pub fn own_path() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("fatlink"))
}

fn add(write: impl FnOnce(&mut Vec<u8>)) {
    with_steps(|steps| {
        if let Some(text) = steps {
            write(text);
        }
    });
}

fn with_steps<T>(use_them: impl FnOnce(&mut Option<Vec<u8>>) -> T) -> T {
    use_them(&mut STEPS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Quotes any bytes for a POSIX shell.
fn quote(word: &OsStr, text: &mut Vec<u8>) {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./=+:,@%".contains(byte);
    if !word.is_empty() && word.as_bytes().iter().all(is_plain) {
        text.extend_from_slice(word.as_bytes());
        return;
    }
    text.push(b'\'');
    for byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend_from_slice(br"'\''"),
            _ => text.push(*byte),
        }
    }
    text.push(b'\'');
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_the_words_back() {
        let words = ["plain", "two words", "it's", "", "$HOME `x` \\", "line\nbreak", "#", "~", "a*", "-x=%"];
        let words: Vec<OsString> =
            words.iter().map(OsString::from).chain([OsStr::from_bytes(b"\xff").into()]).collect();
        let mut text = b"printf '%s\\0'".to_vec();
        for word in &words {
            text.push(b' ');
            quote(word, &mut text);
        }
        // A test may use a shell; the product never does.
        let output = Command::new("/bin/sh").arg("-c").arg(OsStr::from_bytes(&text)).output().unwrap();
        let expected: Vec<u8> = words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
        assert_eq!(output.stdout, expected);
    }

    #[test]
    fn steps_are_recorded_from_the_beginning_to_the_end() {
        step(Path::new("before"), &[]);
        begin();
        assert!(is_on());
        step(Path::new("/bin/a b"), &["-o".into(), "x".into()]);
        note("two\nlines");
        let text = String::from_utf8(end().unwrap()).unwrap();
        assert!(text.starts_with("#!/bin/sh\n") && text.contains("\nset -e\ncd "), "{text}");
        assert!(text.ends_with("\n'/bin/a b' -o x\n# two lines\n") && !text.contains("before"), "{text}");
        assert!(!is_on() && end().is_none());
    }
}
