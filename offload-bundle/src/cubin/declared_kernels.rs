//! Declares as kernels what clang declares as functions.

use std::collections::HashSet;

use goblin::container::{Container, Ctx, Endian};
use goblin::elf::section_header::{SHT_REL, SHT_RELA, SHT_SYMTAB, SectionHeader};
use goblin::elf::sym::Sym;

use super::{SHN_UNDEF, STO_CUDA_ENTRY, parse, raw_symbols, section_headers};
use crate::bytes::{c_str, put, slice, u32_at, u64_at};
use crate::error::FormatError;

/// clang's list of kernels and variables that only host code of the unit uses and another unit defines.
const HOST_USES: &str = "__clang_gpu_used_external";

/// Size of a symbol in a 64-bit file, and where it has its visibility.
const SYMBOL_SIZE: u64 = 24;
const ST_OTHER: u64 = 5;
/// The form of 64-bit files.
const CTX: Ctx = Ctx { container: Container::Big, le: Endian::Little };
/// Size of a relocation without an addend; one with an addend starts with the same fields.
const RELOCATION_SIZE: u64 = 16;
/// Where a relocation has its type.
const R_TYPE: u64 = 8;

/// From sm_100 on, the symbol table and the relocations have a twin for the driver's compiler.
const SHT_MERCURY_SYMTAB: u32 = 0x7000_0085;
const SHT_MERCURY_RELA: u32 = 0x7000_0082;

/// The relocations that ptxas emits for the address of a declared function, each with the one for a kernel: a kernel's address is that of
/// its descriptor, which the device runtime launches. Without them a launch of the function's address does nothing, and no error is
/// reported. (Compared: the output of ptxas 13.0 for `.extern .func` and `.extern .entry`, sm_75 to sm_121; launched on an H100.)
const ADDRESSES: [(u32, u32); 9] = [
    (0x02, 0x23),
    (0x66, 0x23),
    (0x38, 0x3e),
    (0x70, 0x3e),
    (0x39, 0x3f),
    (0x71, 0x3f),
    // In the twins, code has the same relocations for both.
    (0x1_0032, 0x1_000f),
    (0x1_003e, 0x1_003e),
    (0x1_003f, 0x1_003f),
];

/// Copies a cubin and declares the kernels as such that it takes for functions; `None` if it has none. `is_kernel` says of a name whether
/// another unit defines a kernel of that name. Kernels that clang lists because host code launches them are declared, too.
///
/// clang declares kernels of other units as functions, so that ptxas does. Device linkers reject a symbol that is a kernel in one cubin and
/// a function in another.
///
/// # Errors
/// Data that is not a cubin, or a damaged one. [`Unsupported`](crate::FormatErrorKind::Unsupported): the cubin uses such a kernel in another
/// way than by its address.
pub fn with_declared_kernels(data: &[u8], is_kernel: &dyn Fn(&str) -> bool) -> Result<Option<Vec<u8>>, FormatError> {
    let cubin = parse(data)?;
    let is_undefined = |name: &str| cubin.symbols.iter().any(|symbol| !symbol.defined && symbol.name == name);
    let has_list = cubin.symbols.iter().any(|symbol| symbol.name == HOST_USES);
    let named = cubin.symbols.iter().map(|symbol| symbol.name.as_str()).filter(|name| is_kernel(name));
    let mut kernels: HashSet<&str> = named.filter(|name| is_undefined(name)).collect();
    if !cubin.is_64_bit() || (kernels.is_empty() && !has_list) {
        return Ok(None);
    }
    let headers = section_headers(data, &cubin.header, CTX)?;
    let mut copy = None;
    if has_list {
        kernels.extend(listed(data, &headers)?);
    }
    for (at, table) in headers.iter().enumerate() {
        if matches!(table.sh_type, SHT_SYMTAB | SHT_MERCURY_SYMTAB) {
            for (index, symbol) in declared(data, &headers, table, &kernels)? {
                let copy = copy.get_or_insert_with(|| data.to_vec());
                let start = table.sh_offset + index * SYMBOL_SIZE;
                put(copy, start + ST_OTHER, &[symbol.st_other | STO_CUDA_ENTRY]);
                for (place, kind) in addresses(data, &headers, at, index)? {
                    put(copy, place, &kind.to_le_bytes());
                }
            }
        }
    }
    Ok(copy)
}

