//! The four forms of replies that Redis gives to the commands used here (RESP 2): `+text`, `-error`, `$length` with bytes, and
//! `$-1` for nothing.

use std::io::{self, BufRead, Read};

/// Longest line of a reply, in bytes.
const LONGEST_LINE: u64 = 1024;

/// A reply.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// A status such as `OK`.
    Status(String),
    /// The text of an error.
    Error(String),
    /// A value; `None`: there is none.
    Value(Option<Vec<u8>>),
}

/// A reply that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReplyError {
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("{0}")]
    Form(&'static str),
    /// The value is larger than any entry.
    #[error("the value is too large")]
    TooLarge,
}

/// Reads one reply. A value of more than `largest` bytes is not read.
///
/// # Errors
/// The connection failed, or what came is no such reply.
pub fn read(from: &mut impl BufRead, largest: u64) -> Result<Reply, ReplyError> {
    let line = read_line(from)?;
    let (kind, rest) = line.split_first().ok_or(ReplyError::Form("an empty line"))?;
    let text = || String::from_utf8_lossy(rest).chars().filter(|c| !c.is_control()).collect::<String>();
    match kind {
        b'+' => Ok(Reply::Status(text())),
        b'-' => Ok(Reply::Error(text())),
        b'$' if rest == b"-1" => Ok(Reply::Value(None)),
        b'$' => {
            let length = std::str::from_utf8(rest).ok().filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
            let length: u64 =
                length.and_then(|digits| digits.parse().ok()).ok_or(ReplyError::Form("a length that is no number"))?;
            if length > largest {
                return Err(ReplyError::TooLarge);
            }
            read_value(from, length).map(|value| Reply::Value(Some(value)))
        }
        _ => Err(ReplyError::Form("an unknown kind of reply")),
    }
}

/// Memory grows with what really comes.
fn read_value(from: &mut impl BufRead, length: u64) -> Result<Vec<u8>, ReplyError> {
    let mut value = Vec::new();
    from.take(length).read_to_end(&mut value)?;
    let mut end = [0; 2];
    from.read_exact(&mut end)?;
    if value.len() as u64 == length && end == *b"\r\n" {
        return Ok(value);
    }
    Err(ReplyError::Form("a value of another length"))
}

/// A line without its end.
fn read_line(from: &mut impl BufRead) -> Result<Vec<u8>, ReplyError> {
    let mut line = Vec::new();
    from.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    line.strip_suffix(b"\r\n").map(<[u8]>::to_vec).ok_or(ReplyError::Form("a line without an end"))
}

/// A command as Redis reads it: an array of strings.
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(mut bytes: &[u8]) -> Result<Reply, String> {
        read(&mut bytes, 100).map_err(|error| error.to_string())
    }

    #[test]
    fn replies() {
        assert_eq!(of(b"+OK\r\n"), Ok(Reply::Status("OK".to_owned())));
        assert_eq!(of(b"-OOM no\r\n"), Ok(Reply::Error("OOM no".to_owned())));
        assert_eq!(of(b"$-1\r\n"), Ok(Reply::Value(None)));
        assert_eq!(of(b"$0\r\n\r\n"), Ok(Reply::Value(Some(Vec::new()))));
        assert_eq!(of(b"$3\r\na\r\n\r\n"), Ok(Reply::Value(Some(b"a\r\n".to_vec()))));
    }

    #[test]
    fn what_is_no_reply() {
        for (bytes, why) in [
            (&b""[..], "unexpected end of file"),
            (b"\r\n", "an empty line"),
            (b"+OK", "a line without an end"),
            (b":1\r\n", "an unknown kind of reply"),
            (b"HTTP/1.1 400 Bad Request\r\n", "an unknown kind of reply"),
            (b"$\r\n", "a length that is no number"),
            (b"$-2\r\n", "a length that is no number"),
            (b"$+3\r\nabc\r\n", "a length that is no number"),
            (b"$99999999999999999999\r\n", "a length that is no number"),
            (b"$101\r\n", "the value is too large"),
            (b"$3\r\nab\r\n", "failed to fill whole buffer"),
            (b"$3\r\nabcd\r\n", "a value of another length"),
            (&[b'+'; 2000], "a line without an end"),
        ] {
            assert_eq!(of(bytes), Err(why.to_owned()), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_command() {
        assert_eq!(command(&[b"GET", b"a\r\n"]), b"*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n");
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Reply::Value(Some(value))) = of(&bytes) {
                prop_assert!(value.len() <= bytes.len());
            }
        }

        #[test]
        fn values(value in proptest::collection::vec(any::<u8>(), 0..100)) {
            let bytes = [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat();
            prop_assert_eq!(of(&bytes), Ok(Reply::Value(Some(value))));
        }
    }
}
