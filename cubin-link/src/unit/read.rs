//! Reads the tables of a relocatable cubin.

use object::elf::{
    EM_CUDA, ET_REL, FileHeader64, SHN_COMMON, SHN_LORESERVE, SHT_NOBITS, SHT_NULL, STB_GLOBAL, STB_LOCAL, STB_WEAK,
    STT_FUNC, STT_NOTYPE, STT_OBJECT, STT_SECTION,
};
use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};
use object::{LittleEndian, ReadRef as _};

use super::sections::{CUDA_GLOBAL, CUDA_SHARED, kind};
use super::{Binding, Kind, Section, Symbol, SymbolKind, Unit};
use crate::bytes::c_str;
use crate::error::LinkError;

type Elf = FileHeader64<LittleEndian>;

/// `EI_OSABI` of the layout of CUDA 13, which CUDA 12.8 introduced for sm_100.
const OSABI: u8 = 0x41;
const ABI_VERSION: u8 = 8;
/// The symbol type of variables in the cubins of ptxas.
const STT_CUDA_OBJECT: u8 = 13;
/// `st_other`: a kernel, and the memory of a variable.
const STO_ENTRY: u8 = 0x10;
const STO_GLOBAL: u8 = 0x20;
const STO_MANAGED: u8 = 0x24;
const STO_SHARED: u8 = 0x40;
const STO_CONSTANT: u8 = 0x80;
const STO_FUNCTION_CONSTANT: u8 = 0x81;

/// Reads a cubin, and checks that its parts lie inside it and refer to parts that exist.
///
/// # Errors
/// Bytes that are no cubin, a damaged one, or one with a part that is not known.
pub(crate) fn read<'a>(file: &'a str, data: &'a [u8]) -> Result<Unit<'a>, LinkError> {
    let header = header(file, data)?;
    let sections = sections(file, data, header)?;
    let symbols_at = only(file, &sections, Kind::Symbols)?;
    let strings = sections.iter().find(|section| section.name == ".strtab");
    let strings = strings.ok_or_else(|| LinkError::damaged(file, 0, "cubin without names of symbols"))?.data;
    let symbols = symbols(file, &sections[symbols_at], strings, &sections)?;
    check_links(file, &sections)?;
    Ok(Unit { file, flags: header.e_flags(LittleEndian).0, sections, symbols, strings })
}

fn header<'a>(file: &str, data: &'a [u8]) -> Result<&'a Elf, LinkError> {
    let header = Elf::parse(data).map_err(|error| LinkError::damaged(file, 0, format!("no cubin ({error})")))?;
    if !header.is_little_endian() || header.e_machine(LittleEndian) != EM_CUDA {
        return Err(LinkError::damaged(file, 18, "no cubin (an ELF file for another machine)"));
    }
    let identity = (header.e_ident.os_abi.0, header.e_ident.abi_version);
    if identity != (OSABI, ABI_VERSION) {
        let what = format!("cubin of ABI {:#x}, version {}", identity.0, identity.1);
        return Err(LinkError::unsupported(file, 7, what));
    }
    if header.e_type(LittleEndian) != ET_REL {
        return Err(LinkError::unsupported(file, 16, "cubin that is not relocatable"));
    }
    Ok(header)
}