/// The functions of these names that a symbol table declares, by index.
fn declared(
    data: &[u8],
    headers: &[SectionHeader],
    table: &SectionHeader,
    names: &HashSet<&str>,
) -> Result<Vec<(u64, Sym)>, FormatError> {
    let mut found = Vec::new();
    for (index, symbol) in (0..).zip(raw_symbols(data, table, CTX)?) {
        let is_declared = symbol.is_function() && symbol.st_shndx == SHN_UNDEF && symbol.st_other & STO_CUDA_ENTRY == 0;
        if is_declared && names.contains(name_of(&symbol, data, headers, table)?) {
            found.push((index, symbol));
        }
    }
    Ok(found)
}

/// The name of a symbol of a table; empty if the table has no names.
fn name_of<'d>(
    symbol: &Sym,
    data: &'d [u8],
    headers: &[SectionHeader],
    table: &SectionHeader,
) -> Result<&'d str, FormatError> {
    let Some(names) = headers.get(table.sh_link as usize) else { return Ok("") };
    let names = slice(data, names.sh_offset, names.sh_size, "the table of the cubin's symbol names")?;
    c_str(names, symbol.st_name as u64, "a symbol name")
}

/// The types of the relocations that take the address of a symbol of the table at `table`: where each is, and that of a kernel's address.
fn addresses(
    data: &[u8],
    headers: &[SectionHeader],
    table: usize,
    symbol: u64,
) -> Result<Vec<(u64, u32)>, FormatError> {
    let mut found = Vec::new();
    for relocations in headers.iter().filter(|section| section.sh_link as usize == table) {
        for (at, index) in entries(data, relocations)? {
            if u64::from(index) != symbol {
                continue;
            }
            let at = at + R_TYPE;
            let kind = u32_at(data, at, "a relocation's type")?;
            let Some((_, of_kernel)) = ADDRESSES.iter().find(|(of_function, _)| *of_function == kind) else {
                let what =
                    format!("relocation {kind:#x} of a kernel of another unit, which clang declares as a function");
                return Err(FormatError::unsupported(at, what));
            };
            found.push((at, *of_kernel));
        }
    }
    Ok(found)
}

/// The names of the symbols in the lists of a cubin, of which clang makes one.
fn listed<'d>(data: &'d [u8], headers: &[SectionHeader]) -> Result<Vec<&'d str>, FormatError> {
    let mut names = Vec::new();
    for table in headers.iter().filter(|section| section.sh_type == SHT_SYMTAB) {
        let symbols = raw_symbols(data, table, CTX)?;
        for list in symbols.iter().filter(|symbol| symbol.st_shndx != SHN_UNDEF) {
            if name_of(list, data, headers, table)? != HOST_USES {
                continue;
            }
            for relocations in headers.iter().filter(|section| section.sh_info as usize == list.st_shndx) {
                for index in relocated(data, relocations, list)? {
                    let missing =
                        || FormatError::damaged(table.sh_offset, "relocation of a symbol that does not exist");
                    let symbol = symbols.get(index as usize).ok_or_else(missing)?;
                    names.push(name_of(symbol, data, headers, table)?);
                }
            }
        }
    }
    Ok(names)
}

/// The indices of the symbols that relocations put into the list.
fn relocated(data: &[u8], relocations: &SectionHeader, list: &Sym) -> Result<Vec<u32>, FormatError> {
    let mut indices = Vec::new();
    for (at, index) in entries(data, relocations)? {
        let offset = u64_at(data, at, "a relocation")?;
        if offset.checked_sub(list.st_value).is_some_and(|inside| inside < list.st_size) {
            indices.push(index);
        }
    }
    Ok(indices)
}

