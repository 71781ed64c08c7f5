//! Tells sections that users named from those that compilers named.
//!
//! A linker joins sections of one name, so a program may walk a table from a symbol in its first object to one in its last, and no relocation
//! leads to the parts between. Nobody does this with sections that compilers named. Their names begin as those that a user may choose, too
//! (`.data.drivers`), but end with the symbol that fills the section (`-fdata-sections`) or with that of the function whose constants
//! it holds.

use object::elf::{STT_FILE, STT_SECTION};
use object::read::elf::{SectionHeader, Sym};

use super::{Reader, SectionNode};
use crate::FormatError;

/// Names of sections with an own format, also in front of a dot and anything else.
const FORMATS: [&[u8]; 4] = [b".gcc_except_table", b".eh_frame", b".note", b".comment"];

/// Names that compilers give sections, also in front of a dot and a symbol. A name comes before those that begin it.
pub const SECTIONS_OF_COMPILERS: [&str; 22] = [
    ".text.unlikely",
    ".text.hot",
    ".text.startup",
    ".text.exit",
    ".text.split",
    ".text.unknown",
    ".text",
    ".rodata",
    ".data.rel.ro.local",
    ".data.rel.local",
    ".data.rel.ro",
    ".data.rel",
    ".data",
    ".bss.rel.ro",
    ".bss",
    ".tdata",
    ".tbss",
    ".ltext",
    ".lrodata",
    ".ldata.rel.ro",
    ".ldata",
    ".lbss",
];

/// The symbols in a section.
#[derive(Debug, Clone, Copy, Default)]
struct Symbols {
    /// One of them, or more, is that of the section's name.
    has_name: bool,
    /// One of them, or more, is for a part of the section only.
    has_part: bool,
    /// There are any.
    exist: bool,
}

impl<'a> Reader<'a> {
    /// Sets [`SectionNode::has_own_name`].
    pub(super) fn add_own_names(&self, nodes: &mut [SectionNode<'a>]) -> Result<(), FormatError> {
        let symbols = self.symbols_of_sections(nodes)?;
        for (node, symbols) in nodes.iter_mut().zip(symbols) {
            let is_of_compiler = match symbol_of(node.name) {
                // Without symbols it holds constants of a function.
                Some(_) => !symbols.exist || (symbols.has_name && !symbols.has_part),
                None => names_without_symbols().any(|name| behind(node.name, name).is_some()),
            };
            node.has_own_name = !is_of_compiler;
        }
        Ok(())
    }

    fn symbols_of_sections(&self, nodes: &[SectionNode<'a>]) -> Result<Vec<Symbols>, FormatError> {
        let mut found = vec![Symbols::default(); nodes.len()];
        for (index, symbol) in self.symbols.enumerate() {
            let section = self.symbols.symbol_section(self.endian, symbol, index);
            let Some(section) = section.map_err(|error| self.damaged(error))? else { continue };
            let (Some(node), Some(symbols)) = (nodes.get(section.0), found.get_mut(section.0)) else { continue };
            let Some(expected) = symbol_of(node.name) else { continue };
            let name = self.symbols.symbol_name(self.endian, symbol).map_err(|error| self.damaged(error))?;
            // AArch64 marks code and data by symbols.
            if matches!(symbol.st_type(), STT_SECTION | STT_FILE) || name.starts_with(b"$") {
                continue;
            }
            let header = self.sections.section(section).map_err(|error| self.damaged(error))?;
            symbols.exist = true;
            symbols.has_name |= behind(name, expected).is_some();
            symbols.has_part |=
                symbol.st_value(self.endian) != 0 || symbol.st_size(self.endian) != header.sh_size(self.endian);
        }
        Ok(found)
    }
}

/// The symbol in the name of a section, if it is one that a compiler may give.
fn symbol_of(section: &[u8]) -> Option<&[u8]> {
    let is_format = FORMATS.iter().any(|name| behind(section, name).is_some());
    let symbol = SECTIONS_OF_COMPILERS.iter().find_map(|name| behind(section, name.as_bytes()));
    symbol.filter(|symbol| !is_format && !symbol.is_empty())
}

/// Names of sections that nobody walks across objects.
fn names_without_symbols() -> impl Iterator<Item = &'static [u8]> {
    FORMATS.into_iter().chain(SECTIONS_OF_COMPILERS.into_iter().map(str::as_bytes))
}

/// What is behind a beginning and the dot that ends it; empty if nothing is.
fn behind<'n>(name: &'n [u8], beginning: &[u8]) -> Option<&'n [u8]> {
    let rest = name.strip_prefix(beginning)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b".") }
}
