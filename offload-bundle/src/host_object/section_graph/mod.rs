//! Reads which sections of a host object refer to which others, so that a link can tell what it may reach.
//!
//! This follows the rules by which linkers collect sections (`--gc-sections`), and keeps more than they do where they differ. A symbol that
//! other files can see may be defined by any of them, so a reference to it stays a reference to a name. Offload entries refer to the stub
//! of every kernel of their unit; they are listed apart from the other references ([`KernelHandle`]).

mod relocations;
mod section_names;
#[cfg(test)]
mod tests;
mod unwind;

use std::collections::HashMap;

use object::elf::{
    EM_AARCH64, EM_X86_64, FileHeader64, SHF_ALLOC, SHF_GNU_RETAIN, SHF_LINK_ORDER, SHT_FINI_ARRAY, SHT_GROUP,
    SHT_INIT_ARRAY, SHT_LLVM_DEPENDENT_LIBRARIES, SHT_NOTE, SHT_PREINIT_ARRAY, SHT_SYMTAB, STB_LOCAL, STV_DEFAULT,
    STV_PROTECTED,
};
use object::read::SymbolIndex;
use object::read::elf::{FileHeader, SectionHeader, SectionTable, SymbolTable};
use object::{Endianness, FileKind as ObjectKind};

use self::relocations::Relocation;
pub use self::section_names::SECTIONS_OF_COMPILERS;
use super::entries::{self, HostEntry};
use crate::FormatError;

type Elf = FileHeader64<Endianness>;

/// Prefixes of sections that run, or that the loader reads, without a reference.
const KEPT_NAMES: [&[u8]; 6] = [b".init", b".fini", b".ctors", b".dtors", b".preinit_array", b".jcr"];
/// What clang puts in front of a kernel's name for the symbol of its offload entry, which no code names.
const ENTRY_SYMBOL: &[u8] = b".offloading.entry.";
/// Prefixes of sections with code that a linker generates from the object later.
const LTO_NAMES: [&[u8]; 2] = [b".gnu.lto_", b".llvm.lto"];

/// The sections of one object, and what they refer to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SectionGraph<'a> {
    /// By their index in the file.
    pub sections: Vec<SectionNode<'a>>,
    /// The symbols that other files can refer to.
    pub definitions: Vec<Definition<'a>>,
    /// What the object refers to as a whole, as for the personality functions of exceptions.
    pub references: Vec<Reference<'a>>,
    /// What stands for each kernel and variable of the object's offload entries.
    pub handles: Vec<KernelHandle<'a>>,
    /// The object names libraries that a linker adds to the link by itself (`.deplibs`).
    pub names_libraries: bool,
}

/// One section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SectionNode<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Whether it is part of the running program.
    pub is_loaded: bool,
    /// Whether it is part of it without a reference: constructors, notes, and what `__attribute__((retain))` marks.
    pub is_root: bool,
    /// Whether its name is one that users choose, so that it may hold a part of a table whose other parts are in other objects.
    pub has_own_name: bool,
    /// What it refers to, each once.
    pub references: Vec<Reference<'a>>,
}

/// What a section refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference<'a> {
    /// A section of the same object, by index.
    Section(usize),
    /// A symbol that any file of the link may define.
    Symbol(&'a [u8]),
    /// All sections of groups of this signature, in any file: a link keeps one of them.
    Group(&'a [u8]),
}

/// A symbol that other files can refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition<'a> {
    /// Its name, without a version.
    pub name: &'a [u8],
    /// Whether the object itself gives it a version (`.symver`).
    pub has_version: bool,
    /// The section that it is in.
    pub section: usize,
    /// Whether a program or library may export it: its visibility is default or protected.
    pub is_exportable: bool,
}

/// An offload entry, and what host code uses to name the kernel or variable to the runtime: a stub, a handle or a shadow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelHandle<'a> {
    /// The entry.
    pub entry: HostEntry,
    /// Where its address is; `None` if the entry has none.
    pub handle: Option<Reference<'a>>,
}

