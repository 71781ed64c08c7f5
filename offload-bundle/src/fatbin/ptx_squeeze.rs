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

/// The same byte eight times.
const fn all(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The high bit of each byte.
const HIGH: u64 = all(0x80);

/// The high bit of each byte of `word` that is zero. (Exact for every byte, unlike the shorter form with a borrow.)
fn zero_bytes(word: u64) -> u64 {
    !(((word & !HIGH) + !HIGH) | word | !HIGH)
}

/// The high bits of the blanks and tabs, and those of all white space, of eight characters.
fn blanks_and_spaces(word: u64) -> (u64, u64) {
    let blanks = zero_bytes(word ^ all(b' ')) | zero_bytes(word ^ all(b'\t'));
    // Newline to carriage return: four characters in a row.
    let low = word & !HIGH;
    let at_least = low + all(0x80 - b'\n');
    let above = low + all(0x80 - (b'\r' + 1));
    let others = at_least & !above & !word & HIGH;
    (blanks, blanks | others)
}

impl Squeezer {
    /// Takes text without comments and quotes, all of it or without needless blanks.
    fn take(&mut self, text: &[u8], is_kept: bool) {
        let Some(&last) = text.last() else { return };
        let Some(room) = self.out.get_mut(self.len..).filter(|room| room.len() >= text.len()) else { return };
        if is_kept {
            room[..text.len()].copy_from_slice(text);
            self.len += text.len();
        } else {
            self.len += squeeze_plain(text, self.previous, room);
        }
        self.previous = last;
    }
}

/// Copies text without its needless blanks into `room`, which is at least as long, and tells how long it is then.
///
/// Eight characters at a time: most have no blank to drop, or one.
fn squeeze_plain(text: &[u8], previous: u8, room: &mut [u8]) -> usize {
    let (words, rest) = text.as_chunks::<8>();
    let mut len = 0;
    // The high bit in the lowest byte: whether the character in front is white space.
    let mut carry = blanks_and_spaces(u64::from(previous)).1 & 0x80;
    for word in words {
        let word = u64::from_le_bytes(*word);
        let (blanks, spaces) = blanks_and_spaces(word);
        let mut needless = blanks & (spaces << 8 | carry);
        carry = spaces >> 56;
        let mut kept = word;
        let mut count = 8;
        while needless != 0 {
            // From the last to the first, so that those in front stay where they are.
            let bit = 63 - needless.leading_zeros();
            let below = (1u64 << (bit - 7)) - 1;
            kept = kept & below | kept >> 8 & !below;
            needless ^= 1 << bit;
            count -= 1;
        }
        // All eight are written; what is too much is overwritten by the next.
        if let Some(place) = room.get_mut(len..).and_then(|room| room.first_chunk_mut()) {
            *place = kept.to_le_bytes();
        }
        len += count;
    }
    let mut is_behind_space = carry != 0;
    for &byte in rest {
        let is_blank = matches!(byte, b' ' | b'\t');
        if !(is_blank && is_behind_space) {
            room[len] = byte;
            len += 1;
        }
        is_behind_space = is_blank || matches!(byte, b'\n'..=b'\r');
    }
    len
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
