//! The shorter form in which `fatbinary` of CUDA 13 stores PTX, compressed or not.
//!
//! Its rules, as found by comparing outputs: one final NUL is removed; comments are removed, the newline behind `//` is kept; a blank or
//! tab that follows white space is removed, where "follows" refers to the input's previous character and a comment does not count as
//! white space; text in quotes is kept; one NUL is added.

use std::ops::Range;

/// Maximum number of bytes squeezed at a time: they fit into the L1 cache twice. Whole words, except for the last.
const PIECE: usize = 4096;

/// Removes comments and needless blanks from PTX, and appends a NUL.
pub fn squeeze(ptx: &[u8]) -> Vec<u8> {
    let text = ptx.strip_suffix(&[0]).unwrap_or(ptx);
    let mut out = Vec::with_capacity(text.len() + 1);
    let (mut pieces, mut room) = (Pieces::default(), [0; PIECE]);
    while let Some(piece) = pieces.next(text) {
        out.extend_from_slice(piece.squeezed(text, &mut room));
    }
    out.push(0);
    out
}

/// [`squeeze`] in place.
pub(super) fn squeeze_in_place(mut text: Vec<u8>) -> Vec<u8> {
    let end = text.strip_suffix(&[0]).unwrap_or(&text).len();
    let mut len = 0;
    let (mut pieces, mut room) = (Pieces::default(), [0; PIECE]);
    while let Some(piece) = pieces.next(&text[..end]) {
        // The output is never longer than what was read, so it overwrites no unread text.
        let kept = piece.squeezed(&text, &mut room);
        text[len..len + kept.len()].copy_from_slice(kept);
        len += kept.len();
    }
    text.truncate(len);
    text.push(0);
    text
}

/// The position of the next piece in a text.
#[derive(Default)]
struct Pieces {
    at: usize,
    in_quotes: bool,
    /// The character in front.
    previous: u8,
}

/// Some of a text that is not in a comment.
struct Piece {
    range: Range<usize>,
    /// The character in front.
    previous: u8,
    /// Whether all of it is kept.
    is_kept: bool,
}

impl Pieces {
    /// The next piece of `text`. The text in front of it may be overwritten already.
    fn next(&mut self, text: &[u8]) -> Option<Piece> {
        let rest = loop {
            let rest = text.get(self.at..).filter(|rest| !rest.is_empty())?;
            let Some(behind) = (!self.in_quotes).then(|| skip_comment(rest)).flatten() else { break rest };
            self.at = text.len() - behind.len();
            // The comment's end precedes the next character now, and is not white space.
            self.previous = b'/';
        };
        // Slashes and quotes are rare; the text between them is checked for white space alone.
        let window = rest.get(..PIECE).unwrap_or(rest);
        let (len, is_kept) = match next_special(window, self.in_quotes) {
            Some(0) => {
                let is_quote = rest[0] == b'"' && self.previous != b'\\';
                self.in_quotes ^= is_quote;
                (1, true)
            }
            Some(special) => (special, self.in_quotes),
            None => (window.len(), self.in_quotes),
        };
        let piece = Piece { range: self.at..self.at + len, previous: self.previous, is_kept };
        self.at += len;
        self.previous = rest[len - 1];
        Some(piece)
    }
}

impl Piece {
    /// Copies the part of it that is kept into `room`.
    fn squeezed<'a>(&self, text: &[u8], room: &'a mut [u8; PIECE]) -> &'a [u8] {
        let text = &text[self.range.clone()];
        let len = if self.is_kept {
            room[..text.len()].copy_from_slice(text);
            text.len()
        } else {
            squeeze_plain(text, self.previous, room)
        };
        &room[..len]
    }
}

/// Where the next quote is, or the next slash where that can start a comment.
fn next_special(text: &[u8], in_quotes: bool) -> Option<usize> {
    if in_quotes { memchr::memchr(b'"', text) } else { memchr::memchr2(b'"', b'/', text) }
}

/// Copies text of at most a piece into `room` without its needless blanks, and returns its new length.
fn squeeze_plain(text: &[u8], previous: u8, room: &mut [u8; PIECE]) -> usize {
    let mut marks = [0; PIECE];
    mark_needless(text, previous, &mut marks);
    let (words, rest) = text.as_chunks::<8>();
    let (marks_of_words, marks_of_rest) = marks[..text.len()].as_chunks::<8>();
    let mut len = 0;
    for (word, marks) in words.iter().zip(marks_of_words) {
        let (mut kept, mut needless) = (u64::from_le_bytes(*word), u64::from_le_bytes(*marks));
        // The first one without a branch: many words have one, and branch prediction would fail.
        let mut count = 8 - drop_first(&mut kept, &mut needless);
        while needless != 0 {
            count -= drop_first(&mut kept, &mut needless);
        }
        // All eight bytes are written; the next word overwrites the excess.
        if let Some(place) = room.get_mut(len..).and_then(|room| room.first_chunk_mut()) {
            *place = kept.to_le_bytes();
        }
        len += count;
    }
    for (byte, mark) in rest.iter().zip(marks_of_rest) {
        room[len] = *byte;
        len += usize::from(*mark == 0);
    }
    len
}

/// Sets 1 where a blank or tab follows white space. (The compiler vectorizes this loop.)
fn mark_needless(text: &[u8], previous: u8, marks: &mut [u8; PIECE]) {
    let is_needless = |previous: u8, byte: u8| u8::from(is_blank(byte) & is_space(previous));
    let Some((&first, behind)) = text.split_first() else { return };
    marks[0] = is_needless(previous, first);
    for ((mark, byte), previous) in marks[1..].iter_mut().zip(behind).zip(text) {
        *mark = is_needless(*previous, *byte);
    }
}

fn is_blank(byte: u8) -> bool {
    (byte == b' ') | (byte == b'\t')
}

fn is_space(byte: u8) -> bool {
    // Tab to carriage return: five characters in a row.
    (byte == b' ') | (byte.wrapping_sub(b'\t') < 5)
}

/// Drops the first needless character of a word, marked by a 1 in `needless`, and moves the rest up. Returns the number of dropped
/// characters, 0 or 1.
#[inline(always)]
fn drop_first(word: &mut u64, needless: &mut u64) -> usize {
    let first = *needless & needless.wrapping_neg();
    // Without a set bit this counts all characters.
    let in_front = first.wrapping_sub(1);
    *word = *word & in_front | *word >> 8 & !in_front;
    *needless = (*needless ^ first) >> 8;
    usize::from(first != 0)
}

/// The text behind the comment at the start of `text`, if there is one.
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