/// Reads the graph of an object for x86-64 or AArch64.
///
/// # Errors
/// A damaged object; one for another machine; one whose code a linker generates later (`-flto`). Offsets are those of the file.
pub fn section_graph(elf: &[u8]) -> Result<SectionGraph<'_>, FormatError> {
    if !matches!(ObjectKind::parse(elf), Ok(ObjectKind::Elf64)) {
        return Err(FormatError::wrong_format(0, "not a 64-bit ELF file"));
    }
    let reader = Reader::new(elf)?;
    let mut graph = reader.nodes()?;
    reader.add_own_names(&mut graph.sections)?;
    reader.add_groups(&mut graph)?;
    graph.definitions = reader.definitions(graph.sections.len())?;
    for relocated in reader.relocated_sections() {
        let (target, relocations) = relocated?;
        reader.add_references(&mut graph, target, &relocations)?;
    }
    for node in &mut graph.sections {
        node.references.sort_unstable();
        node.references.dedup();
    }
    graph.references.sort_unstable();
    graph.references.dedup();
    Ok(graph)
}

struct Reader<'a> {
    elf: &'a [u8],
    endian: Endianness,
    /// Where the section table starts in the file, for errors.
    table: u64,
    sections: SectionTable<'a, Elf>,
    symbols: SymbolTable<'a, Elf>,
}

impl<'a> Reader<'a> {
    fn new(elf: &'a [u8]) -> Result<Self, FormatError> {
        let damaged = |error: object::Error| FormatError::parser(0, "damaged ELF header", error);
        let header = Elf::parse(elf).map_err(damaged)?;
        let endian = header.endian().map_err(damaged)?;
        if !matches!(header.e_machine(endian), EM_X86_64 | EM_AARCH64) || endian != Endianness::Little {
            return Err(FormatError::unsupported(0, "an object for another machine than x86-64 and AArch64"));
        }
        let table = header.e_shoff(endian);
        let sections = header.sections(endian, elf);
        let sections = sections.map_err(|error| FormatError::parser(table, "damaged ELF section table", error))?;
        let symbols = sections.symbols(endian, elf, SHT_SYMTAB);
        let symbols = symbols.map_err(|error| FormatError::parser(table, "damaged ELF symbol table", error))?;
        Ok(Reader { elf, endian, table, sections, symbols })
    }

    fn damaged(&self, error: object::Error) -> FormatError {
        FormatError::parser(self.table, "damaged ELF section", error)
    }

