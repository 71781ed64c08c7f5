//! Rewrites statements: replaces names, renumbers files, removes comments.

use std::collections::{HashMap, HashSet};

use super::error::JoinError;
use super::scan::{Linkage, Statement, in_name, name_end, quiet_end};

/// What changes in the statements of one part.
#[derive(Debug, Default)]
pub struct Changes<'a> {
    /// The part, counted from 0.
    pub part: usize,
    /// Old name to new name.
    pub names: HashMap<&'a [u8], Vec<u8>>,
    /// New names of the part: its text may not use them already.
    pub taken: HashSet<Vec<u8>>,
    /// Old number of a `.file` to its new one, where they differ.
    pub files: HashMap<u64, u64>,
}

impl Changes<'_> {
    /// Writes `text` with the changes.
    ///
    /// # Errors
    /// A new name that the text already uses.
    pub fn apply(&self, text: &[u8], out: &mut Vec<u8>) -> Result<(), JoinError> {
        if self.names.is_empty() && self.files.is_empty() {
            out.extend_from_slice(text);
            return Ok(());
        }
        let lengths = self.lengths();
        // Everything in front of `done` is written.
        let (mut done, mut at) = (0, 0);
        while let Some(byte) = text.get(at) {
            if !in_name(*byte) {
                at = quiet_end(text, at).unwrap_or(at + 1);
                continue;
            }
            let end = name_end(text, at);
            let word = &text[at..end];
            let modifier = at > 0 && text[at - 1] == b'.';
            if modifier && word == b"loc" || !modifier && word == b"inlined_at" {
                (done, at) = self.file_number(text, done, end, out);
                continue;
            }
            if !modifier && lengths >> word.len().min(63) & 1 == 1 {
                if self.taken.contains(word) {
                    let name = String::from_utf8_lossy(word).into_owned();
                    return Err(JoinError::NameInUse { part: self.part, name });
                }
                if let Some(new) = self.names.get(word) {
                    out.extend_from_slice(&text[done..at]);
                    out.extend_from_slice(new);
                    done = end;
                }
            }
            at = end;
        }
        out.extend_from_slice(&text[done..]);
        Ok(())
    }

    /// A bit for each length of a name to replace: most words need no look-up.
    fn lengths(&self) -> u64 {
        let names = self.names.keys().map(|name| name.len()).chain(self.taken.iter().map(Vec::len));
        names.fold(0, |bits, length| bits | 1_u64 << length.min(63))
    }

    /// The number behind `.loc` or `inlined_at`; where the next word may be found comes back.
    fn file_number(&self, text: &[u8], done: usize, from: usize, out: &mut Vec<u8>) -> (usize, usize) {
        let blanks = text[from..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let start = from + blanks;
        let end = name_end(text, start);
        let number = std::str::from_utf8(&text[start..end]).ok().and_then(|digits| digits.parse::<u64>().ok());
        match number.and_then(|number| self.files.get(&number)) {
            Some(new) => {
                out.extend_from_slice(&text[done..start]);
                out.extend_from_slice(new.to_string().as_bytes());
                (end, end)
            }
            None => (done, end),
        }
    }
}

/// Text without comments, in which blanks are one blank each.
fn plain(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        if *byte == b'/'
            && let Some(end) = quiet_end(text, at)
        {
            at = end;
            continue;
        }
        match byte.is_ascii_whitespace() {
            true if out.last() == Some(&b' ') => {}
            true => out.push(b' '),
            false => out.push(*byte),
        }
        at += 1;
    }
    out.truncate(out.trim_ascii_end().len());
    out
}

/// The statement that declares a function before its definition. ptxas requires the definition's own linkage and
/// `.noreturn` in it.
pub fn declaration(definition: &Statement<'_>) -> Vec<u8> {
    let mut text = plain(definition.head());
    // Kernels have further directives behind their parameters (`.maxntid`), which belong to the definition.
    let end = text.iter().rposition(|byte| *byte == b')').map_or(text.len(), |place| place + 1);
    let noreturn = contains(&text[end..], b".noreturn");
    // Parentheses behind the parameters would hide the end of these.
    text.truncate(end);
    text.extend_from_slice(if noreturn { b" .noreturn;" } else { b";" });
    text
}

/// The statement that announces a variable before its definition: of the same type to the letter, and `.extern`.
pub fn announcement(definition: &Statement<'_>) -> Vec<u8> {
    let text = plain(definition.head());
    let linkage = linkage_word(definition.linkage);
    let rest = text.strip_prefix(linkage).unwrap_or(&text).trim_ascii();
    [b".extern ", rest, b";"].concat()
}

/// A function's type as text: what calls of it rely on. Linkage and `.noreturn` do not belong to it.
pub fn signature(statement: &Statement<'_>) -> Vec<u8> {
    let text = plain(statement.head());
    let text = text.strip_prefix(linkage_word(statement.linkage)).unwrap_or(&text);
    let end = text.iter().rposition(|byte| *byte == b')').map_or(text.len(), |place| place + 1);
    text[..end].iter().copied().filter(|byte| *byte != b' ').collect()
}

/// Whether a function is declared as `.noreturn`.
pub fn is_noreturn(statement: &Statement<'_>) -> bool {
    contains(&plain(statement.head()), b".noreturn")
}

fn linkage_word(linkage: Linkage) -> &'static [u8] {
    match linkage {
        Linkage::Local => b"",
        Linkage::Extern => b".extern",
        Linkage::Weak => b".weak",
        Linkage::Common => b".common",
        Linkage::Visible => b".visible",
    }
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}
