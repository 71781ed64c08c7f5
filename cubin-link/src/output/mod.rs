//! The linked cubin: its sections, its symbols, and their bytes.
//!
//! `plan.rs` decides which sections there are, `symbols.rs` numbers the symbols, `attributes.rs`, `calls.rs` and `notes.rs` write the
//! sections with facts about functions and units, and `elf.rs` puts everything into a file.

mod attributes;
mod calls;
mod elf;
mod notes;
mod plan;
mod symbols;

pub(crate) use plan::Image;

use crate::error::LinkError;
use notes::Notes;
use plan::{Of, Part, Plan};
use symbols::SymbolTable;

/// A section of the cubin, without its place in the file.
struct OutSection {
    name: String,
    kind: u32,
    flags: u64,
    link: u32,
    info: u32,
    alignment: u64,
    entry_size: u64,
    /// In bytes, also of a section without bytes in the file.
    size: u64,
    bytes: Vec<u8>,
}

/// The sections in front of those of a [`Plan`]: none, names of sections, names of symbols, symbols.
const FIRST_SECTIONS: usize = 4;
const SYMBOLS_SECTION: u32 = 3;

/// Types of sections; those of CUDA have the names that cuobjdump prints.
const PROGBITS: u32 = 1;
const NOTE: u32 = 7;
const RELA: u32 = 4;
const NOBITS: u32 = 8;
const CUDA_INFO: u32 = 0x7000_0000;
const CUDA_CALLGRAPH: u32 = 0x7000_0001;
const CUDA_PROTOTYPE: u32 = 0x7000_0002;
const CUDA_RELOCINFO: u32 = 0x7000_000b;
const CUDA_COMPAT_INFO: u32 = 0x7000_0086;

/// `SHF_ALLOC`, `SHF_INFO_LINK`.
const ALLOC: u64 = 2;
const INFO_LINK: u64 = 0x40;

/// `.nv.rel.action` of every cubin for these GPUs that nvlink writes: what the driver has to do for relocations of type 0x73.
const RELOCATION_ACTIONS: [u8; 16] = [0x73, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x25, 0, 5, 0x36];

/// Writes the cubin.
///
/// # Errors
/// Facts about functions or units that are not known to be linked like this.
pub(crate) fn write(image: &Image<'_, '_>) -> Result<Vec<u8>, LinkError> {
    let notes = Notes::merge(image.program.units, image.target)?;
    let plan = Plan::new(image);
    let symbols = SymbolTable::new(image, &plan);
    let writer = Writer { image, plan: &plan, symbols: &symbols, notes: &notes };
    let mut sections = Vec::with_capacity(plan.parts.len());
    for part in &plan.parts {
        sections.push(writer.section(*part)?);
    }
    Ok(elf::file(&sections, &symbols, image.program.units))
}

struct Writer<'w, 'p, 'a> {
    image: &'w Image<'p, 'a>,
    plan: &'w Plan,
    symbols: &'w SymbolTable<'a>,
    notes: &'w Notes,
}

impl Writer<'_, '_, '_> {
    fn section(&self, part: Part) -> Result<OutSection, LinkError> {
        let name = self.plan.name(self.image, part);
        let with = |kind, flags, alignment, bytes: Vec<u8>| OutSection {
            name: name.clone(),
            kind,
            flags,
            link: 0,
            info: 0,
            alignment,
            entry_size: 0,
            size: bytes.len() as u64,
            bytes,
        };
        let table =
            |kind, bytes: Vec<u8>| OutSection { link: SYMBOLS_SECTION, entry_size: 8, ..with(kind, 0, 4, bytes) };
        Ok(match part {
            Part::ToolNote => with(NOTE, 0x0200_0000, 4, self.notes.tools.clone()),
            Part::ReleaseNote => OutSection {
                link: self.plan.number(Part::ToolNote),
                info: self.plan.number(Part::Compatibility),
                ..with(NOTE, 0x0100_0000 | INFO_LINK, 4, self.notes.release.clone())
            },
            Part::Compatibility => with(CUDA_COMPAT_INFO, 0, 4, self.notes.compatibility.clone()),
            Part::Attributes => OutSection {
                link: SYMBOLS_SECTION,
                ..with(CUDA_INFO, 0, 4, attributes::of_cubin(self.image, self.symbols))
            },
            Part::FunctionAttributes(function) => OutSection {
                link: SYMBOLS_SECTION,
                info: self.plan.number(Part::Code(function)),
                ..with(CUDA_INFO, INFO_LINK, 4, attributes::of_function(self.image, self.symbols, function)?)
            },
            Part::Calls => table(CUDA_CALLGRAPH, calls::graph(self.image, self.symbols)),
            Part::Prototypes => table(CUDA_PROTOTYPE, calls::prototypes(self.image, self.symbols)),
            Part::Actions => OutSection { entry_size: 8, ..with(CUDA_RELOCINFO, 0, 8, RELOCATION_ACTIONS.to_vec()) },
            Part::Relocations(of) => OutSection {
                link: SYMBOLS_SECTION,
                info: self.plan.number(of.part()),
                entry_size: 24,
                ..with(RELA, INFO_LINK, 8, self.relocations(of))
            },
            Part::Merged(number) => {
                let merged = &self.image.layout.merged[number];
                let (bytes, _) = &self.image.data[number];
                let kind = if merged.kind == crate::unit::Kind::Zeroed { NOBITS } else { PROGBITS };
                let section = with(kind, merged.flags, merged.alignment, bytes.clone());
                OutSection { size: merged.size, ..section }
            }
            Part::FunctionConstants(unit, number) => {
                let section = &self.image.program.units[unit].sections[number];
                let function = self.image.function_of(unit, number);
                let code = function.map_or(0, |function| self.plan.number(Part::Code(function)));
                let bytes = section.data.to_vec();
                OutSection { info: code, ..with(PROGBITS, section.flags, section.alignment, bytes) }
            }
            Part::Code(function) => {
                let (bytes, _) = &self.image.code[function];
                let (flags, alignment) = self.image.code_form(function);
                let info = self.symbols.of(function);
                OutSection { link: SYMBOLS_SECTION, info, ..with(PROGBITS, flags, alignment, bytes.clone()) }
            }
            Part::KernelShared(kernel) => {
                let (size, alignment) = self.image.shared.kernels[kernel].unwrap_or_default();
                let info = self.plan.number(Part::Code(kernel));
                OutSection { info, size, ..with(NOBITS, INFO_LINK | ALLOC | 1, alignment, Vec::new()) }
            }
            Part::FunctionShared => with(NOBITS, ALLOC | 1, 16, Vec::new()),
        })
    }

    fn relocations(&self, of: Of) -> Vec<u8> {
        let (_, kept) = match of {
            Of::Merged(number) => &self.image.data[number],
            Of::Code(function) => &self.image.code[function],
        };
        let mut bytes = Vec::with_capacity(kept.len() * 24);
        for entry in kept {
            bytes.extend(entry.offset.to_le_bytes());
            bytes.extend(entry.kind.to_le_bytes());
            bytes.extend(self.symbols.of(entry.symbol).to_le_bytes());
            bytes.extend(entry.addend.to_le_bytes());
        }
        bytes
    }
}