    /// The sections, with those references that no relocation makes.
    fn nodes(&self) -> Result<SectionGraph<'a>, FormatError> {
        let mut nodes = Vec::with_capacity(self.sections.len());
        let mut names_libraries = false;
        for section in self.sections.iter() {
            let name = self.sections.section_name(self.endian, section).map_err(|error| self.damaged(error))?;
            let offset = section.sh_offset(self.endian);
            if LTO_NAMES.iter().any(|lto| name.starts_with(lto)) {
                return Err(FormatError::unsupported(offset, "an object of link-time optimization (-flto)"));
            }
            let flags = section.sh_flags(self.endian);
            let kind = section.sh_type(self.endian);
            let is_loaded = flags.contains(SHF_ALLOC);
            let is_kept_kind = matches!(kind, SHT_INIT_ARRAY | SHT_FINI_ARRAY | SHT_PREINIT_ARRAY | SHT_NOTE);
            let is_kept = is_kept_kind
                || flags.contains(SHF_GNU_RETAIN)
                || KEPT_NAMES.iter().any(|prefix| name.starts_with(prefix));
            let is_root = is_loaded && is_kept && !entries::is_table(name);
            names_libraries |= kind == SHT_LLVM_DEPENDENT_LIBRARIES && section.sh_size(self.endian) != 0;
            nodes.push(SectionNode { name, is_loaded, is_root, ..SectionNode::default() });
        }
        // A section with this flag describes another one, and is kept with it.
        for (index, section) in self.sections.enumerate() {
            let of = section.sh_link(self.endian) as usize;
            if section.sh_flags(self.endian).contains(SHF_LINK_ORDER)
                && of != 0
                && let Some(node) = nodes.get_mut(of)
            {
                node.references.push(Reference::Section(index.0));
            }
        }
        Ok(SectionGraph { sections: nodes, names_libraries, ..SectionGraph::default() })
    }

    /// Adds references between the sections of each group: a link keeps or drops them together.
    fn add_groups(&self, graph: &mut SectionGraph<'a>) -> Result<(), FormatError> {
        for section in self.sections.iter().filter(|section| section.sh_type(self.endian) == SHT_GROUP) {
            let damaged =
                |error| FormatError::parser(section.sh_offset(self.endian), "damaged ELF section group", error);
            let Some((_, members)) = section.group(self.endian, self.elf).map_err(damaged)? else { continue };
            let symbol = SymbolIndex(section.sh_info(self.endian) as usize);
            let symbol = self.symbols.symbol(symbol).map_err(damaged)?;
            let signature = self.symbols.symbol_name(self.endian, symbol).map_err(damaged)?;
            for member in members {
                let index = member.get(self.endian) as usize;
                let Some(node) = graph.sections.get_mut(index) else {
                    let offset = section.sh_offset(self.endian);
                    return Err(FormatError::damaged(
                        offset,
                        "an ELF section group with a section that does not exist",
                    ));
                };
                node.references.push(Reference::Group(signature));
            }
        }
        Ok(())
    }

    fn definitions(&self, count: usize) -> Result<Vec<Definition<'a>>, FormatError> {
        let mut definitions = Vec::new();
        for (index, symbol) in self.symbols.enumerate().filter(|(_, symbol)| symbol.st_bind() != STB_LOCAL) {
            let section = self.symbols.symbol_section(self.endian, symbol, index);
            let Some(section) = section.map_err(|error| self.damaged(error))? else { continue };
            if section.0 >= count {
                return Err(FormatError::damaged(self.table, "a symbol in a section that does not exist"));
            }
            let name = self.symbols.symbol_name(self.endian, symbol).map_err(|error| self.damaged(error))?;
            let is_exportable = matches!(symbol.st_visibility(), STV_DEFAULT | STV_PROTECTED);
            if section.0 != 0 && !name.is_empty() && !name.starts_with(ENTRY_SYMBOL) {
                let plain = unversioned(name);
                let has_version = plain.len() < name.len();
                definitions.push(Definition { name: plain, has_version, section: section.0, is_exportable });
            }
        }
        Ok(definitions)
    }

    /// Adds the references that the relocations of one section make.
    fn add_references(
        &self,
        graph: &mut SectionGraph<'a>,
        target: usize,
        relocations: &[Relocation],
    ) -> Result<(), FormatError> {
        let Some((name, is_loaded)) = graph.sections.get(target).map(|node| (node.name, node.is_loaded)) else {
            return Ok(());
        };
        if !is_loaded && !entries::is_table(name) {
            return Ok(());
        }
        if name == b".eh_frame" {
            return self.add_unwind_references(graph, target, relocations);
        }
        let found = relocations.iter().map(|relocation| self.reference(relocation)).collect::<Result<Vec<_>, _>>()?;
        if entries::is_table(name) {
            graph.handles.extend(self.handles(target, relocations, &found)?);
        }
        graph.sections[target].references.extend(found.into_iter().flatten());
        Ok(())
    }

    /// What a relocation refers to; `None` for symbols without a section or a name, such as absolute ones.
    fn reference(&self, relocation: &Relocation) -> Result<Option<Reference<'a>>, FormatError> {
        if relocation.symbol == 0 {
            return Ok(None);
        }
        let index = SymbolIndex(relocation.symbol as usize);
        let symbol = self.symbols.symbol(index).map_err(|error| self.damaged(error))?;
        if symbol.st_bind() != STB_LOCAL {
            let name = self.symbols.symbol_name(self.endian, symbol).map_err(|error| self.damaged(error))?;
            return Ok(Some(Reference::Symbol(unversioned(name))));
        }
        let section = self.symbols.symbol_section(self.endian, symbol, index).map_err(|error| self.damaged(error))?;
        match section {
            Some(section) if section.0 >= self.sections.len() => {
                Err(FormatError::damaged(self.table, "a symbol in a section that does not exist"))
            }
            section => Ok(section.map(|section| Reference::Section(section.0))),
        }
    }

    /// The entries of the table in section `target`.
    fn handles(
        &self,
        target: usize,
        relocations: &[Relocation],
        found: &[Option<Reference<'a>>],
    ) -> Result<Vec<KernelHandle<'a>>, FormatError> {
        let of_offset: HashMap<u64, Reference<'a>> =
            relocations.iter().zip(found).filter_map(|(from, to)| Some((from.offset, (*to)?))).collect();
        let headers = super::sections(self.elf)?;
        let Some(header) = headers.get(target) else { return Ok(Vec::new()) };
        let all = entries::table_entries(self.elf, &headers, header)?.into_iter();
        Ok(all.map(|(place, entry)| KernelHandle { entry, handle: of_offset.get(&place).copied() }).collect())
    }
}

/// A symbol's name without its version (`name@VERSION`): a definition of any version counts.
fn unversioned(name: &[u8]) -> &[u8] {
    match name.iter().position(|byte| *byte == b'@') {
        Some(end) if end > 0 => &name[..end],
        _ => name,
    }
}
