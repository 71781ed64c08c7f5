//! Declares as kernels what clang declares as functions.

use goblin::elf::section_header::{SHT_REL, SHT_RELA, SHT_SYMTAB, SectionHeader};
use goblin::elf::sym;

use super::{STO_CUDA_ENTRY, context, parse, section_headers};
use crate::bytes::{c_str, slice, u16_at, u32_at, u64_at};
use crate::elf_edit::put;
use crate::error::FormatError;

/// clang's list of kernels and variables that only host code of the unit uses and another unit defines.
const HOST_USES: &str = "__clang_gpu_used_external";

/// Size of a symbol in a 64-bit file, and where it has its parts.
const SYMBOL_SIZE: u64 = 24;
const ST_INFO: u64 = 4;
const ST_OTHER: u64 = 5;
const ST_SHNDX: u64 = 6;
const ST_VALUE: u64 = 8;
const ST_SIZE: u64 = 16;
/// Size of a relocation without an addend; one with an addend starts with the same fields.
const RELOCATION_SIZE: u64 = 16;

/// Copies a cubin and declares the kernels as such that it takes for functions; `None` if it has none.
///
/// clang lists kernels that host code launches and another unit defines as functions, so that ptxas declares a function. Device linkers
/// reject a symbol that is a kernel in one cubin and a function in another.
///
/// # Errors
/// Data that is not a cubin, or a damaged one.
pub fn with_declared_kernels(data: &[u8]) -> Result<Option<Vec<u8>>, FormatError> {
    let cubin = parse(data)?;
    if !cubin.is_64_bit() || !cubin.symbols.iter().any(|symbol| symbol.name == HOST_USES) {
        return Ok(None);
    }
    let headers = section_headers(data, &cubin.header, context(&cubin.header)?)?;
    let mut copy = None;
    for (table, list) in lists(data, &headers)? {
        for relocations in headers.iter().filter(|section| section.sh_info == u32::from(list.section)) {
            for index in relocated(data, relocations, &list)? {
                let symbol = RawSymbol::read(data, table, index)?;
                if symbol.is_function && symbol.section == 0 && symbol.other & STO_CUDA_ENTRY == 0 {
                    let copy = copy.get_or_insert_with(|| data.to_vec());
                    put(copy, symbol.at + ST_OTHER, &[symbol.other | STO_CUDA_ENTRY]);
                }
            }
        }
    }
    Ok(copy)
}

/// The lists of a cubin, of which clang makes one, each with the symbol table that has it.
fn lists<'h>(data: &[u8], headers: &'h [SectionHeader]) -> Result<Vec<(&'h SectionHeader, RawSymbol)>, FormatError> {
    let mut lists = Vec::new();
    for table in headers.iter().filter(|section| section.sh_type == SHT_SYMTAB) {
        let Some(names) = headers.get(table.sh_link as usize) else { continue };
        let names = slice(data, names.sh_offset, names.sh_size, "the table of the cubin's symbol names")?;
        for index in 0..table.sh_size / SYMBOL_SIZE {
            let symbol = RawSymbol::read(data, table, index)?;
            if symbol.section != 0 && c_str(names, symbol.name.into(), "a symbol name")? == HOST_USES {
                lists.push((table, symbol));
            }
        }
    }
    Ok(lists)
}

/// The indices of the symbols that relocations put into the list.
fn relocated(data: &[u8], relocations: &SectionHeader, list: &RawSymbol) -> Result<Vec<u64>, FormatError> {
    let entry_size = relocations.sh_entsize;
    if !matches!(relocations.sh_type, SHT_REL | SHT_RELA) || entry_size < RELOCATION_SIZE {
        return Ok(Vec::new());
    }
    let bytes = slice(data, relocations.sh_offset, relocations.sh_size, "the cubin's relocations")?;
    let mut indices = Vec::new();
    for entry in 0..bytes.len() as u64 / entry_size {
        let offset = u64_at(bytes, entry * entry_size, "a relocation")?;
        if offset.checked_sub(list.value).is_some_and(|inside| inside < list.size) {
            indices.push(u32_at(bytes, entry * entry_size + 12, "a relocation")?.into());
        }
    }
    Ok(indices)
}

/// A symbol, and where it is in the file.
struct RawSymbol {
    at: u64,
    name: u32,
    is_function: bool,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

impl RawSymbol {
    fn read(data: &[u8], table: &SectionHeader, index: u64) -> Result<Self, FormatError> {
        let place = index.checked_mul(SYMBOL_SIZE).filter(|place| *place < table.sh_size);
        let place =
            place.ok_or_else(|| FormatError::damaged(table.sh_offset, "relocation of a symbol that does not exist"))?;
        let at = table.sh_offset.saturating_add(place);
        let bytes = slice(data, at, SYMBOL_SIZE, "a symbol of the cubin")?;
        let info = u16_at(bytes, ST_INFO, "its type")?.to_le_bytes();
        Ok(RawSymbol {
            at,
            name: u32_at(bytes, 0, "its name")?,
            is_function: sym::st_type(info[0]) == sym::STT_FUNC,
            other: info[1],
            section: u16_at(bytes, ST_SHNDX, "its section")?,
            value: u64_at(bytes, ST_VALUE, "its value")?,
            size: u64_at(bytes, ST_SIZE, "its size")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GpuArch;
    use crate::cubin::SymbolKind;
    use crate::samples;

    #[test]
    fn an_undefined_function_of_the_list_becomes_a_kernel() {
        let data = samples::cubin_with_host_uses(GpuArch::plain(90));
        let changed = with_declared_kernels(&data).expect("a sound cubin").expect("a change");
        let differing = data.iter().zip(&changed).filter(|(one, other)| one != other).count();
        assert_eq!((changed.len(), differing), (data.len(), 1));
        let cubin = parse(&changed).expect("a sound cubin");
        let kind = |name: &str| cubin.symbols().iter().find(|symbol| symbol.name == name).map(|symbol| symbol.kind);
        assert_eq!(kind("launched"), Some(SymbolKind::Kernel));
        assert_eq!(kind("called"), Some(SymbolKind::Function));
        assert_eq!(with_declared_kernels(&changed), Ok(None));
    }

    #[test]
    fn cubins_without_the_list_stay() {
        assert_eq!(with_declared_kernels(&samples::cubin(GpuArch::plain(90), true)), Ok(None));
    }

    #[test]
    fn damaged_cubins_are_errors_or_stay() {
        let data = samples::cubin_with_host_uses(GpuArch::plain(90));
        for length in 0..data.len() {
            assert!(with_declared_kernels(&data[..length]).is_err(), "{length}");
        }
        for at in 0..data.len() {
            let mut damaged = data.clone();
            damaged[at] = !damaged[at];
            let _ = with_declared_kernels(&damaged);
        }
    }
}
