//! Where the data of all units is in the linked cubin.
//!
//! A section of data of a unit stays in one piece, with variables that do not prevail; nvlink puts the pieces of all units one behind
//! the other.

use crate::bytes::aligned;
use crate::error::LinkError;
use crate::program::Program;
use crate::unit::{Kind, Section, SymbolKind};

/// The data of all units that goes into one section.
#[derive(Debug)]
pub(crate) struct Merged<'a> {
    /// `Constants`, `Initialized`, `Zeroed` or `Frames`.
    pub(crate) kind: Kind,
    pub(crate) name: &'a str,
    pub(crate) pieces: Vec<Piece>,
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) alignment: u64,
    /// `sh_flags`.
    pub(crate) flags: u64,
}

/// A section of a unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) unit: usize,
    pub(crate) section: usize,
    /// Offset in the section of the cubin.
    pub(crate) base: u64,
}

/// Whether a section has only variables for which the definitions of other units stand: nvlink leaves it out.
fn is_repeated(program: &Program<'_>, unit: usize, section: usize) -> bool {
    let symbols = program.units[unit].symbols.iter().zip(&program.numbers[unit]);
    let mut inside = symbols
        .filter(|(symbol, _)| symbol.section == section && symbol.kind != SymbolKind::Section)
        .map(|(_, number)| number.is_some_and(|number| program.symbols[number].owners.contains(&unit)))
        .peekable();
    inside.peek().is_some() && !inside.any(|owns| owns)
}

/// Whether the constants that a compiler made for some code belong to one kernel. Those of a device function would go into the banks of all
/// kernels that reach it.
fn is_own_bank(program: &Program<'_>, unit: usize, code: usize) -> bool {
    program.function_in(unit, code).is_some_and(|(symbol, function)| {
        program.symbols[function].kind == SymbolKind::Kernel && program.prevails(unit, symbol)
    })
}

/// The data sections of the cubin, in the order in which units have them first.
#[derive(Debug)]
pub(crate) struct Layout<'a> {
    pub(crate) merged: Vec<Merged<'a>>,
    /// For each unit and each of its sections: the merged section, and where in it.
    places: Vec<Vec<Option<(usize, u64)>>>,
}

impl<'a> Layout<'a> {
    /// Puts the data of all units together.
    ///
    /// # Errors
    /// More data than a cubin can have.
    pub(crate) fn new(program: &Program<'a>) -> Result<Self, LinkError> {
        let units = program.units;
        let places = units.iter().map(|unit| vec![None; unit.sections.len()]).collect();
        let mut layout = Layout { merged: Vec::new(), places };
        for (number, unit) in units.iter().enumerate() {
            for (section, of_unit) in unit.sections.iter().enumerate() {
                if let Kind::FunctionConstants(bank, code) = of_unit.kind
                    && bank != 0
                    && !is_own_bank(program, number, code)
                {
                    let what = format!("constants {} of a device function, or of several kernels", of_unit.name);
                    return Err(LinkError::unsupported(unit.file, of_unit.offset, what));
                }
                let is_data =
                    matches!(of_unit.kind, Kind::Constants(_) | Kind::Initialized | Kind::Zeroed | Kind::Frames);
                if is_data && !(of_unit.kind == Kind::Zeroed && is_repeated(program, number, section)) {
                    layout
                        .add(number, section, of_unit)
                        .ok_or_else(|| LinkError::damaged(unit.file, of_unit.offset, "too much data"))?;
                }
            }
        }
        Ok(layout)
    }

    fn add(&mut self, unit: usize, number: usize, section: &Section<'a>) -> Option<()> {
        let known = self.merged.iter().position(|merged| merged.kind == section.kind);
        let place = known.unwrap_or(self.merged.len());
        if known.is_none() {
            let Section { kind, name, flags, .. } = *section;
            self.merged.push(Merged { kind, name, pieces: Vec::new(), size: 0, alignment: 1, flags });
        }
        let merged = self.merged.get_mut(place)?;
        let base = aligned(merged.size, section.alignment)?;
        merged.size = base.checked_add(section.size).filter(|size| u32::try_from(*size).is_ok())?;
        merged.alignment = merged.alignment.max(section.alignment);
        merged.pieces.push(Piece { unit, section: number, base });
        self.places[unit][number] = Some((place, base));
        Some(())
    }

    /// The merged section that holds a section of a unit, and where.
    pub(crate) fn place(&self, unit: usize, section: usize) -> Option<(usize, u64)> {
        self.places.get(unit)?.get(section).copied()?
    }
}

impl Merged<'_> {
    /// Its bytes before relocation; none for data that is zero at first.
    pub(crate) fn bytes(&self, program: &Program<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.kind == Kind::Zeroed {
            return bytes;
        }
        for piece in &self.pieces {
            bytes.resize(piece.base as usize, 0);
            bytes.extend_from_slice(program.units[piece.unit].sections[piece.section].data);
        }
        bytes
    }
}
