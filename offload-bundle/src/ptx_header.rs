//! The first two directives of PTX text: `.version` and `.target`.

use crate::arch::{GpuArch, PtxVersion};

/// What PTX text says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PtxHeader {
    pub(crate) version: PtxVersion,
    /// `None` where there is no `.target`, or one that names no GPU.
    pub(crate) target: Option<GpuArch>,
    /// Its `.address_size`, 32 or 64, if it stands right behind.
    pub(crate) address_size: Option<u32>,
}

/// Reads the directives; PTX must begin with them, comments and blanks aside. `None` without a `.version`.
pub(crate) fn read(text: &[u8]) -> Option<PtxHeader> {
    let rest = skip_blanks(text).strip_prefix(b".version")?;
    let (version, rest) = word(skip_blanks(rest));
    let version = parse_version(version)?;
    let mut header = PtxHeader { version, target: None, address_size: None };
    let Some(rest) = skip_blanks(rest).strip_prefix(b".target") else { return Some(header) };
    let (name, rest) = word(skip_blanks(rest));
    header.target = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok());
    header.address_size = address_size(rest);
    Some(header)
}

/// Reads `, texmode_independent`, if it is there, and `.address_size 64`.
fn address_size(mut text: &[u8]) -> Option<u32> {
    text = skip_blanks(text);
    while let Some(rest) = text.strip_prefix(b",") {
        text = skip_blanks(word(skip_blanks(rest)).1);
    }
    let (bits, _) = word(skip_blanks(text.strip_prefix(b".address_size")?));
    std::str::from_utf8(bits).ok()?.parse().ok()
}

fn parse_version(word: &[u8]) -> Option<PtxVersion> {
    let (major, minor) = std::str::from_utf8(word).ok()?.split_once('.')?;
    Some(PtxVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// The letters, digits, dots and underscores that `text` starts with, and what is behind them.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
    let end = text.iter().position(|byte| !is_part(byte)).unwrap_or(text.len());
    text.split_at(end)
}

/// `text` from behind its first blanks and comments on.
fn skip_blanks(mut text: &[u8]) -> &[u8] {
    loop {
        text = text.trim_ascii_start();
        let end = match text {
            [b'/', b'/', rest @ ..] => rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')).map(|end| end + 2),
            [b'/', b'*', rest @ ..] => rest.windows(2).position(|pair| pair == b"*/").map(|end| end + 4),
            _ => return text,
        };
        text = end.and_then(|end| text.get(end..)).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_between_comments() {
        let text = b"// .version 1.0\n/* two\n */\n\n.version 8.7 // newest\n.target sm_90a, texmode_independent\n";
        let header = read(text).expect("a version");
        assert_eq!(header.version, PtxVersion { major: 8, minor: 7 });
        assert_eq!(header.target.map(|target| target.to_string()), Some("sm_90a".to_owned()));
        let only_version = read(b".version 9.0\n.address_size 64\n").expect("a version");
        assert_eq!(only_version.target, None);
        assert_eq!(read(b".version 9.0 .target sm_9000000000").expect("a version").target, None);
    }

    #[test]
    fn text_without_a_version() {
        for text in ["", "/*", "//", ".target sm_90", ".version", ".version 9", ".version 9.", ".version 999.0", "x"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
