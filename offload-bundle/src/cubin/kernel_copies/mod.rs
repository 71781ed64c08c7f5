//! Adds kernels to a cubin that have the code of others, under names of their own, as if ptxas had compiled them, too.
//!
//! A kernel is a section with its code, sections beside it that have its name, symbols, and rows of the tables of the whole cubin. All of
//! these are copied. What is not known to name the kernel in a way that can be copied is an error, never left out.

mod attributes;
mod frames;
mod symbols;

use std::collections::{BTreeMap, HashMap};

use super::parse;
use crate::bytes::{c_str, u32_at};
use crate::elf_edit::{ExtendedElf, SectionHeader};
use crate::error::FormatError;
use symbols::Symbols;

const SHT_REL: u32 = 9;
const SHT_RELA: u32 = 4;
/// The section's `sh_info` is the number of a section.
const SHF_INFO_LINK: u64 = 0x40;
/// `sh_info` of a section of code: the number of its symbol, and above it the number of registers in the old layout.
const SYMBOL_BITS: u32 = 0x00ff_ffff;
/// What the sections of a kernel are called, in front of its name.
const OF_KERNEL: [&str; 9] = [
    ".text",
    ".nv.info",
    ".nv.constant0",
    ".nv.constant2",
    ".nv.shared",
    ".nv.local",
    ".rel",
    ".rela",
    ".nv.resolvedrela",
];
/// Sections whose references to a kernel are theirs alone: other code, and variables.
const REFERRING: [&str; 4] = [".text.", ".nv.constant", ".nv.global", ".debug_frame"];

/// Copies a cubin and adds kernels: for each of its kernels that `copies` names, one of each name in the list.
///
/// # Errors
/// Data that is not a cubin, a damaged one, one without such a kernel, or one with parts that cannot be copied.
pub fn with_kernel_copies(data: &[u8], copies: &BTreeMap<String, Vec<String>>) -> Result<Vec<u8>, FormatError> {
    let cubin = parse(data)?;
    let taken: Vec<&str> = cubin.symbols.iter().map(|symbol| symbol.name.as_str()).collect();
    if let Some(name) = copies.values().flatten().find(|name| taken.contains(&name.as_str())) {
        return Err(FormatError::unsupported(0, format!("cubin that has {name} already")));
    }
    if cubin.section(".nv.merc.symtab").is_some() || cubin.section(".symtab_shndx").is_some() {
        return Err(FormatError::unsupported(0, "cubin whose kernels cannot be copied"));
    }
    let mut copier = Copier::new(data)?;
    for (kernel, names) in copies {
        let parts = copier.parts(kernel)?;
        for name in names {
            copier.copy(kernel, name, &parts)?;
        }
    }
    let bytes = copier.finish()?;
    let kernels = parse(&bytes)?.kernels();
    match copies.values().flatten().find(|name| !kernels.contains(name)) {
        Some(name) => Err(FormatError::damaged(0, format!("copy without the kernel {name}"))),
        None => Ok(bytes),
    }
}

/// A cubin to which kernels are added.
struct Copier<'a> {
    elf: ExtendedElf<'a>,
    /// The names of the sections that it had at first, by number.
    names: Vec<&'a str>,
    by_name: HashMap<&'a str, usize>,
    symbols: Symbols<'a>,
    /// The sections that say of another one what `sh_info` refers to, by that one.
    describing: HashMap<usize, Vec<usize>>,
    copied: Copied,
}

/// The parts of a kernel.
struct Parts {
    /// Number of its symbol.
    symbol: u32,
    /// Number of the section with its code.
    code: usize,
    /// Its sections, in order.
    sections: Vec<usize>,
    /// Its symbols, in order.
    symbols: Vec<u32>,
}

/// All copies, and which of them there are of a symbol.
#[derive(Default)]
struct Copied {
    all: Vec<Renumbered>,
    by_symbol: HashMap<u32, Vec<usize>>,
}

impl Copied {
    fn add(&mut self, copy: Renumbered) {
        for symbol in copy.symbols.keys() {
            self.by_symbol.entry(*symbol).or_default().push(self.all.len());
        }
        self.all.push(copy);
    }

    /// The copies of the kernel that a symbol belongs to.
    fn of(&self, symbol: u32) -> impl Iterator<Item = &Renumbered> {
        self.by_symbol.get(&symbol).into_iter().flatten().map(|place| &self.all[*place])
    }
}

