//! Response files (`@file`) with GNU quoting, nested, read and written.
//!
//! Arguments that are not UTF-8 are preserved. The parser is not a crate's: it must limit nesting, count and size, and treat
//! an unreadable file as an argument, as GNU tools do.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::cli::error::Error;

/// Maximum nesting.
const DEEPEST: usize = 64;

/// Maximum number of response files. Without it, files that each include the next one twice would take forever.
const MOST_FILES: usize = 4096;

/// Maximum total size of the response files in bytes; `@/dev/zero` never ends.
const MOST_TEXT: u64 = 64 << 20;

/// Replaces every `@file` by the arguments in it. If the file cannot be read, the argument stays, as with GNU tools.
///
/// # Errors
/// A response file that includes itself, or more files, nesting or text than a line can need.
pub fn expand(words: &[OsString]) -> Result<Vec<OsString>, Error> {
    let mut expansion = Expansion { words: Vec::with_capacity(words.len()), files: 0, text: 0, open: Vec::new() };
    for word in words {
        expansion.add(word)?;
    }
    Ok(expansion.words)
}

/// The arguments so far, and the resources used for them.
struct Expansion {
    words: Vec<OsString>,
    /// Number of response files read.
    files: usize,
    /// Their total size in bytes.
    text: u64,
    /// Device and inode of the files that are being expanded, the outermost first.
    open: Vec<(u64, u64)>,
}

impl Expansion {
    fn add(&mut self, word: &OsStr) -> Result<(), Error> {
        let file = word.as_bytes().strip_prefix(b"@").map(|name| Path::new(OsStr::from_bytes(name)));
        // Reading one byte more than allowed shows that the limit is exceeded.
        let read = |file: &Path| {
            let mut text = Vec::new();
            let opened = File::open(file)?;
            let metadata = opened.metadata()?;
            opened.take(MOST_TEXT - self.text + 1).read_to_end(&mut text)?;
            Ok::<_, io::Error>((text, (metadata.dev(), metadata.ino())))
        };
        let Some((file, (text, identity))) = file.and_then(|file| Some((file, read(file).ok()?))) else {
            self.words.push(word.to_owned());
            return Ok(());
        };
        self.files += 1;
        self.text += text.len() as u64;
        self.check(file, identity)?;
        self.open.push(identity);
        for inner in split(&text) {
            self.add(&inner)?;
        }
        self.open.pop();
        Ok(())
    }

    fn check(&self, file: &Path, identity: (u64, u64)) -> Result<(), Error> {
        let file = || file.display().to_string();
        if self.open.contains(&identity) {
            return Err(Error::ResponseFileLoop { file: file() });
        }
        if self.open.len() == DEEPEST {
            return Err(Error::ResponseFileDepth { file: file(), deepest: DEEPEST });
        }
        if self.files > MOST_FILES {
            return Err(Error::ResponseFiles { file: file(), most: MOST_FILES });
        }
        if self.text > MOST_TEXT {
            return Err(Error::ResponseFileText { file: file(), mebibytes: MOST_TEXT >> 20 });
        }
        Ok(())
    }
}

/// Splits text as GNU tools do: whitespace separates, quotes of both kinds group, and a backslash escapes the next byte, also
/// inside quotes.
pub fn split(text: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote: Option<u8> = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', _) => word.get_or_insert_default().extend(bytes.next()),
            (_, Some(open)) if byte == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(byte),
            (b'\'' | b'"', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, None) => words.extend(word.take().map(OsString::from_vec)),
            (_, None) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.take().map(OsString::from_vec));
    words
}

/// A command line longer than this, in bytes, is passed in a response file: systems limit the arguments of a program (2 MiB
/// on Linux, environment included).
const LONGEST_LINE: usize = 512 * 1024;

/// Whether these arguments should be passed in a response file.
pub fn too_long(words: &[OsString]) -> bool {
    // Each argument takes its bytes, a NUL and a pointer.
    words.iter().map(|word| word.len() + 9).sum::<usize>() > LONGEST_LINE
}

