//! Reads the symbols that a host file defines and references, which decide the archive members that a linker takes.

use object::elf::{
    FileHeader32, FileHeader64, SHN_COMMON, SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STB_LOCAL, STB_WEAK, STT_FUNC,
};
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, FileKind as ObjectKind};

use crate::FormatError;

/// One symbol that other files can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostSymbol<'a> {
    /// Its name, as bytes: linkers do not require UTF-8.
    pub name: &'a [u8],
    /// Whether the file defines it (as a common symbol, too).
    pub defined: bool,
    /// Whether it is a common symbol: a definition elsewhere prevails over it.
    pub common: bool,
    /// Whether it is weak: an undefined weak symbol takes no archive member.
    pub weak: bool,
}

/// Reads the symbols of an ELF object (from `.symtab`) or, with `dynamic`, of a shared library (from `.dynsym`).
///
/// # Errors
/// A damaged header, section table or symbol table.
pub fn host_symbols(elf: &[u8], dynamic: bool) -> Result<Vec<HostSymbol<'_>>, FormatError> {
    match ObjectKind::parse(elf) {
        Ok(ObjectKind::Elf32) => symbols_of::<FileHeader32<Endianness>>(elf, dynamic),
        Ok(ObjectKind::Elf64) => symbols_of::<FileHeader64<Endianness>>(elf, dynamic),
        _ => Err(FormatError::wrong_format(0, "not an ELF file")),
    }
}

/// Reads the names of the functions of an ELF object that other objects cannot reference.
///
/// # Errors
/// A damaged header, section table or symbol table, and other files than 64-bit ELF files.
pub fn local_functions(elf: &[u8]) -> Result<Vec<&[u8]>, FormatError> {
    let damaged = |error: object::Error| FormatError::parser(0, "damaged symbol table", error);
    let header = FileHeader64::<Endianness>::parse(elf).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    let sections = header.sections(endian, elf).map_err(damaged)?;
    let table = sections.symbols(endian, elf, SHT_SYMTAB).map_err(damaged)?;
    let local = table.iter().filter(|symbol| symbol.st_bind() == STB_LOCAL && symbol.st_type() == STT_FUNC);
    local.map(|symbol| symbol.name(endian, table.strings()).map_err(damaged)).collect()
}

fn symbols_of<Elf: FileHeader<Endian = Endianness>>(
    elf: &[u8],
    dynamic: bool,
) -> Result<Vec<HostSymbol<'_>>, FormatError> {
    let damaged = |error: object::Error| FormatError::parser(0, "damaged symbol table", error);
    let header = Elf::parse(elf).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    let sections = header.sections(endian, elf).map_err(damaged)?;
    let kind = if dynamic { SHT_DYNSYM } else { SHT_SYMTAB };
    let table = sections.symbols(endian, elf, kind).map_err(damaged)?;
    let mut symbols = Vec::new();
    for symbol in table.iter().filter(|symbol| symbol.st_bind() != STB_LOCAL) {
        let name = symbol.name(endian, table.strings()).map_err(damaged)?;
        let section = symbol.st_shndx(endian);
        if !name.is_empty() {
            let (defined, common) = (section != SHN_UNDEF, section == SHN_COMMON);
            symbols.push(HostSymbol { name, defined, common, weak: symbol.st_bind() == STB_WEAK });
        }
    }
    Ok(symbols)
}

#[cfg(test)]
mod tests {
    use object::write::{self, StandardSection};
    use object::{Architecture, BinaryFormat, Endianness, SymbolFlags, SymbolKind, SymbolScope};

    use super::*;

    #[test]
    fn this_very_program_wants_memory() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let dynamic = host_symbols(&bytes, true).unwrap();
        assert!(dynamic.iter().any(|symbol| symbol.name.starts_with(b"malloc") && !symbol.defined));
    }

    #[test]
    fn an_object_defines_and_wants() {
        let mut object = write::Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let text = object.section_id(StandardSection::Text);
        let mut add = |name: &[u8], section, scope, weak| {
            let (name, kind, flags) = (name.to_vec(), SymbolKind::Text, SymbolFlags::None);
            object.add_symbol(write::Symbol { name, value: 0, size: 0, kind, scope, weak, section, flags });
        };
        add(b"main", write::SymbolSection::Section(text), SymbolScope::Dynamic, false);
        add(b"spare", write::SymbolSection::Section(text), SymbolScope::Dynamic, true);
        add(b"own", write::SymbolSection::Section(text), SymbolScope::Compilation, false);
        add(b"wanted", write::SymbolSection::Undefined, SymbolScope::Dynamic, false);
        let bytes = object.write().unwrap();
        let found: Vec<_> =
            host_symbols(&bytes, false).unwrap().into_iter().map(|s| (s.name, s.defined, s.weak)).collect();
        let expected: [(&[u8], bool, bool); 3] =
            [(b"main", true, false), (b"spare", true, true), (b"wanted", false, false)];
        assert_eq!(found, expected);
    }

    #[test]
    fn any_bytes_are_answered() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for end in (0..bytes.len().min(4096)).step_by(7) {
            let _ = host_symbols(&bytes[..end], false);
        }
        assert!(host_symbols(b"text", false).is_err());
    }
}
