//! Writes host objects that carry relocatable device code as nvcc's objects do, for nvlink.
//!
//! nvlink reads from a host object what it cannot know from a cubin alone: which kernels and variables the host refers to. It drops
//! the others, but only if every input says so: a bare cubin on its line keeps everything. (Seen with nvlink 13.0.) It needs the
//! wrapper `__fatbinwrap<id>` with its relocation, the id in `__nv_module_id`, and all six sections of names, each with at least one
//! byte.

use object::write::{Object, Relocation, SectionId, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationEncoding, RelocationFlags, RelocationKind, SectionKind,
    SymbolFlags, SymbolKind, SymbolScope,
};

use super::device_links::{WRAPPER_MAGIC, WRAPPER_SIZE, WRAPPERS};
use crate::FormatError;

/// The sections of the names that host code refers to: kernels, variables and constants (K, D, C), each with internal and external
/// linkage (I, E). Names end in NUL; `*` stands for any rest.
pub const REFERENCE_SECTIONS: [&str; 6] = [".nvHRKI", ".nvHRKE", ".nvHRDI", ".nvHRDE", ".nvHRCI", ".nvHRCE"];

/// The names that host code refers to: one list of NUL-terminated names for each of [`REFERENCE_SECTIONS`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReferenceLists {
    lists: [Vec<u8>; 6],
}

impl ReferenceLists {
    /// The names in an object's sections. Returns `None` if one of the sections is missing: what the host refers to is then not known.
    pub fn of_object(elf: &[u8]) -> Option<Self> {
        let mut lists: [Vec<u8>; 6] = Default::default();
        for (list, name) in lists.iter_mut().zip(REFERENCE_SECTIONS) {
            *list = super::section(elf, name.as_bytes())?.1.to_vec();
        }
        lists.iter().all(|list| !list.is_empty()).then_some(ReferenceLists { lists })
    }

    /// The lists, in the order of [`REFERENCE_SECTIONS`].
    pub fn lists(&self) -> impl Iterator<Item = &[u8]> {
        self.lists.iter().map(Vec::as_slice)
    }

    /// References to these kernels and variables; only `local_kernels` have internal linkage. nvlink looks up a name only in the list of
    /// its kind.
    pub fn of_names<'n>(
        kernels: impl Iterator<Item = &'n str>,
        local_kernels: impl Iterator<Item = &'n str>,
        variables: impl Iterator<Item = &'n str> + Clone,
    ) -> Self {
        fn list<'n>(names: impl Iterator<Item = &'n str>) -> Vec<u8> {
            names.flat_map(|name| name.bytes().chain([0])).collect()
        }
        let [local_kernels, kernels] = [list(local_kernels), list(kernels)];
        let [device, constant] = [list(variables.clone()), list(variables)];
        ReferenceLists { lists: [local_kernels, kernels, Vec::new(), device, Vec::new(), constant] }
    }
}

/// Writes an object for x86-64 with one fatbin of relocatable code. nvlink reads it on every host. Without `references`, nvlink keeps all
/// code of the link.
///
/// # Errors
/// The id holds a NUL, or the object would be larger than its format allows.
pub fn write_rdc_object(id: &str, fatbin: &[u8], references: Option<&ReferenceLists>) -> Result<Vec<u8>, FormatError> {
    if id.contains('\0') {
        return Err(FormatError::damaged(0, "NUL in a module id"));
    }
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let code = add_section(&mut object, "__nv_relfatbin", SectionKind::ReadOnlyData, fatbin, 8);
    let mut wrapper = WRAPPER_MAGIC.to_le_bytes().to_vec();
    wrapper.extend(1_u32.to_le_bytes());
    wrapper.resize(WRAPPER_SIZE as usize, 0);
    let wrappers = add_section(&mut object, WRAPPERS, SectionKind::Data, &wrapper, 8);
    object.add_symbol(Symbol {
        name: format!("__fatbinwrap{id}").into_bytes(),
        value: 0,
        size: WRAPPER_SIZE,
        kind: SymbolKind::Data,
        scope: SymbolScope::Linkage,
        weak: false,
        section: SymbolSection::Section(wrappers),
        flags: SymbolFlags::None,
    });
    let symbol = object.section_symbol(code);
    let (kind, encoding) = (RelocationKind::Absolute, RelocationEncoding::Generic);
    let flags = RelocationFlags::Generic { kind, encoding, size: 64 };
    let relocation = Relocation { offset: 8, symbol, addend: 0, flags };
    let unwritable = |e: object::write::Error| FormatError::damaged(0, format!("cannot write the object: {e}"));
    object.add_relocation(wrappers, relocation).map_err(unwritable)?;
    let id = [id.as_bytes(), &[0]].concat();
    add_section(&mut object, "__nv_module_id", SectionKind::ReadOnlyData, &id, 16);
    for (name, list) in REFERENCE_SECTIONS.iter().zip(references.iter().flat_map(|references| &references.lists)) {
        let list = if list.is_empty() { &[0][..] } else { list };
        add_section(&mut object, name, SectionKind::ReadOnlyData, list, 1);
    }
    object.write().map_err(unwritable)
}

fn add_section(object: &mut Object<'_>, name: &str, kind: SectionKind, data: &[u8], align: u64) -> SectionId {
    let section = object.add_section(Vec::new(), name.as_bytes().to_vec(), kind);
    object.append_section_data(section, data, align);
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_object::{module_ids, section};

    #[test]
    fn an_object_with_code_id_and_names() {
        let references = ReferenceLists::of_names(["k", "l"].into_iter(), ["m"].into_iter(), ["v"].into_iter());
        let object = write_rdc_object("_12_1_a_b", b"fatbin", Some(&references)).expect("a small object");
        assert_eq!(section(&object, b"__nv_relfatbin").map(|(_, data)| data), Some(&b"fatbin"[..]));
        assert_eq!(module_ids(&object), [crate::host_object::ModuleId::Object("_12_1_a_b")]);
        assert_eq!(section(&object, b".nvHRKE").map(|(_, data)| data), Some(&b"k\0l\0"[..]));
        assert_eq!(section(&object, b".nvHRKI").map(|(_, data)| data), Some(&b"m\0"[..]));
        assert_eq!(section(&object, b".nvHRCI").map(|(_, data)| data), Some(&b"\0"[..]));
        let again = ReferenceLists::of_object(&object).expect("all sections");
        assert_eq!(write_rdc_object("_12_1_a_b", b"fatbin", Some(&again)).expect("a small object"), object);
        assert_eq!(ReferenceLists::of_object(b"\x7fELF"), None);
        assert!(write_rdc_object("a\0b", b"", Some(&again)).is_err());
    }
}
