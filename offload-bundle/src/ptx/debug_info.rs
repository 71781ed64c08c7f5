//! Which debug information PTX carries.

use serde::{Deserialize, Serialize};

/// Debug information in PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DebugInfo {
    /// None.
    None,
    /// Line tables.
    Lines,
    /// All, from files compiled with `-g -O0`: ptxas takes such PTX only for unoptimized code.
    Full,
}

impl DebugInfo {
    /// Reads it off PTX as LLVM writes it: the `debug` option of `.target` stands for all, `.file` directives alone for line tables.
    pub fn of(ptx: &[u8]) -> Self {
        let mut lines = ptx.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start);
        let is_debug = |line: &[u8]| line.starts_with(b".target") && line.trim_ascii_end().ends_with(b", debug");
        // `.target` stands among the first lines; the text may be hundreds of megabytes.
        if lines.clone().take(32).any(is_debug) {
            return DebugInfo::Full;
        }
        if lines.any(|line| line.starts_with(b".file")) { DebugInfo::Lines } else { DebugInfo::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_files() {
        for (text, found) in [
            (".version 8.0\n.target sm_90\n", DebugInfo::None),
            (".version 8.0\n.target sm_90\n\t.file 1 \"a.cu\"\n", DebugInfo::Lines),
            (".version 8.0\n.target sm_90, debug \n\t.file 1 \"a.cu\"\n", DebugInfo::Full),
        ] {
            assert_eq!(DebugInfo::of(text.as_bytes()), found, "{text}");
        }
    }
}
