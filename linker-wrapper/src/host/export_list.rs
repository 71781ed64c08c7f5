//! Which of the program's symbols other programs and libraries may use, by version scripts and dynamic lists.
//!
//! In doubt a symbol is exported. The grammar is that of GNU ld's manual, "VERSION Command", which lld and mold read, too.

use std::path::Path;

/// The symbols that a link exports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exports {
    /// Every visible symbol, unless a version script makes it local.
    pub all: bool,
    /// Patterns for more, from dynamic lists and version scripts.
    shown: Vec<Pattern>,
    /// Patterns for what version scripts make local.
    hidden: Vec<Pattern>,
}

/// A name, or a pattern with `*`, `?` and `[`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    text: String,
    /// Quoted, so that its characters stand for themselves. mold 1 reads it as a pattern all the same.
    is_literal: bool,
}

impl Exports {
    /// Whether others may use the symbol.
    pub fn contains(&self, name: &[u8]) -> bool {
        let is_among = |patterns: &[Pattern], in_doubt| patterns.iter().any(|one| one.matches(name, in_doubt));
        is_among(&self.shown, true) || (self.all && !is_among(&self.hidden, false))
    }

    /// Adds the symbols of `--export-dynamic-symbol`.
    pub fn add_pattern(&mut self, text: &str) {
        self.shown.push(Pattern { text: text.to_owned(), is_literal: false });
    }

    /// Adds a dynamic list or a version script. One that cannot be read or understood exports everything.
    pub fn add_file(&mut self, path: &Path) {
        let text = std::fs::read_to_string(path).ok();
        match text.as_deref().and_then(tokens).and_then(|tokens| read(&tokens)) {
            Some((shown, hidden)) => {
                self.shown.extend(shown);
                self.hidden.extend(hidden);
            }
            None => self.add_pattern("*"),
        }
    }
}

impl Pattern {
    /// Whether it stands for the name; `in_doubt` where linkers differ, and for patterns with a set of characters.
    fn matches(&self, name: &[u8], in_doubt: bool) -> bool {
        match self.is_literal && !in_doubt {
            true => self.text.as_bytes() == name,
            false if self.text.as_bytes() == name => true,
            false if self.text.contains(['[', '\\']) => in_doubt,
            false => glob(self.text.as_bytes(), name),
        }
    }
}

/// Whether a name is a pattern.
pub fn is_pattern(name: &[u8]) -> bool {
    name.iter().any(|byte| b"*?[".contains(byte))
}

/// Whether a pattern stands for the name, or may: one with a set of characters may stand for all.
pub fn may_match(pattern: &[u8], name: &[u8]) -> bool {
    pattern.contains(&b'[') || glob(pattern, name)
}

/// Whether a pattern of plain characters, `*` and `?` stands for the name.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star = None;
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[from] => {
                at += 1;
                from += 1;
            }
            // The last star takes one character more.
            _ => match star {
                Some((place, taken)) => {
                    star = Some((place, taken + 1));
                    (at, from) = (place + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Quoted(String),
    /// One of `{ } ;` and `:`, where it ends a word.
    Mark(char),
}

/// Splits a list into words and marks, without comments. `None` for one that ends within a comment or a quoted name.
fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/")?.1;
        } else if first == '#' {
            rest = rest.split_once('\n').map_or("", |(_, next)| next);
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let (name, next) = quoted.split_once('"')?;
            found.push(Token::Quoted(name.to_owned()));
            rest = next;
        } else if first.is_whitespace() {
            rest = &rest[first.len_utf8()..];
        } else if matches!(first, '{' | '}' | ';') {
            found.push(Token::Mark(first));
            rest = &rest[1..];
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '{' | '}' | ';' | '"'));
            let (word, next) = rest.split_at(end.unwrap_or(rest.len()));
            // A colon ends `global` and `local`; in other places it is part of a C++ name.
            match word.split_once(':').filter(|(_, behind)| !behind.starts_with(':')) {
                Some((label, behind)) => {
                    found.extend([Token::Word(label.to_owned()), Token::Mark(':')]);
                    rest = &rest[word.len() - behind.len()..];
                }
                None => {
                    found.push(Token::Word(word.to_owned()));
                    rest = next;
                }
            }
        }
    }
    Some(found)
}

