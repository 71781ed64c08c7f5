//! Escapes names and texts from files, so that no file can send commands to a terminal.

use std::borrow::Cow;

/// Escapes a name as a part of a line: control characters, line ends included, and those that change the direction of text become escapes
/// such as `\u001b`, which are valid in JSON, too.
///
/// ```
/// assert_eq!(offload_bundle::printable::name("a\x1b[2J.o"), "a\\u001b[2J.o");
/// ```
pub fn name(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.is_control() || turns_text(c))
}

/// Escapes a text of several lines, in which line ends and tabs stay as they are.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| (c.is_control() && !matches!(c, '\n' | '\t')) || turns_text(c))
}

/// Whether it is one of Unicode's characters that change the direction of text.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_harmful: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_harmful(c) {
            out += &format!("\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_bytes_are_shown() {
        for (text, shown, shown_as_lines) in [
            ("größe.cu", "größe.cu", "größe.cu"),
            ("a\tb\nc", "a\\u0009b\\u000ac", "a\tb\nc"),
            ("\x1b]0;x\x07\r\x7f", "\\u001b]0;x\\u0007\\u000d\\u007f", "\\u001b]0;x\\u0007\\u000d\\u007f"),
            ("\u{9b}2J\u{202e}", "\\u009b2J\\u202e", "\\u009b2J\\u202e"),
        ] {
            assert_eq!((name(text), lines(text)), (Cow::Borrowed(shown), Cow::Borrowed(shown_as_lines)));
        }
    }

    #[test]
    fn json_stays_the_same() {
        let value = "\x1b\u{9b}\u{202e}\x7f";
        let text = serde_json::to_string(value).expect("a text");
        assert!(!lines(&text).chars().any(char::is_control));
        assert_eq!(serde_json::from_str::<String>(&lines(&text)).expect("JSON"), value);
    }
}
