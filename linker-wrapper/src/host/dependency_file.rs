//! The dependency file of the host linker (`--dependency-file=`): a make rule that lists all files that the linker read.
//!
//! It must not list the objects that fatlink adds: they are removed after the link, so a build system would link again each
//! time. They are removed from the rule, which is then what the linker would have written without them.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::diag::error::Errors;
use crate::sys::temp_files;

/// Separators between the files of the rule, as GNU ld and gold, lld, and mold write them.
const SEPARATORS: [&[u8]; 3] = [b" \\\n  ", b" \\\n ", b" "];

/// The dependency file that a host linker's command line names; the last one counts.
pub fn of_line(line: &[OsString]) -> Option<PathBuf> {
    let mut found = None;
    let mut words = line.iter();
    while let Some(word) = words.next() {
        let Some(long) = word.as_bytes().strip_prefix(b"-") else { continue };
        match long.strip_prefix(b"-").unwrap_or(long).strip_prefix(b"dependency-file") {
            Some([]) => found = words.next().map(PathBuf::from),
            Some([b'=', path @ ..]) => found = Some(OsString::from_vec(path.to_vec()).into()),
            _ => {}
        }
    }
    found
}

/// Removes fatlink's own files from the dependency file, and names the link's output in its rule where the linker wrote to
/// another file: `output` is (the linker's output, the link's output).
///
/// # Errors
/// The file cannot be read or written.
pub fn clean(file: &Path, ours: &[PathBuf], output: (&Path, &Path)) -> Result<(), Errors> {
    // A pipe or a device cannot be edited.
    if !file.is_file() {
        return Ok(());
    }
    let before = temp_files::read_file(file)?;
    let mut after = before.clone();
    for name in ours.iter().flat_map(|path| spellings(path)) {
        after = without(&after, &name);
    }
    if output.0 != output.1 {
        after = with_target(after, output.0, output.1);
    }
    if after == before { Ok(()) } else { temp_files::write_output(file, &after) }
}

/// Spells a path as GNU ld, gold and mold do, and as lld does, which escapes make's special characters.
fn spellings(path: &Path) -> [Vec<u8>; 2] {
    let plain = path.as_os_str().as_bytes();
    let mut escaped = Vec::with_capacity(plain.len());
    for (index, byte) in plain.iter().enumerate() {
        match byte {
            b'$' => escaped.push(b'$'),
            b'#' => escaped.push(b'\\'),
            b' ' => {
                // make reads backslashes in front of a space as escapes, so each is doubled.
                let slashes = plain[..index].iter().rev().take_while(|before| **before == b'\\').count();
                escaped.extend(std::iter::repeat_n(b'\\', slashes + 1));
            }
            _ => {}
        }
        escaped.push(*byte);
    }
    [plain.to_vec(), escaped]
}

/// Removes a file from the prerequisites, together with its own empty rule.
fn without(text: &[u8], name: &[u8]) -> Vec<u8> {
    let own_rule = [b"\n", name, b":\n"].concat();
    let mut text = replaced(text, &own_rule, b"");
    for separator in SEPARATORS {
        // What follows is kept: it starts the next separator or ends the rule.
        for end in [&b" "[..], b"\n"] {
            text = replaced(&text, &[separator, name, end].concat(), end);
        }
    }
    text
}

fn with_target(text: Vec<u8>, written: &Path, output: &Path) -> Vec<u8> {
    for (old, new) in spellings(written).iter().zip(spellings(output)) {
        if let Some(rest) = text.strip_prefix(&old[..]).filter(|rest| rest.starts_with(b":")) {
            return [&new, rest].concat();
        }
    }
    text
}

fn replaced(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memmem::find(rest, old) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(new);
        rest = &rest[at + old.len()..];
    }
    result.extend_from_slice(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As GNU ld 2.40, lld 22 and mold 1.10 write it, with an object of ours in every place.
    fn written(style: usize, names: &[&str]) -> String {
        let separator = [" \\\n  ", " \\\n ", " "][style];
        let rule: String = names.iter().map(|name| format!("{separator}{name}")).collect();
        let own: String = names.iter().map(|name| format!("\n{name}:\n")).collect();
        format!("a.out:{rule}\n{own}")
    }

    #[test]
    fn what_is_left_is_what_the_linker_would_have_written() {
        let ours = "/tmp/fatlink-x/kind.registration.o";
        for style in 0..3 {
            for names in [&[ours, "a.o", "b.o"][..], &["a.o", ours, "b.o"], &["a.o", "b.o", ours], &[ours]] {
                let theirs: Vec<&str> = names.iter().copied().filter(|name| *name != ours).collect();
                let cleaned = without(written(style, names).as_bytes(), ours.as_bytes());
                assert_eq!(String::from_utf8(cleaned).unwrap(), written(style, &theirs), "{style} {names:?}");
            }
        }
    }

    #[test]
    fn other_files_with_such_names_stay() {
        let text = written(0, &["/tmp/f/x.o.old", "old/tmp/f/x.o", "b.o"]);
        assert_eq!(without(text.as_bytes(), b"/tmp/f/x.o"), text.as_bytes());
    }

    #[test]
    fn names_are_escaped_as_lld_does() {
        let [plain, escaped] = spellings(Path::new("/a b/c#d$e"));
        assert_eq!((&plain[..], &escaped[..]), (&b"/a b/c#d$e"[..], &br"/a\ b/c\#d$$e"[..]));
    }

    #[test]
    fn the_rule_is_about_the_output() {
        let text = b"/tmp/f/relocatable.o: a.o\n\na.o:\n".to_vec();
        let renamed = with_target(text, Path::new("/tmp/f/relocatable.o"), Path::new("out.o"));
        assert_eq!(renamed, b"out.o: a.o\n\na.o:\n");
    }

    #[test]
    fn every_spelling_of_the_option_is_known() {
        let file = |words: &[&str]| of_line(&words.iter().map(OsString::from).collect::<Vec<_>>());
        for words in [
            &["--dependency-file=d"][..],
            &["-dependency-file=d"],
            &["--dependency-file", "d"],
            &["-dependency-file", "d"],
        ] {
            assert_eq!(file(words), Some("d".into()), "{words:?}");
        }
        assert_eq!(file(&["--dependency-file=c", "--dependency-file=d", "--dependency-files=e"]), Some("d".into()));
        assert_eq!(file(&["dependency-file=d", "a.o"]), None);
    }
}
