//! Rewrites statements: replaces names, renumbers files, removes comments.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::super::scan::{Linkage, Statement, quiet_end, words};
use super::error::JoinError;

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
        let (mut done, mut is_file) = (0, false);
        for Range { start, end } in words(text) {
            let word = &text[start..end];
            let is_modifier = start > 0 && text[start - 1] == b'.';
            let was_file =
                std::mem::replace(&mut is_file, word == if is_modifier { &b"loc"[..] } else { b"inlined_at" });
            let new = match () {
                () if was_file => self.file_number(word).map(Cow::Owned),
                () if is_modifier || is_file || lengths >> word.len().min(63) & 1 == 0 => None,
                () if self.taken.contains(word) => {
                    let name = String::from_utf8_lossy(word).into_owned();
                    return Err(JoinError::NameInUse { part: self.part, name });
                }
                () => self.names.get(word).map(Cow::Borrowed),
            };
            if let Some(new) = new {
                out.extend_from_slice(&text[done..start]);
                out.extend_from_slice(&new);
                done = end;
            }
        }
        out.extend_from_slice(&text[done..]);
        Ok(())
    }

    /// A bit for each length of a name to replace: most words need no look-up.
    fn lengths(&self) -> u64 {
        let names = self.names.keys().map(|name| name.len()).chain(self.taken.iter().map(Vec::len));
        names.fold(0, |bits, length| bits | 1_u64 << length.min(63))
    }

    /// The new number of a file, which stands behind `.loc` or `inlined_at`.
    fn file_number(&self, word: &[u8]) -> Option<Vec<u8>> {
        let number = std::str::from_utf8(word).ok()?.parse().ok()?;
        self.files.get(&number).map(|new| new.to_string().into_bytes())
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
