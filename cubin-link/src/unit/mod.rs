//! One relocatable cubin, read and checked.
//!
//! `read.rs` reads the tables, `sections.rs` knows what each section is, `attributes.rs` the records of `.nv.info`.

mod attributes;
mod read;
mod relocations;
mod sections;

pub(crate) use attributes::{Attribute, Record, Value, records};
pub(crate) use read::read;
pub(crate) use relocations::{Relocation, relocations};
pub(crate) use sections::Kind;

/// A relocatable cubin. Names and bytes are borrowed from the input.
#[derive(Debug)]
pub(crate) struct Unit<'a> {
    /// What messages call it.
    pub(crate) file: &'a str,
    /// `e_flags`.
    pub(crate) flags: u32,
    /// By number; the first is empty.
    pub(crate) sections: Vec<Section<'a>>,
    /// By number; the first is empty.
    pub(crate) symbols: Vec<Symbol<'a>>,
    /// The names of symbols, and the prototypes of functions.
    pub(crate) strings: &'a [u8],
}

/// A section with what its header says.
#[derive(Debug, Clone)]
pub(crate) struct Section<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: Kind,
    /// `sh_flags`.
    pub(crate) flags: u64,
    /// A power of two, or 0.
    pub(crate) alignment: u64,
    /// In bytes, also of a section without bytes in the file.
    pub(crate) size: u64,
    /// Empty for a section without bytes in the file.
    pub(crate) data: &'a [u8],
    /// Of the bytes in the file.
    pub(crate) offset: u64,
}

/// A symbol.
#[derive(Debug, Clone)]
pub(crate) struct Symbol<'a> {
    pub(crate) name: &'a str,
    pub(crate) binding: Binding,
    pub(crate) kind: SymbolKind,
    /// The number of its section; 0 if it is undefined.
    pub(crate) section: usize,
    pub(crate) value: u64,
    pub(crate) size: u64,
}

/// Who sees a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    Local,
    Weak,
    Global,
}

/// What a symbol names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SymbolKind {
    /// The empty symbol at the start, or a mark without a name.
    Nothing,
    Section,
    Function,
    /// A function that the host can launch.
    Kernel,
    /// `__device__`.
    Global,
    /// `__managed__`, in the same sections.
    Managed,
    /// `__constant__`.
    Constant,
    /// Constants that the compiler made for one function, such as a jump table.
    FunctionConstant,
    /// `__shared__`. Its value is its alignment: the linker chooses the place.
    Shared,
    /// Stands for a table or a size that only the linker or the driver knows.
    Reserved,
}

impl SymbolKind {
    /// A function or a kernel.
    pub(crate) fn is_code(self) -> bool {
        matches!(self, SymbolKind::Function | SymbolKind::Kernel)
    }
}

impl<'a> Unit<'a> {
    /// The text at an offset of the table of strings, such as a prototype.
    pub(crate) fn string(&self, at: u32) -> Option<&'a str> {
        crate::bytes::c_str(self.strings, at as usize)
    }
}