/// Formats arguments as a response file: one per line, quoted so that [`split`] and GNU tools read them back.
pub fn join(words: &[OsString]) -> Vec<u8> {
    let mut text = Vec::new();
    for word in words {
        text.push(b'"');
        for byte in word.as_bytes() {
            if matches!(byte, b'"' | b'\\') {
                text.push(b'\\');
            }
            text.push(*byte);
        }
        text.extend(b"\"\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        split(text.as_bytes()).into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn gnu_quoting() {
        for (text, expected) in [
            ("a b\n\tc", vec!["a", "b", "c"]),
            (r#"'a b' "c d"e"#, vec!["a b", "c de"]),
            (r"a\ b \\c", vec!["a b", r"\c"]),
            (r#""a\"b" '' """#, vec![r#"a"b"#, "", ""]),
            ("", vec![]),
            ("unclosed 'a b", vec!["unclosed", "a b"]),
            ("trailing\\", vec!["trailing"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_joined_is_split_again() {
        let words =
            ["plain", "two words", "it's", r#"a "quoted" one"#, r"back\slash", "", "new\nline"].map(OsString::from);
        assert_eq!(split(&join(&words)), words);
        assert!(!too_long(&words));
        assert!(too_long(&vec![OsString::from("x".repeat(100)); 6000]));
    }

    #[test]
    fn response_files_nest_and_a_missing_one_stays_a_word() {
        let folder = tempfile::tempdir().unwrap();
        let (outer, inner) = (folder.path().join("outer"), folder.path().join("inner"));
        std::fs::write(&inner, "x 'y z'").unwrap();
        std::fs::write(&outer, format!("a @{} b", inner.display())).unwrap();
        let line = [OsString::from(format!("@{}", outer.display())), OsString::from("@/no/such/file")];
        assert_eq!(expand(&line).unwrap(), ["a", "x", "y z", "b", "@/no/such/file"]);
    }

    #[test]
    fn a_response_file_that_includes_itself_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        std::fs::write(&own, format!("@{}", own.display())).unwrap();
        assert!(expand(&[OsString::from(format!("@{}", own.display()))]).is_err());
    }

    #[test]
    fn response_files_nest_only_so_deep() {
        let folder = tempfile::tempdir().unwrap();
        let word = |number: usize| format!("@{}", folder.path().join(number.to_string()).display());
        for number in 0..=DEEPEST {
            std::fs::write(&word(number)[1..], word(number + 1)).unwrap();
        }
        assert_eq!(expand(&[OsString::from(word(1))]).unwrap(), [OsString::from(word(DEEPEST + 1))]);
        let error = error(&[OsString::from(word(0))]);
        assert!(error.ends_with("is nested in 64 others; put the arguments into fewer files"), "{error}");
    }

    fn error(words: &[OsString]) -> String {
        format!("{}", expand(words).unwrap_err())
    }

    #[test]
    fn response_files_that_double_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let name = |number: usize| folder.path().join(number.to_string());
        for number in 0..30 {
            std::fs::write(name(number), format!("@{0} @{0}", name(number + 1).display())).unwrap();
        }
        std::fs::write(name(30), "").unwrap();
        let error = error(&[OsString::from(format!("@{}", name(0).display()))]);
        assert!(error.contains("is one of more than 4096 that this line includes"), "{error}");
    }

    #[test]
    fn response_files_without_an_end_are_rejected() {
        let error = error(&[OsString::from("@/dev/zero")]);
        assert_eq!(
            error,
            "response file /dev/zero goes beyond the 64 MiB of text that response files may have together"
        );
    }

    #[test]
    fn a_response_file_may_be_a_pipe() {
        use std::os::fd::AsRawFd;
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, b"a 'b c'").unwrap();
        drop(writer);
        let word = OsString::from(format!("@/dev/fd/{}", reader.as_raw_fd()));
        assert_eq!(expand(&[word]).unwrap(), ["a", "b c"]);
    }
}