/// The numbers that a copy has where the original has others.
#[derive(Default)]
struct Renumbered {
    sections: HashMap<usize, usize>,
    symbols: HashMap<u32, u32>,
}

impl Renumbered {
    fn symbol(&self, symbol: u32) -> u32 {
        self.symbols.get(&symbol).copied().unwrap_or(symbol)
    }
}

impl<'a> Copier<'a> {
    fn new(data: &'a [u8]) -> Result<Self, FormatError> {
        let elf = ExtendedElf::new(data)?;
        let strings = elf.headers().get(elf.section_names()).map_or(0, |strings| strings.offset);
        let name = |header: &SectionHeader| c_str(data, strings.saturating_add(header.name.into()), "a section name");
        let names = elf.headers().iter().map(name).collect::<Result<Vec<&str>, _>>()?;
        let by_name = names.iter().enumerate().map(|(number, name)| (*name, number)).collect();
        let mut describing: HashMap<usize, Vec<usize>> = HashMap::new();
        for (number, header) in elf.headers().iter().enumerate() {
            if is_describing(header) {
                describing.entry(header.info as usize).or_default().push(number);
            }
        }
        let symbols = Symbols::read(&elf, &names)?;
        Ok(Copier { elf, names, by_name, symbols, describing, copied: Copied::default() })
    }

    /// Finds the parts of a kernel.
    fn parts(&self, kernel: &str) -> Result<Parts, FormatError> {
        let (symbol, code) = self
            .symbols
            .kernel(kernel)
            .ok_or_else(|| FormatError::unsupported(0, format!("cubin without the kernel {kernel}")))?;
        let code_name = format!(".text.{kernel}");
        if self.names.get(code) != Some(&&*code_name) {
            return Err(FormatError::unsupported(0, format!("cubin with the kernel {kernel} in another section")));
        }
        let mut sections = vec![code];
        let mut next = 0;
        while let Some(number) = sections.get(next).copied() {
            next += 1;
            for other in self.describing.get(&number).into_iter().flatten() {
                if !sections.contains(other) {
                    sections.push(*other);
                }
            }
        }
        for prefix in OF_KERNEL {
            if let Some(number) = self.by_name.get(&*format!("{prefix}.{kernel}"))
                && !sections.contains(number)
            {
                sections.push(*number);
            }
        }
        sections.sort_unstable();
        for number in &sections {
            let name = self.names[*number];
            let prefix = name.strip_suffix(kernel).and_then(|rest| rest.strip_suffix('.')).unwrap_or_default();
            let prefix = prefix.strip_prefix(".rela").or_else(|| prefix.strip_prefix(".rel")).unwrap_or(prefix);
            if !OF_KERNEL.contains(&prefix) {
                return Err(FormatError::unsupported(0, format!("section {name}, which cannot be copied")));
            }
        }
        let symbols = self.symbols.in_sections(&sections);
        self.check_references(&sections, &symbols)?;
        Ok(Parts { symbol, code, sections, symbols })
    }

    /// Only parts that are copied, and other code and variables, may refer to the kernel.
    fn check_references(&self, sections: &[usize], symbols: &[u32]) -> Result<(), FormatError> {
        for (number, header) in self.elf.headers().iter().enumerate() {
            if sections.contains(&number) || !matches!(header.kind, SHT_REL | SHT_RELA) {
                continue;
            }
            let name = self.names[number];
            let of = name.strip_prefix(".rela").or_else(|| name.strip_prefix(".rel")).unwrap_or(name);
            if REFERRING.iter().any(|known| of.starts_with(known)) {
                continue;
            }
            for entry in entries(self.elf.content(number)?, header) {
                if symbols.contains(&u32_at(entry, 12, "a relocation")?) {
                    return Err(FormatError::unsupported(0, format!("section {name}, which refers to the kernel")));
                }
            }
        }
        Ok(())
    }

