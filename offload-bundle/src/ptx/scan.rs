//! Splits PTX text into module-scope statements. Bodies are skipped.

use std::ops::Range;

use crate::cubin::Memory;

/// The linkage of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Linkage {
    /// This module alone.
    Local,
    /// Defined elsewhere.
    Extern,
    /// May be defined several times, and any definition will do.
    Weak,
    /// As weak, for variables without a value.
    Common,
    /// Defined here for all.
    Visible,
}

/// The kind of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// `.func` or `.entry`.
    Function {
        /// `.entry`.
        is_kernel: bool,
    },
    /// A variable outside functions; `None` in `.local` and `.tex`.
    Variable(Option<Memory>),
    /// `.alias`.
    Alias,
    /// `.version`, `.target` and `.address_size`.
    Header,
    /// `.file`.
    File,
    /// `.section`.
    Section,
    /// Anything else.
    Other,
}

/// One statement of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement<'a> {
    /// Its kind.
    pub kind: StatementKind,
    /// Of the name.
    pub linkage: Linkage,
    /// The name that it declares or defines; empty if it has none.
    pub name: &'a [u8],
    /// The whole text, from its first directive to its `;`, `}` or the end of its line.
    pub text: &'a [u8],
    /// Bytes of `text` in front of the body or value.
    pub head: usize,
    /// It has a body.
    pub has_body: bool,
    /// Where the comma is behind which it declares a further variable, as LLVM never does.
    pub comma: Option<usize>,
}

impl<'a> Statement<'a> {
    /// Whether it defines the name and does not just declare it.
    pub fn defines(&self) -> bool {
        match self.kind {
            StatementKind::Function { .. } => self.has_body,
            StatementKind::Variable(_) => self.linkage != Linkage::Extern,
            _ => false,
        }
    }

    /// Whether it is about a function.
    pub fn is_function(&self) -> bool {
        matches!(self.kind, StatementKind::Function { .. })
    }

    /// The text in front of the body or value.
    pub fn head(&self) -> &'a [u8] {
        &self.text[..self.head.min(self.text.len())]
    }
}

/// Text that LLVM does not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyntaxError {
    /// Where in the text.
    pub offset: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// All statements of a module.
///
/// # Errors
/// The byte at which the text is not what LLVM writes, and why.
pub fn statements(text: &[u8]) -> Result<Vec<Statement<'_>>, SyntaxError> {
    let mut scanner = StatementScanner { text, at: 0 };
    let mut found = Vec::new();
    while scanner.skip_blank() {
        let statement = scanner.statement()?;
        if let Some(offset) = statement.comma {
            return Err(SyntaxError { offset, what: "several variables in one statement" });
        }
        found.push(statement);
    }
    Ok(found)
}

/// The statements of PTX that any compiler wrote, without what cannot be read.
pub fn readable_statements(text: &[u8]) -> impl Iterator<Item = Statement<'_>> {
    outermost_statements(text).flatten()
}

/// The same with an error for each place that cannot be read.
pub fn outermost_statements(text: &[u8]) -> impl Iterator<Item = Result<Statement<'_>, SyntaxError>> {
    let mut scanner = StatementScanner { text, at: 0 };
    std::iter::from_fn(move || {
        if !scanner.skip_blank() {
            return None;
        }
        let start = scanner.at;
        let statement = scanner.statement();
        if statement.is_err() {
            // A byte that begins no statement.
            scanner.at = scanner.at.max(start + 1);
        }
        Some(statement)
    })
}

/// The words outside comments and strings.
pub fn words(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(byte) = text.get(at) {
            if in_name(*byte) {
                let start = at;
                at = name_end(text, start);
                return Some(start..at);
            }
            at = quiet_end(text, at).unwrap_or(at + 1);
        }
        None
    })
}

/// Whether a byte can stand inside a name. PTX: `[a-zA-Z0-9_$]`, and `%` in front of registers.
pub fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%')
}