/// Returns the patterns for what the list exports and for what it makes local. `None` if it is not understood.
fn read(tokens: &[Token]) -> Option<(Vec<Pattern>, Vec<Pattern>)> {
    let (mut shown, mut hidden) = (Vec::new(), Vec::new());
    let mut is_local = false;
    // Blocks that are open: a version, and a language within it.
    let mut depth = 0;
    let mut tokens = tokens.iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            Token::Mark('{') if depth == 0 => (depth, is_local) = (1, false),
            Token::Mark('}') if depth > 0 => depth -= 1,
            Token::Mark(';') => {}
            // The name of a version, or of the one that it builds on.
            Token::Word(_) if depth == 0 => {}
            Token::Word(word) if tokens.next_if_eq(&&Token::Mark(':')).is_some() => match word.as_str() {
                "global" => is_local = false,
                "local" => is_local = true,
                _ => return None,
            },
            Token::Word(word) if word == "extern" && matches!(tokens.peek(), Some(Token::Quoted(_))) => {
                // The names of other languages than C are demangled ones, which tools write differently.
                (tokens.next() == Some(&Token::Quoted("C".to_owned()))).then_some(())?;
                tokens.next_if_eq(&&Token::Mark('{'))?;
                depth += 1;
            }
            Token::Word(text) | Token::Quoted(text) if depth > 0 => {
                let pattern = Pattern { text: text.clone(), is_literal: matches!(token, Token::Quoted(_)) };
                if is_local { &mut hidden } else { &mut shown }.push(pattern);
            }
            _ => return None,
        }
    }
    (depth == 0).then_some((shown, hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exports(text: &str) -> Exports {
        let (shown, hidden) = tokens(text).and_then(|tokens| read(&tokens)).unwrap();
        Exports { all: true, shown, hidden }
    }

    #[test]
    fn version_scripts_make_symbols_local() {
        let text = "# comment\nV1 { global: api_*; \"exact*\"; extern \"C\" { c_name; }; local: *; };\nV2 { new?; } V1; /* end */";
        let found = exports(text);
        for name in ["api_", "api_a", "exact*", "c_name", "new1"] {
            assert!(found.contains(name.as_bytes()), "{name}");
        }
        for name in ["ap", "new", "new12", "c_names"] {
            assert!(!found.contains(name.as_bytes()), "{name}");
        }
        assert!(exports("{ local: hidden; };").contains(b"other"));
        assert!(!exports("{local:hidden;};").contains(b"hidden"));
    }

    #[test]
    fn linkers_differ_in_quoted_patterns() {
        // mold exports `exactly`, the others do not; mold hides it, the others do not.
        assert!(exports("{ global: \"exact*\"; local: *; };").contains(b"exactly"));
        assert!(exports("{ local: \"exact*\"; };").contains(b"exactly"));
        assert!(!exports("{ local: \"exact\"; };").contains(b"exact"));
    }

    #[test]
    fn dynamic_lists_add_symbols() {
        let (shown, hidden) = tokens("{ f; g*; };").and_then(|tokens| read(&tokens)).unwrap();
        let found = Exports { all: false, shown, hidden };
        assert!(found.contains(b"f") && found.contains(b"good") && !found.contains(b"h"));
    }

    #[test]
    fn in_doubt_a_symbol_is_exported() {
        assert!(exports("{ global: a[0-9]; local: *; };").contains(b"b"));
        assert!(exports("{ local: a[0-9]; };").contains(b"a1"));
        for text in [
            "{ global: extern \"C++\" { ns::f*; }; local: *; };",
            "{ local: *;",
            "{ other: *; };",
            "/* open",
            "{ \"open; };",
            "};",
            ":",
        ] {
            assert_eq!(tokens(text).and_then(|tokens| read(&tokens)), None, "{text}");
        }
        let mut found = Exports::default();
        found.add_file(Path::new("/nonexistent/list"));
        assert!(found.contains(b"any"));
    }

    #[test]
    fn globs_match_whole_names() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("**", "x", true),
            ("?", "", false),
            ("a", "ab", false),
            ("*ab", "aab", true),
        ] {
            assert_eq!(glob(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
