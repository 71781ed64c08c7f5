//! The shorter form in which `fatbinary` of CUDA 13 stores PTX, compressed or not.
//!
//! Its rules, as found by comparing outputs: one final NUL goes; comments go, the newline behind `//` stays; a blank or tab that follows
//! white space goes, where "follows" is about the input's previous character and a comment counts as none; text in quotes stays
//! as it is; one NUL is added.

/// `ptx` without comments and needless blanks, and with a NUL behind it.
pub fn squeeze(ptx: &[u8]) -> Vec<u8> {
    let text = ptx.strip_suffix(&[0]).unwrap_or(ptx);
    let mut squeezer = Squeezer { out: vec![0; text.len() + 1], len: 0, previous: 0 };
    let mut rest = text;
    let mut in_quotes = false;
    // Slashes and quotes are rare: what lies between them needs no more than a look at white space.
    while let Some(at) = next_special(rest, in_quotes) {
        let (plain, tail) = rest.split_at(at);
        squeezer.take(plain, in_quotes);
        if let Some(behind) = skip_comment(tail).filter(|_| !in_quotes) {
            // What precedes the next character is now the comment's end, which is not white space.
            squeezer.previous = b'/';
            rest = behind;
            continue;
        }
        let (special, behind) = tail.split_at(1);
        if special == b"\"" && squeezer.previous != b'\\' {
            in_quotes = !in_quotes;
        }
        squeezer.take(special, true);
        rest = behind;
    }
    squeezer.take(rest, in_quotes);
    let mut out = squeezer.out;
    out.truncate(squeezer.len);
    out.push(0);
    out
}

/// Where the next quote is, or the next slash where that can start a comment.
fn next_special(text: &[u8], in_quotes: bool) -> Option<usize> {
    if in_quotes { memchr::memchr(b'"', text) } else { memchr::memchr2(b'"', b'/', text) }
}

/// What was kept so far.
struct Squeezer {
    /// Room for all of the text.
    out: Vec<u8>,
    /// How much of it is used.
    len: usize,
    /// The input's last character.
    previous: u8,
}

const SPACE: u8 = 1;
const BLANK: u8 = 2;

/// Which characters are white space, and which of those may go.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    classes[b'\n' as usize] = SPACE;
    classes[b'\r' as usize] = SPACE;
    classes[0x0b] = SPACE;
    classes[0x0c] = SPACE;
    classes[b' ' as usize] = SPACE | BLANK;
    classes[b'\t' as usize] = SPACE | BLANK;
    classes
};

impl Squeezer {
    /// Takes text without comments and quotes, all of it or without needless blanks.
    fn take(&mut self, text: &[u8], is_kept: bool) {
        let Some(&last) = text.last() else { return };
        let Some(room) = self.out.get_mut(self.len..).filter(|room| room.len() >= text.len()) else { return };
        if is_kept {
            room[..text.len()].copy_from_slice(text);
            self.len += text.len();
        } else {
            let mut len = 0;
            let mut is_behind_space = CLASSES[usize::from(self.previous)] & SPACE;
            // Every byte is written; one that goes is overwritten by the next. A branch would be guessed wrong too often.
            for &byte in text {
                room[len] = byte;
                let class = CLASSES[usize::from(byte)];
                len += usize::from(1 - (class >> 1 & is_behind_space));
                is_behind_space = class & SPACE;
            }
            self.len += len;
        }
        self.previous = last;
    }
}

/// What follows the comment that `text` starts with, if it starts with one.
fn skip_comment(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'/', b'/', rest @ ..] => {
            let end = memchr::memchr2(b'\r', b'\n', rest);
            Some(rest.get(end.unwrap_or(rest.len())..).unwrap_or_default())
        }
        [b'/', b'*', rest @ ..] => {
            // The star of `/*` may be the one of `*/`: `/*/` is a whole comment.
            let end = memchr::memmem::find(text.get(1..)?, b"*/");
            Some(end.and_then(|end| rest.get(end + 1..)).unwrap_or_default())
        }
        _ => None,
    }
}
