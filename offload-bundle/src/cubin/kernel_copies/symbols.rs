//! The symbols of a cubin, and copies of those of a kernel.

use std::collections::HashMap;

use goblin::elf::section_header::{SHN_LORESERVE, SHT_SYMTAB};
use goblin::elf::sym;

use super::super::{STO_CUDA_ENTRY, STT_CUDA_OBJECT};
use crate::bytes::{c_str, u16_at, u32_at};
use crate::elf_edit::ExtendedElf;
use crate::error::FormatError;

const SYMBOL_SIZE: usize = 24;
/// Functions that ptxas adds for an operation have numbers: `$__internal_0_$__cuda_sm20_div_rn_f64_full`.
const INTERNAL: &str = "$__internal_";

/// The symbol table of a cubin.
pub(super) struct Symbols<'a> {
    /// Number of the section.
    section: usize,
    /// Number of the section with the names.
    names: usize,
    all: Vec<Symbol<'a>>,
    /// Number of symbols with those that were added.
    count: u32,
    /// The next number of a function that ptxas adds.
    next_internal: u64,
    adds_local: bool,
}

struct Symbol<'a> {
    name: &'a str,
    bytes: &'a [u8],
    info: u8,
    other: u8,
    section: u16,
}

impl<'a> Symbols<'a> {
    /// Reads the table.
    ///
    /// # Errors
    /// None, or a damaged one.
    pub fn read(elf: &ExtendedElf<'a>, names: &[&str]) -> Result<Self, FormatError> {
        let is_table = |number: &usize| elf.headers()[*number].kind == SHT_SYMTAB && names[*number] == ".symtab";
        let section = (0..elf.headers().len()).find(is_table);
        let section = section.ok_or_else(|| FormatError::damaged(0, "cubin without symbols"))?;
        let strings = elf.headers()[section].link as usize;
        let texts = elf.content(strings)?;
        let mut all = Vec::new();
        for bytes in elf.content(section)?.chunks_exact(SYMBOL_SIZE) {
            let [info, other] = u16_at(bytes, 4, "a symbol")?.to_le_bytes();
            let name = c_str(texts, u32_at(bytes, 0, "a symbol")?.into(), "a symbol's name")?;
            all.push(Symbol { name, bytes, info, other, section: u16_at(bytes, 6, "a symbol")? });
        }
        let internal = all.iter().filter_map(|symbol| Some(internal_number(symbol.name)?.0));
        let next_internal = internal.max().map_or(0, |number| number.saturating_add(1));
        let count = all.len() as u32;
        Ok(Symbols { section, names: strings, all, count, next_internal, adds_local: false })
    }

    /// The number of a kernel's symbol, and of the section with its code.
    pub fn kernel(&self, name: &str) -> Option<(u32, usize)> {
        let is_kernel = |symbol: &Symbol<'_>| {
            symbol.name == name
                && sym::st_type(symbol.info) == sym::STT_FUNC
                && symbol.other & STO_CUDA_ENTRY != 0
                && symbol.section != 0
        };
        let number = self.all.iter().position(is_kernel)?;
        Some((number as u32, self.all[number].section.into()))
    }

    /// The numbers of the symbols of these sections.
    pub fn in_sections(&self, sections: &[usize]) -> Vec<u32> {
        let is_in = |symbol: &Symbol<'_>| {
            u32::from(symbol.section) < SHN_LORESERVE && sections.contains(&symbol.section.into())
        };
        (0_u32..).zip(&self.all).filter(|(_, symbol)| is_in(symbol)).map(|(number, _)| number).collect()
    }

    /// Adds a copy of a symbol of a kernel of the first name, for one of the second. Returns its number.
    ///
    /// # Errors
    /// A symbol with a name that says nothing of the kernel.
    pub fn copy(
        &mut self,
        elf: &mut ExtendedElf<'a>,
        number: u32,
        (kernel, copy): (&str, &str),
        sections: &HashMap<usize, usize>,
    ) -> Result<u32, FormatError> {
        let Some(symbol) = self.all.get(number as usize) else { return Ok(number) };
        let name = if symbol.name.is_empty() || symbol.name == kernel {
            symbol.name.replace(kernel, copy)
        } else if is_local_data(symbol) {
            // Parameters and tables of constants; their names mean nothing.
            symbol.name.strip_prefix(kernel).map_or(symbol.name.to_owned(), |rest| format!("{copy}{rest}"))
        } else if let Some(rest) =
            symbol.name.strip_suffix(kernel).filter(|_| sym::st_type(symbol.info) == sym::STT_SECTION)
        {
            format!("{rest}{copy}")
        } else if let Some((_, rest)) = internal_number(symbol.name) {
            let number = self.next_internal;
            self.next_internal += 1;
            format!("{INTERNAL}{number}{rest}")
        } else if symbol.name.contains(&format!("${kernel}$")) {
            symbol.name.replace(&format!("${kernel}$"), &format!("${copy}$"))
        } else {
            let name = symbol.name;
            return Err(FormatError::unsupported(0, format!("symbol {name} of a kernel, which cannot be copied")));
        };
        let name_at = if name.is_empty() { 0 } else { elf.append(self.names, format!("{name}\0").as_bytes()) };
        let section = sections.get(&symbol.section.into()).copied().unwrap_or_default();
        let mut bytes = symbol.bytes.to_vec();
        bytes[..4].copy_from_slice(&(name_at as u32).to_le_bytes());
        bytes[6..8].copy_from_slice(&(section as u16).to_le_bytes());
        self.adds_local |= sym::st_bind(symbol.info) == sym::STB_LOCAL;
        elf.append(self.section, &bytes);
        self.count += 1;
        Ok(self.count - 1)
    }

    /// Updates the header of the table. As in tables of ptxas, `sh_info` counts all symbols if local ones follow others.
    pub fn finish(self, elf: &mut ExtendedElf<'_>) {
        let count = self.count;
        elf.change(self.section, |header| {
            if self.adds_local {
                header.info = count;
            }
        });
    }
}

fn is_local_data(symbol: &Symbol<'_>) -> bool {
    let kind = sym::st_type(symbol.info);
    sym::st_bind(symbol.info) == sym::STB_LOCAL && matches!(kind, sym::STT_OBJECT | STT_CUDA_OBJECT)
}

/// The number in the name of a function that ptxas adds, and what follows it.
fn internal_number(name: &str) -> Option<(u64, &str)> {
    let rest = name.strip_prefix(INTERNAL)?;
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    Some((rest[..digits].parse().ok()?, &rest[digits..]))
}
