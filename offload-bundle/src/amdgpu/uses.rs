//! The symbols of other objects that the code of a relocatable object uses, and the functions that it defines for others.

use std::collections::{BTreeMap, BTreeSet};

use object::read::elf::ElfSection64;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionKind, SymbolKind};

use super::Code;
use crate::FormatError;

/// A use of a symbol that the object does not define.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OuterUse {
    /// The function or variable with the use, or its section if no symbol covers the place.
    pub user: String,
    /// The symbol.
    pub name: String,
}

impl<'d> Code<'d> {
    /// The uses of symbols of other objects in code and data, each once.
    ///
    /// # Errors
    /// Relocations or symbols that are damaged.
    pub fn outer_uses(&self) -> Result<BTreeSet<OuterUse>, FormatError> {
        let places = self.places();
        let mut uses = BTreeSet::new();
        for section in self.elf().sections().filter(is_loaded) {
            for (offset, relocation) in section.relocations() {
                let RelocationTarget::Symbol(index) = relocation.target() else { continue };
                let damaged = |error| FormatError::parser(0, "a damaged relocation", error);
                let symbol = self.elf().symbol_by_index(index).map_err(damaged)?;
                if !symbol.is_undefined() {
                    continue;
                }
                let covering = places.range(..=(section.index().0, offset)).next_back();
                let user = covering.filter(|((of, _), (end, _))| *of == section.index().0 && offset < *end);
                let user = match user {
                    Some((_, (_, name))) => (*name).to_owned(),
                    None => section.name().unwrap_or_default().to_owned(),
                };
                uses.insert(OuterUse { user, name: symbol.name().map_err(damaged)?.to_owned() });
            }
        }
        Ok(uses)
    }

    /// The functions that other objects can use, kernels included.
    pub fn visible_functions(&self) -> BTreeSet<&str> {
        let functions = self.elf().symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        let visible = functions.filter(|symbol| symbol.is_definition() && symbol.is_global());
        visible.filter_map(|symbol| symbol.name().ok()).collect()
    }

    /// Where functions and variables begin in their sections, with their ends and names.
    fn places(&self) -> BTreeMap<(usize, u64), (u64, &'d str)> {
        let sized = self.elf().symbols().filter(|symbol| symbol.size() > 0 && symbol.is_definition());
        let place = |symbol: object::read::elf::ElfSymbol64<'d, '_, LittleEndian>| {
            let end = symbol.address().saturating_add(symbol.size());
            Some(((symbol.section_index()?.0, symbol.address()), (end, symbol.name().ok()?)))
        };
        sized.filter_map(place).collect()
    }
}

/// Whether a section becomes part of the program; not debug information, which refers to functions, too.
fn is_loaded(section: &ElfSection64<'_, '_, LittleEndian>) -> bool {
    matches!(section.kind(), SectionKind::Text | SectionKind::Data | SectionKind::ReadOnlyData)
}

#[cfg(test)]
mod tests {
    use object::elf::R_X86_64_PC32;
    use object::write::{self, SymbolSection};
    use object::{Architecture, BinaryFormat, Endianness, RelocationFlags, SymbolFlags, SymbolScope};

    use super::*;
    use crate::amdgpu::EM_AMDGPU;

    /// An object with two functions, of which the second uses a symbol of another object and both use the first.
    fn object() -> Vec<u8> {
        let mut object = write::Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let section = object.add_section(Vec::new(), b".text.all".to_vec(), SectionKind::Text);
        object.append_section_data(section, &[0; 16], 4);
        let mut add = |name: &[u8], value, size, section| {
            object.add_symbol(write::Symbol {
                name: name.to_vec(),
                value,
                size,
                kind: SymbolKind::Text,
                scope: SymbolScope::Linkage,
                weak: false,
                section,
                flags: SymbolFlags::None,
            })
        };
        let first = add(b"first", 0, 8, SymbolSection::Section(section));
        add(b"second", 8, 8, SymbolSection::Section(section));
        let outer = add(b"outer", 0, 0, SymbolSection::Undefined);
        for (offset, symbol) in [(4, first), (8, outer), (12, outer), (12, first)] {
            let flags = RelocationFlags::Elf { r_type: R_X86_64_PC32 };
            object.add_relocation(section, write::Relocation { offset, symbol, addend: 0, flags }).unwrap();
        }
        let mut bytes = object.write().unwrap();
        // HSA's code of version 6.
        bytes[7..9].copy_from_slice(&[64, 4]);
        bytes[18..20].copy_from_slice(&EM_AMDGPU.to_le_bytes());
        bytes
    }

    #[test]
    fn uses_of_other_objects_are_found_with_their_users() {
        let bytes = object();
        let code = Code::parse(&bytes).unwrap();
        let expected = OuterUse { user: "second".to_owned(), name: "outer".to_owned() };
        assert_eq!(code.outer_uses().unwrap(), BTreeSet::from([expected]));
        assert_eq!(code.visible_functions(), BTreeSet::from(["first", "second"]));
    }

    #[test]
    fn damaged_objects_are_errors_or_have_fewer_uses() {
        let bytes = object();
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0xff;
            if let Ok(code) = Code::parse(&damaged) {
                let _ = (code.outer_uses(), code.visible_functions());
            }
        }
    }
}
