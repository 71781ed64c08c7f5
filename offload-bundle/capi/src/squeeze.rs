//! The form in which nvFatbin 12 stores PTX.

/// `ptx` as nvFatbin 12.9 stores it (found by comparing 3000 texts): the first line is removed, whatever it is; text behind `//` is
/// removed, the slashes are kept; a blank or tab that follows white space is removed, in quotes too. In quotes `//` is no comment. The
/// NUL at the end is missing where the text ends in a comment.
pub(crate) fn squeeze_12(ptx: &[u8]) -> Vec<u8> {
    let text = ptx.strip_suffix(&[0]).unwrap_or(ptx);
    let mut out = Vec::with_capacity(text.len() + 1);
    let mut is_comment = true;
    let mut in_quotes = false;
    let mut previous = 0;
    for &byte in text.iter().chain(&[0]) {
        if is_comment {
            if matches!(byte, b'\r' | b'\n') {
                is_comment = false;
                out.push(byte);
            }
        } else {
            if byte == b'"' && previous != b'\\' {
                in_quotes = !in_quotes;
            }
            is_comment = byte == b'/' && previous == b'/' && !in_quotes;
            let is_needless = matches!(byte, b' ' | b'\t') && matches!(previous, b' ' | b'\t'..=b'\r');
            if !is_needless {
                out.push(byte);
            }
        }
        previous = byte;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules() {
        let cases: [(&str, &str); 6] = [
            (".version 8.0\nret;", "\nret;\0"),
            ("\n\tld a,\t b;  // sum\nret;\n", "\nld a,\tb; //\nret;\n\0"),
            ("\n\"x  // y\" z", "\n\"x // y\" z\0"),
            ("\na /* x */ b", "\na /* x */ b\0"),
            ("\n// open", "\n//"),
            ("\na\0", "\na\0"),
        ];
        for (text, expected) in cases {
            assert_eq!(squeeze_12(text.as_bytes()), expected.as_bytes(), "{text:?}");
        }
    }
}