fn sections<'a>(file: &str, data: &'a [u8], header: &Elf) -> Result<Vec<Section<'a>>, LinkError> {
    let table = header.e_shoff.get(LittleEndian);
    let damaged = |error: object::Error| LinkError::damaged(file, table, format!("damaged section table: {error}"));
    let headers = header.section_headers(LittleEndian, data).map_err(damaged)?;
    let names = header.section_strings(LittleEndian, data, headers).map_err(damaged)?;
    let mut sections = Vec::with_capacity(headers.len());
    for raw in headers {
        let name = raw.name(LittleEndian, names).map_err(damaged)?;
        let offset = raw.sh_offset(LittleEndian);
        let name = std::str::from_utf8(name)
            .map_err(|_| LinkError::damaged(file, table, "section whose name is not UTF-8"))?;
        let section_type = raw.sh_type(LittleEndian).0;
        let info = raw.sh_info(LittleEndian) as usize;
        let kind = kind(name, section_type, info)
            .ok_or_else(|| LinkError::unsupported(file, offset, format!("section {name} of type {section_type:#x}")))?;
        let alignment = raw.sh_addralign(LittleEndian);
        if alignment != 0 && !is_alignment(alignment) {
            return Err(LinkError::damaged(file, offset, format!("alignment {alignment} of section {name}")));
        }
        let size = raw.sh_size(LittleEndian);
        // A cubin that does not fit into 4 GiB cannot be loaded, and sums of sizes stay in range.
        if size > u64::from(u32::MAX) {
            return Err(LinkError::damaged(file, offset, format!("section {name} of {size} bytes")));
        }
        let is_empty = matches!(section_type, CUDA_GLOBAL | CUDA_SHARED)
            || section_type == SHT_NOBITS.0
            || section_type == SHT_NULL.0;
        let bytes = if is_empty { Ok(&[][..]) } else { data.read_bytes_at(offset, size) };
        let bytes = bytes.map_err(|()| {
            LinkError::damaged(file, offset, format!("section {name} goes beyond the end of the cubin"))
        })?;
        let flags = raw.sh_flags(LittleEndian).0;
        sections.push(Section { name, kind, flags, alignment, size, data: bytes, offset });
    }
    Ok(sections)
}

/// Whether something may be aligned like this; nothing in a cubin is aligned to more than a page of memory.
fn is_alignment(number: u64) -> bool {
    number.is_power_of_two() && number <= 1 << 16
}

/// The number of the only section of a kind.
fn only(file: &str, sections: &[Section<'_>], kind: Kind) -> Result<usize, LinkError> {
    let mut found = sections.iter().enumerate().filter(|(_, section)| section.kind == kind).map(|(number, _)| number);
    match (found.next(), found.next()) {
        (Some(number), None) => Ok(number),
        _ => Err(LinkError::damaged(file, 0, "cubin without exactly one symbol table")),
    }
}

fn symbols<'a>(
    file: &str,
    table: &Section<'a>,
    strings: &'a [u8],
    sections: &[Section<'a>],
) -> Result<Vec<Symbol<'a>>, LinkError> {
    const SIZE: usize = 24;
    let raws: &[object::elf::Sym64<LittleEndian>] = table
        .data
        .read_slice_at(0, table.data.len() / SIZE)
        .map_err(|()| LinkError::damaged(file, table.offset, "damaged symbol table"))?;
    let mut symbols = Vec::with_capacity(raws.len());
    for (number, raw) in raws.iter().enumerate() {
        let offset = table.offset + (number * SIZE) as u64;
        let name = c_str(strings, raw.st_name(LittleEndian) as usize)
            .ok_or_else(|| LinkError::damaged(file, offset, "symbol without a name"))?;
        let section = raw.st_shndx(LittleEndian).0;
        if section == SHN_COMMON.0 {
            return Err(LinkError::unsupported(file, offset, format!("common variable {name}")));
        }
        if section >= SHN_LORESERVE || usize::from(section) >= sections.len() {
            return Err(LinkError::damaged(file, offset, format!("symbol {name} of a section that does not exist")));
        }
        let binding = match raw.st_bind() {
            STB_LOCAL => Binding::Local,
            STB_WEAK => Binding::Weak,
            STB_GLOBAL => Binding::Global,
            other => return Err(LinkError::unsupported(file, offset, format!("binding {} of symbol {name}", other.0))),
        };
        let kind = symbol_kind(name, raw.st_type().0, raw.st_other().0, section != 0).ok_or_else(|| {
            let what = format!("symbol {name} of type {} and {:#x}", raw.st_type().0, raw.st_other().0);
            LinkError::unsupported(file, offset, what)
        })?;
        let (value, size) = (raw.st_value(LittleEndian), raw.st_size(LittleEndian));
        let symbol = Symbol { name, binding, kind, section: usize::from(section), value, size };
        check_place(file, offset, &symbol, sections)?;
        symbols.push(symbol);
    }
    Ok(symbols)
}

