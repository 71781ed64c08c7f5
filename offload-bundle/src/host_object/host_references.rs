//! What the host code of an object refers to on the device, as nvcc records it for device links.
//!
//! Sections `.nvHRKI`, `.nvHRKE`, `.nvHRDI`, `.nvHRDE`, `.nvHRCI` and `.nvHRCE` hold NUL-terminated patterns: kernels, variables
//! (`D`) and constants, internal or external ones. In a pattern, `*` stands for any characters: `_Z1k*` for `_Z1ki`.

use crate::FormatError;
use crate::bytes::utf8;

/// The patterns of device symbols that host code refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostReferences<'a> {
    /// Kernels that host code launches or whose address it takes.
    pub kernels: Vec<&'a str>,
    /// Variables in global memory, managed ones too.
    pub variables: Vec<&'a str>,
    /// Variables in constant memory.
    pub constants: Vec<&'a str>,
}

/// The host references of an ELF file; `None` if nvcc recorded none, so that anything may be referred to.
///
/// # Errors
/// A damaged file, or names that are not UTF-8.
pub fn host_references(elf: &[u8]) -> Result<Option<HostReferences<'_>>, FormatError> {
    let mut found = None;
    for section in super::sections(elf)? {
        let references = match section.name {
            b".nvHRKI" | b".nvHRKE" => &mut found.get_or_insert_with(HostReferences::default).kernels,
            b".nvHRDI" | b".nvHRDE" => &mut found.get_or_insert_with(HostReferences::default).variables,
            b".nvHRCI" | b".nvHRCE" => &mut found.get_or_insert_with(HostReferences::default).constants,
            _ => continue,
        };
        let data = section.data(elf)?;
        for word in data.split(|byte| *byte == 0).filter(|word| !word.is_empty()) {
            references.push(utf8(word, section.offset, "a name that host code refers to")?);
        }
    }
    Ok(found)
}

impl HostReferences<'_> {
    /// Whether host code may refer to the kernel.
    pub fn has_kernel(&self, symbol: &str) -> bool {
        self.kernels.iter().any(|pattern| matches(pattern, symbol))
    }

    /// Whether host code may refer to the variable, in global or constant memory.
    pub fn has_variable(&self, symbol: &str) -> bool {
        self.variables.iter().chain(&self.constants).any(|pattern| matches(pattern, symbol))
    }
}

/// Whether a symbol is one that the pattern stands for.
fn matches(pattern: &str, symbol: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == symbol };
    let Some(mut symbol) = symbol.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        let Some(at) = symbol.find(part) else { return false };
        symbol = &symbol[at + part.len()..];
    }
    symbol.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let id = "__nv_static_25__184b1642_4_n_cu_027f3c32_";
        for (pattern, symbol, expected) in [
            ("dv", "dv", true),
            ("dv", "dv2", false),
            ("_Z1k*", "_Z1ki", true),
            ("_Z1k*", "_Z1li", false),
            ("_Z1k*", "_Z1k", true),
            ("a*b*c", "axxbxc", true),
            ("a*b*c", "acb", false),
            ("a*b", "a", false),
            ("ab*b", "ab", false),
            ("*", "", true),
            ("a**", "a", true),
        ] {
            assert_eq!(matches(pattern, symbol), expected, "{pattern} {symbol}");
        }
        assert!(matches(&format!("{id}*sdv"), &format!("{id}sdv")));
        assert!(matches(&format!("{id}*2av*"), &format!("{id}_ZN34_INTERNAL_x2avE")));
    }

    #[test]
    fn objects_without_the_sections_may_refer_to_anything() {
        assert_eq!(host_references(&crate::samples::host_object(&[])), Ok(None));
        assert!(host_references(b"text").is_err());
    }

    #[test]
    fn the_sections_of_an_object() {
        let object = crate::samples::rdc_object(&["_1_a"], &[b"fatbin"]);
        let references = host_references(&object).expect("a sound object").expect("lists");
        assert_eq!(references.kernels, ["_Z5first*"]);
        assert!(references.has_kernel("_Z5firsti") && !references.has_kernel("_Z6second"));
        assert!(references.has_variable("counter") && !references.has_variable("limit"));
    }
}
