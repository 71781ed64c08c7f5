//! What the host code of a program refers to: nvlink removes the rest from units of nvcc.

use std::borrow::Cow;
use std::collections::HashSet;

use offload_bundle::cubin;
use offload_bundle::cubin::{SymbolBinding, SymbolKind};
use offload_bundle::host_object::ReferenceLists;

use crate::machines::nvptx::codegen::device_object::{DeviceObject, Form};

/// What the host refers to of an object: for a unit of nvcc what its host code says, else everything that is visible. `None` if that
/// cannot be known.
pub fn of(object: &DeviceObject) -> Option<ReferenceLists> {
    let known = object.unit.as_ref().and_then(|(_, references)| references.clone());
    known.or_else(|| (object.form == Form::Cubin).then(|| all_symbols(&object.bytes)).flatten())
}

/// What the host code of a program with units of nvcc refers to.
pub struct HostReferences {
    lists: Vec<ReferenceLists>,
}

impl HostReferences {
    /// What all objects say together; `None` if there are no units of nvcc, or one object does not tell: nvlink keeps everything then.
    pub fn of_all(objects: &[DeviceObject]) -> Option<Self> {
        let has_units = objects.iter().any(|object| object.unit.is_some());
        let lists = has_units.then(|| objects.iter().map(of).collect::<Option<Vec<_>>>())??;
        Some(HostReferences { lists })
    }

    /// Kernels that stay; `None` if the host refers to no kernel at all: nvlink 13.0 removes none then, as in a library whose kernels other
    /// units launch.
    pub fn kernels(&self) -> Option<Patterns<'_>> {
        // Those of `REFERENCE_SECTIONS` with kernels come first.
        let lists = self.lists.iter().flat_map(|lists| lists.lists().take(2));
        let names = lists.flat_map(|list| list.split(|byte| *byte == 0)).filter(|name| !name.is_empty());
        let names: Vec<_> = names.map(String::from_utf8_lossy).collect();
        (!names.is_empty()).then(|| Patterns::new(names))
    }
}

/// Names, in which `*` stands for any text.
pub struct Patterns<'n> {
    names: HashSet<Cow<'n, str>>,
    patterns: Vec<Cow<'n, str>>,
}

impl<'n> Patterns<'n> {
    fn new(names: Vec<Cow<'n, str>>) -> Self {
        let (patterns, names): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.contains('*'));
        Patterns { names: names.into_iter().collect(), patterns }
    }

    /// Whether one of them is this name.
    pub fn have(&self, name: &str) -> bool {
        self.names.contains(name) || self.patterns.iter().any(|pattern| matches(pattern, name))
    }
}

/// Whether a name is as a pattern says.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(part) = last.replace(part) {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

/// References to all visible kernels and variables of a cubin, and to its local kernels: nvlink drops functions that only a kernel without a
/// reference calls, even if it keeps that kernel because another one launches it.
fn all_symbols(bytes: &[u8]) -> Option<ReferenceLists> {
    let cubin = cubin::parse(bytes).ok()?;
    let defined = || cubin.symbols().iter().filter(|symbol| symbol.defined);
    let names = |kind: SymbolKind, is_local: bool| {
        let named = defined().filter(move |symbol| (symbol.binding == SymbolBinding::Local) == is_local);
        named.filter(move |symbol| symbol.kind == kind).map(|symbol| symbol.name.as_str())
    };
    let (kernels, local_kernels) = (names(SymbolKind::Kernel, false), names(SymbolKind::Kernel, true));
    Some(ReferenceLists::of_names(kernels, local_kernels, names(SymbolKind::Object, false)))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use offload_bundle::arch::GpuArch;

    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, name, expected) in [
            ("_Z1k*", "_Z1kPi", true),
            ("_Z1k*", "_Z2kk", false),
            ("id_*3cub*", "id__ZN3cub4sortE", true),
            ("id_*3cub*", "id__ZN4cubaE", false),
            ("*", "", true),
            ("a*a", "a", false),
            ("a*b*c", "axxbxc", true),
            ("a*b*c", "axxcxb", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn what_no_host_code_refers_to_is_removed() {
        let lists = ReferenceLists::of_names(["k", "many*"].into_iter(), ["local"].into_iter(), ["c"].into_iter());
        let object = |unit| DeviceObject {
            unit,
            ..DeviceObject::cubin("a.o".to_owned(), GpuArch::plain(90), PathBuf::new(), Vec::new(), true)
        };
        let references = HostReferences::of_all(&[object(Some(("id".to_owned(), Some(lists))))]).expect("lists");
        let kernels = references.kernels().expect("some");
        assert!(kernels.have("k") && kernels.have("local") && kernels.have("many1") && !kernels.have("c"));
        let lists = ReferenceLists::of_names([].into_iter(), [].into_iter(), ["c"].into_iter());
        let references = HostReferences::of_all(&[object(Some(("id".to_owned(), Some(lists))))]).expect("lists");
        assert!(references.kernels().is_none());
        // A program without units of nvcc.
        assert!(HostReferences::of_all(&[object(None)]).is_none());
    }
}