/// The end of the run of name bytes that begins at `start`.
pub fn name_end(text: &[u8], start: usize) -> usize {
    text[start..].iter().position(|byte| !in_name(*byte)).map_or(text.len(), |length| start + length)
}

/// The end of the comment or string at `start`; `None` if there is none.
pub fn quiet_end(text: &[u8], start: usize) -> Option<usize> {
    let rest = &text[start..];
    let length = match rest {
        [b'"', inside @ ..] => memchr::memchr(b'"', inside).map(|length| length + 2),
        [b'/', b'/', ..] => memchr::memchr(b'\n', rest),
        [b'/', b'*', inside @ ..] => inside.windows(2).position(|pair| pair == b"*/").map(|length| length + 4),
        _ => return None,
    };
    // An unterminated one extends to the end.
    Some(length.map_or(text.len(), |length| start + length))
}

struct StatementScanner<'a> {
    text: &'a [u8],
    at: usize,
}

/// What is known of a statement while it is read.
struct Draft<'a> {
    kind: StatementKind,
    linkage: Linkage,
    name: &'a [u8],
    head: Option<usize>,
    /// Open parentheses and brackets.
    depth: usize,
    comma: Option<usize>,
}

impl<'a> StatementScanner<'a> {
    /// Skips blanks, comments and NULs; returns `false` at the end of the text.
    fn skip_blank(&mut self) -> bool {
        while let Some(byte) = self.text.get(self.at) {
            if byte.is_ascii_whitespace() || *byte == 0 {
                self.at += 1;
            } else if *byte == b'/'
                && let Some(end) = quiet_end(self.text, self.at)
            {
                self.at = end;
            } else {
                return true;
            }
        }
        false
    }

    fn error<T>(&self, what: &'static str) -> Result<T, SyntaxError> {
        Err(SyntaxError { offset: self.at, what })
    }