fn symbol_kind(name: &str, symbol_type: u8, other: u8, defined: bool) -> Option<SymbolKind> {
    match (symbol_type, other) {
        (kind, _) if kind == STT_NOTYPE.0 && name.is_empty() => Some(SymbolKind::Nothing),
        (kind, 0) if kind == STT_SECTION.0 => Some(SymbolKind::Section),
        (kind, 0) if kind == STT_FUNC.0 => Some(SymbolKind::Function),
        (kind, STO_ENTRY) if kind == STT_FUNC.0 => Some(SymbolKind::Kernel),
        (STT_CUDA_OBJECT, STO_GLOBAL) => Some(SymbolKind::Global),
        (STT_CUDA_OBJECT, STO_MANAGED) => Some(SymbolKind::Managed),
        (STT_CUDA_OBJECT, STO_CONSTANT) => Some(SymbolKind::Constant),
        (STT_CUDA_OBJECT, STO_FUNCTION_CONSTANT) => Some(SymbolKind::FunctionConstant),
        (STT_CUDA_OBJECT, STO_SHARED) => Some(SymbolKind::Shared),
        (kind, 0) if kind == STT_OBJECT.0 && !defined => Some(SymbolKind::Reserved),
        _ => None,
    }
}

/// Checks that a symbol lies in a section of its kind.
fn check_place(file: &str, offset: u64, symbol: &Symbol<'_>, sections: &[Section<'_>]) -> Result<(), LinkError> {
    if symbol.section == 0 {
        return Ok(());
    }
    let section = &sections[symbol.section];
    let fits = match symbol.kind {
        SymbolKind::Nothing | SymbolKind::Reserved => false,
        SymbolKind::Section => true,
        SymbolKind::Function | SymbolKind::Kernel => section.kind == Kind::Code && symbol.value == 0,
        SymbolKind::Global | SymbolKind::Managed => matches!(section.kind, Kind::Initialized | Kind::Zeroed),
        SymbolKind::Constant => matches!(section.kind, Kind::Constants(_)),
        SymbolKind::FunctionConstant => matches!(section.kind, Kind::FunctionConstants(..)),
        SymbolKind::Shared => matches!(section.kind, Kind::KernelShared(_) | Kind::FunctionShared),
    };
    let end = symbol.value.checked_add(symbol.size);
    // The value of a shared variable is its alignment.
    let inside = match symbol.kind {
        SymbolKind::Shared => is_alignment(symbol.value) && u32::try_from(symbol.size).is_ok(),
        _ => end.is_some_and(|end| end <= section.size),
    };
    if fits && inside {
        return Ok(());
    }
    let what = format!("symbol {} in section {}, to which it cannot belong", symbol.name, section.name);
    Err(LinkError::unsupported(file, offset, what))
}

/// Checks that sections are about code, or relocate sections that exist.
fn check_links(file: &str, sections: &[Section<'_>]) -> Result<(), LinkError> {
    for section in sections {
        let sound = match section.kind {
            Kind::FunctionAttributes(of) | Kind::FunctionConstants(_, of) | Kind::KernelShared(of) => {
                sections.get(of).is_some_and(|of| of.kind == Kind::Code)
            }
            Kind::Relocations(of) => sections.get(of).is_some_and(|of| !of.data.is_empty()),
            _ => true,
        };
        if !sound {
            let what = format!("section {} is about a section of another kind", section.name);
            return Err(LinkError::damaged(file, section.offset, what));
        }
    }
    Ok(())
}
