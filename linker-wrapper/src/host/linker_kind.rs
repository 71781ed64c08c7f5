//! Tells the host linkers apart whose options and scripts differ.

use std::path::Path;

use crate::sys::process::{self, Mode};

/// Whose linker it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkerKind {
    /// GNU ld.
    Gnu,
    /// LLVM's.
    Lld,
    /// gold.
    Gold,
    /// Any other.
    Other,
}

/// Asks the linker for its version. In a dry run nothing is executed, so its name must do.
pub fn of(linker: &Path, mode: Mode) -> LinkerKind {
    if mode.dry {
        return named(&linker.file_name().unwrap_or_default().to_string_lossy());
    }
    let answer = process::capture(linker, &["--version".into()]);
    answer.map_or(LinkerKind::Other, |answer| named(&String::from_utf8_lossy(&answer.stdout)))
}

/// By the name of the program, or the text that it prints for its version.
fn named(said: &str) -> LinkerKind {
    if said.starts_with("GNU ld") || said == "ld" || said == "ld.bfd" {
        LinkerKind::Gnu
    } else if said.contains("LLD ") || said == "ld.lld" {
        LinkerKind::Lld
    } else if said.starts_with("GNU gold") || said == "ld.gold" || said == "gold" {
        LinkerKind::Gold
    } else {
        LinkerKind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linkers_are_told_by_name_and_version() {
        for (said, kind) in [
            ("GNU ld (GNU Binutils for Debian) 2.40\n", LinkerKind::Gnu),
            ("ld.bfd", LinkerKind::Gnu),
            ("Debian LLD 22.1.8 (compatible with GNU linkers)", LinkerKind::Lld),
            ("GNU gold (GNU Binutils for Debian 2.40) 1.16", LinkerKind::Gold),
            ("mold 1.10.1 (compatible with GNU ld)", LinkerKind::Other),
            ("", LinkerKind::Other),
        ] {
            assert_eq!(named(said), kind, "{said}");
        }
    }
}
