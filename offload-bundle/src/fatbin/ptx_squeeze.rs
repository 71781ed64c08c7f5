//! The shorter form in which `fatbinary` of CUDA 13 stores PTX, compressed or not.
//!
//! Its rules, as found by comparing outputs: one final NUL goes; comments go, the newline behind `//` stays; a blank or tab that follows
//! white space goes, where "follows" is about the input's previous character and a comment counts as none; text in quotes stays
//! as it is; one NUL is added.

/// `ptx` without comments and needless blanks, and with a NUL behind it.
pub fn squeeze(ptx: &[u8]) -> Vec<u8> {
    let mut rest = ptx.strip_suffix(&[0]).unwrap_or(ptx);
    let mut out = Vec::with_capacity(rest.len() + 1);
    let mut in_quotes = false;
    let mut previous = 0;
    while let Some((&byte, tail)) = rest.split_first() {
        if !in_quotes && let Some(behind) = skip_comment(rest) {
            // What precedes the next character is now the comment's end, which is not white space.
            previous = b'/';
            rest = behind;
            continue;
        }
        if byte == b'"' && previous != b'\\' {
            in_quotes = !in_quotes;
        }
        let is_needless = matches!(byte, b' ' | b'\t') && is_space(previous) && !in_quotes;
        if !is_needless {
            out.push(byte);
        }
        previous = byte;
        rest = tail;
    }
    out.push(0);
    out
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// What follows the comment that `text` starts with, if it starts with one.
fn skip_comment(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'/', b'/', rest @ ..] => {
            let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            Some(rest.get(end.unwrap_or(rest.len())..).unwrap_or_default())
        }
        [b'/', b'*', rest @ ..] => {
            // The star of `/*` may be the one of `*/`: `/*/` is a whole comment.
            let end = text.get(1..)?.windows(2).position(|pair| pair == b"*/");
            Some(end.and_then(|end| rest.get(end + 1..)).unwrap_or_default())
        }
        _ => None,
    }
}