/// The relocations in a section: where each is in the file, and the index of its symbol. None in other sections.
fn entries(data: &[u8], relocations: &SectionHeader) -> Result<Vec<(u64, u32)>, FormatError> {
    let entry_size = relocations.sh_entsize;
    if !matches!(relocations.sh_type, SHT_REL | SHT_RELA | SHT_MERCURY_RELA) || entry_size < RELOCATION_SIZE {
        return Ok(Vec::new());
    }
    slice(data, relocations.sh_offset, relocations.sh_size, "the cubin's relocations")?;
    let places = (0..relocations.sh_size / entry_size).map(|entry| relocations.sh_offset + entry * entry_size);
    places.map(|at| Ok((at, u32_at(data, at + R_TYPE + 4, "a relocation's symbol")?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GpuArch;
    use crate::cubin::SymbolKind;
    use crate::samples;

    fn none(_: &str) -> bool {
        false
    }

    #[test]
    fn an_undefined_function_of_the_list_becomes_a_kernel() {
        let data = samples::cubin_with_host_uses(GpuArch::plain(90));
        let changed = with_declared_kernels(&data, &none).expect("a sound cubin").expect("a change");
        let differing = data.iter().zip(&changed).filter(|(one, other)| one != other).count();
        // The symbol, and the relocation of the list.
        assert_eq!((changed.len(), differing), (data.len(), 2));
        let cubin = parse(&changed).expect("a sound cubin");
        let kind = |name: &str| cubin.symbols().iter().find(|symbol| symbol.name == name).map(|symbol| symbol.kind);
        assert_eq!(kind("launched"), Some(SymbolKind::Kernel));
        assert_eq!(kind("called"), Some(SymbolKind::Function));
        assert_eq!(with_declared_kernels(&changed, &none), Ok(None));
    }

    #[test]
    fn an_undefined_function_that_another_unit_defines_as_a_kernel_becomes_one() {
        let data = samples::cubin_with_host_uses(GpuArch::plain(90));
        let changed = with_declared_kernels(&data, &|name| name == "called").expect("a sound cubin").expect("a change");
        let cubin = parse(&changed).expect("a sound cubin");
        let kinds = cubin.symbols().iter().filter(|symbol| symbol.kind == SymbolKind::Kernel);
        assert_eq!(kinds.map(|symbol| symbol.name.as_str()).collect::<Vec<_>>(), ["launched", "called"]);
    }

    #[test]
    fn a_kernel_that_is_used_otherwise_than_by_its_address_is_unsupported() {
        let mut data = samples::cubin_with_host_uses(GpuArch::plain(90));
        // The type of the second relocation: that of a call.
        let relocation = [8u64, 3 << 32 | 0x66].map(u64::to_le_bytes).concat();
        let at = data.windows(16).position(|bytes| bytes == relocation).expect("the relocation");
        data[at + 8] = 0x4b;
        let error = with_declared_kernels(&data, &|name| name == "called").expect_err("a call");
        assert!(error.to_string().contains("relocation 0x4b"), "{error}");
    }

    #[test]
    fn cubins_without_the_list_stay() {
        assert_eq!(with_declared_kernels(&samples::cubin(GpuArch::plain(90), true), &none), Ok(None));
    }

    #[test]
    fn damaged_cubins_are_errors_or_stay() {
        let data = samples::cubin_with_host_uses(GpuArch::plain(90));
        for length in 0..data.len() {
            assert!(with_declared_kernels(&data[..length], &none).is_err(), "{length}");
        }
        for at in 0..data.len() {
            let mut damaged = data.clone();
            damaged[at] = !damaged[at];
            let _ = with_declared_kernels(&damaged, &none);
        }
    }
}