    fn copy(&mut self, kernel: &str, name: &str, parts: &Parts) -> Result<(), FormatError> {
        let mut new = Renumbered::default();
        for (place, number) in (self.elf.next_number()..).zip(&parts.sections) {
            new.sections.insert(*number, place);
        }
        for symbol in &parts.symbols {
            let number = self.symbols.copy(&mut self.elf, *symbol, (kernel, name), &new.sections)?;
            new.symbols.insert(*symbol, number);
        }
        for number in &parts.sections {
            let Some(old) = self.elf.headers().get(*number).copied() else { continue };
            let section_name = self.names[*number];
            let prefix = section_name.strip_suffix(kernel).unwrap_or_default();
            let name_at = self.elf.append(self.elf.section_names(), format!("{prefix}{name}\0").as_bytes());
            let content = self.content(*number, &old, section_name, &new)?;
            let info = if *number == parts.code {
                old.info & !SYMBOL_BITS | new.symbol(parts.symbol) & SYMBOL_BITS
            } else if is_describing(&old) {
                new.sections.get(&(old.info as usize)).map_or(old.info, |number| *number as u32)
            } else {
                old.info
            };
            let header = SectionHeader { name: name_at as u32, info, ..old };
            // Behind the last of its kind, so that it is loaded with them.
            self.elf.add(header, content, *number);
        }
        self.copied.add(new);
        Ok(())
    }

    /// The contents of a section of a kernel, for its copy.
    fn content(
        &self,
        number: usize,
        header: &SectionHeader,
        name: &str,
        new: &Renumbered,
    ) -> Result<Vec<u8>, FormatError> {
        let content = self.elf.content(number)?;
        if matches!(header.kind, SHT_REL | SHT_RELA) {
            return relocations(content, header, new);
        }
        if name.starts_with(".nv.info.") {
            return attributes::of_kernel(content, new);
        }
        Ok(content.to_vec())
    }

    /// Copies the rows of the cubin's tables that are about the kernels.
    fn copy_rows(&mut self) -> Result<(), FormatError> {
        if let Some(number) = self.by_name.get(".nv.info").copied() {
            let rows = attributes::of_cubin(self.elf.content(number)?, &self.copied)?;
            self.append(number, &rows);
        }
        for table in [".nv.callgraph", ".nv.prototype"] {
            if let Some(number) = self.by_name.get(table).copied() {
                let rows = pairs(self.elf.content(number)?, &self.copied)?;
                self.elf.rewrite(number, &rows)?;
            }
        }
        let Some(frames) = self.by_name.get(".debug_frame").copied() else { return Ok(()) };
        let mut tables = Vec::new();
        for name in [".rela.debug_frame", ".rel.debug_frame"] {
            if let Some(number) = self.by_name.get(name).copied()
                && let Some(header) = self.elf.headers().get(number)
            {
                tables.push((number, entries(self.elf.content(number)?, header).collect()));
            }
        }
        let copies = frames::copies(self.elf.content(frames)?, &tables, &self.copied)?;
        self.append(frames, &copies.frames);
        for (number, relocations) in &copies.relocations {
            self.append(*number, relocations);
        }
        Ok(())
    }

    fn append(&mut self, number: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.elf.append(number, bytes);
        }
    }

    fn finish(mut self) -> Result<Vec<u8>, FormatError> {
        self.copy_rows()?;
        self.symbols.finish(&mut self.elf);
        self.elf.finish()
    }
}

fn is_describing(header: &SectionHeader) -> bool {
    header.flags & SHF_INFO_LINK != 0 || matches!(header.kind, SHT_REL | SHT_RELA)
}

/// The relocations of a section.
fn entries<'c>(content: &'c [u8], header: &SectionHeader) -> impl Iterator<Item = &'c [u8]> + use<'c> {
    content.chunks_exact(if header.kind == SHT_RELA { 24 } else { 16 })
}

/// A table of pairs of numbers, the first a function's symbol, with a row for each copy of it behind its own: the table may have parts.
fn pairs(content: &[u8], copied: &Copied) -> Result<Vec<u8>, FormatError> {
    let mut rows = Vec::with_capacity(content.len());
    for row in content.chunks_exact(8) {
        let (symbol, other) = (u32_at(row, 0, "a symbol")?, u32_at(row, 4, "a number")?);
        rows.extend_from_slice(row);
        for copy in copied.of(symbol) {
            rows.extend([copy.symbol(symbol), copy.symbol(other)].map(u32::to_le_bytes).concat());
        }
    }
    Ok(rows)
}

/// The relocations of a copy.
fn relocations(content: &[u8], header: &SectionHeader, new: &Renumbered) -> Result<Vec<u8>, FormatError> {
    let mut copy = Vec::with_capacity(content.len());
    for entry in entries(content, header) {
        let symbol = new.symbol(u32_at(entry, 12, "a relocation")?);
        copy.extend_from_slice(&entry[..12]);
        copy.extend(symbol.to_le_bytes());
        copy.extend_from_slice(&entry[16..]);
    }
    Ok(copy)
}