    fn statement(&mut self) -> Result<Statement<'a>, SyntaxError> {
        let start = self.at;
        let rest = &self.text[start..];
        const LINES: [(&[u8], StatementKind); 4] = [
            (b".version", StatementKind::Header),
            (b".target", StatementKind::Header),
            (b".address_size", StatementKind::Header),
            (b".file", StatementKind::File),
        ];
        if let Some((_, kind)) = LINES.iter().find(|(word, _)| rest.starts_with(word)) {
            return Ok(self.line(*kind));
        }
        if rest.first() != Some(&b'.') {
            return self.error("no directive");
        }
        let (kind, linkage) = (StatementKind::Other, Linkage::Local);
        let mut draft = Draft { kind, linkage, name: b"", head: None, depth: 0, comma: None };
        let has_body = self.tokens(&mut draft)?;
        let Draft { kind, linkage, name, comma, .. } = draft;
        if name.is_empty() && matches!(kind, StatementKind::Function { .. } | StatementKind::Variable(_)) {
            return self.error("a declaration without a name");
        }
        let text = &self.text[start..self.at];
        let head = draft.head.map_or(text.len().saturating_sub(1), |head| head - start);
        Ok(Statement { kind, linkage, name, text, head, has_body, comma })
    }

    /// A directive that ends with its line.
    fn line(&mut self, kind: StatementKind) -> Statement<'a> {
        let start = self.at;
        let mut end = start;
        while let Some(byte) = self.text.get(end).filter(|byte| **byte != b'\n') {
            match quiet_end(self.text, end) {
                Some(_) if *byte == b'/' => break,
                Some(next) => end = next,
                None => end += 1,
            }
        }
        self.at = end;
        let text = self.text[start..end].trim_ascii_end();
        Statement { kind, linkage: Linkage::Local, name: b"", text, head: text.len(), has_body: false, comma: None }
    }

    /// Reads to the end of a statement; returns whether it has a body.
    fn tokens(&mut self, draft: &mut Draft<'a>) -> Result<bool, SyntaxError> {
        while self.skip_blank() {
            let byte = self.text[self.at];
            match byte {
                b'.' => self.directive(draft),
                b'(' | b'[' => draft.depth += 1,
                b')' | b']' if draft.depth == 0 => return self.error("a bracket that was not opened"),
                b')' | b']' => draft.depth -= 1,
                b'{' if matches!(draft.kind, StatementKind::Function { .. } | StatementKind::Section) => {
                    draft.head = Some(self.at);
                    self.block()?;
                    return Ok(true);
                }
                b'{' => {
                    self.block()?;
                    continue;
                }
                b'=' => draft.head = draft.head.or(Some(self.at)),
                b',' if draft.depth == 0 && matches!(draft.kind, StatementKind::Variable(_)) => {
                    draft.comma = draft.comma.or(Some(self.at));
                }
                b';' if draft.depth == 0 => {
                    self.at += 1;
                    return Ok(false);
                }
                b'"' => {
                    self.at = quiet_end(self.text, self.at).unwrap_or(self.text.len());
                    continue;
                }
                _ if in_name(byte) => {
                    self.name(draft);
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        self.error("the text ends inside a statement")
    }

    /// A name or number; the first name outside parentheses is what the statement is about.
    fn name(&mut self, draft: &mut Draft<'a>) {
        let end = name_end(self.text, self.at);
        if draft.depth == 0 && draft.name.is_empty() && !self.text[self.at].is_ascii_digit() {
            draft.name = &self.text[self.at..end];
        }
        self.at = end;
    }

    /// Reads a word behind a dot, and stops at its last byte.
    fn directive(&mut self, draft: &mut Draft<'a>) {
        let end = name_end(self.text, self.at + 1);
        let word = &self.text[self.at + 1..end];
        self.at = end - 1;
        if draft.depth > 0 || !draft.name.is_empty() {
            return;
        }
        match word {
            b"visible" => draft.linkage = Linkage::Visible,
            b"extern" => draft.linkage = Linkage::Extern,
            b"weak" => draft.linkage = Linkage::Weak,
            b"common" => draft.linkage = Linkage::Common,
            b"func" | b"entry" => draft.kind = StatementKind::Function { is_kernel: word == b"entry" },
            b"alias" => draft.kind = StatementKind::Alias,
            b"section" => draft.kind = StatementKind::Section,
            b"const" => draft.kind = StatementKind::Variable(Some(Memory::Constant)),
            b"global" => draft.kind = StatementKind::Variable(Some(Memory::Global)),
            b"shared" => draft.kind = StatementKind::Variable(Some(Memory::Shared)),
            b"local" | b"tex" => draft.kind = StatementKind::Variable(None),
            // A section is named by a word with a dot.
            _ if draft.kind == StatementKind::Section => draft.name = word,
            _ => {}
        }
    }

    /// Skips braces with their contents.
    fn block(&mut self) -> Result<(), SyntaxError> {
        let mut depth = 0_usize;
        // The next brace or string; it is found once, however many comments are in front of it.
        let mut mark = self.at;
        while self.at < self.text.len() {
            if mark < self.at {
                let rest = &self.text[self.at..];
                mark = memchr::memchr3(b'{', b'}', b'"', rest).map_or(self.text.len(), |next| self.at + next);
            }
            if let Some(slash) = memchr::memchr(b'/', &self.text[self.at..mark]) {
                let slash = self.at + slash;
                self.at = quiet_end(self.text, slash).unwrap_or(slash + 1);
                continue;
            }
            self.at = mark;
            match self.text.get(mark) {
                Some(b'{') => depth += 1,
                Some(b'}') => depth -= 1,
                Some(_) => {
                    self.at = quiet_end(self.text, mark).unwrap_or(self.text.len());
                    continue;
                }
                None => break,
            }
            self.at += 1;
            // The first byte opened one.
            if depth == 0 {
                return Ok(());
            }
        }
        self.error("a brace that is not closed")
    }
}
