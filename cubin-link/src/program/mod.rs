//! All units as one program: which definition a name stands for, who calls whom, what is needed, and what kernels take.
//!
//! `resolve.rs` comes first; `calls.rs` and `own.rs` read what the units say of functions, `reach.rs` follows the calls,
//! `defined.rs` finds what is missing, and `unused_constants.rs` constants that only the host may need.

mod calls;
mod defined;
mod own;
mod reach;
mod resolve;
mod unused_constants;

pub(crate) use calls::Calls;
pub(crate) use defined::check_defined;
pub(crate) use own::{Own, OwnRecord};
pub(crate) use reach::{Kept, Reach, Totals};
pub(crate) use resolve::resolve;
pub(crate) use unused_constants::unused_constants;

use crate::unit::{Binding, Symbol, SymbolKind, Unit};

/// The units of a link, and their symbols with those of one name joined.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    pub(crate) units: &'a [Unit<'a>],
    /// In the order in which nvlink meets them: unit by unit, first the functions, then the variables.
    pub(crate) symbols: Vec<Linked<'a>>,
    /// For each unit and each of its symbols, the joined one; `None` for what has none, such as the symbol of a section.
    pub(crate) numbers: Vec<Vec<Option<usize>>>,
    /// What the units say of their own functions.
    pub(crate) own: Vec<Own>,
}

/// A symbol of the program.
#[derive(Debug)]
pub(crate) struct Linked<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: SymbolKind,
    /// Of the prevailing definition, or else of the first reference.
    pub(crate) binding: Binding,
    /// Of the first unit that has it.
    pub(crate) first_binding: Binding,
    /// In bytes.
    pub(crate) size: u64,
    /// Of a shared variable.
    pub(crate) alignment: u64,
    /// The first unit that has it.
    pub(crate) first_unit: usize,
    /// The prevailing definition.
    pub(crate) place: Option<Place>,
    /// The units whose definition prevailed at some time: nvlink keeps the calls of each.
    pub(crate) owners: Vec<usize>,
}

/// A symbol of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) unit: usize,
    pub(crate) symbol: usize,
}

impl<'a> Program<'a> {
    /// The symbol at a place.
    pub(crate) fn symbol(&self, place: Place) -> &'a Symbol<'a> {
        &self.units[place.unit].symbols[place.symbol]
    }

    /// Whether a unit defines a symbol for which the definition of another unit stands.
    pub(crate) fn is_repeated(&self, unit: usize, symbol: usize) -> bool {
        self.units[unit].symbols[symbol].section != 0 && !self.prevails(unit, symbol)
    }

    /// Whether the definition of this symbol in this unit is the one that prevails.
    pub(crate) fn prevails(&self, unit: usize, symbol: usize) -> bool {
        let number = self.numbers[unit][symbol];
        number.is_some_and(|number| self.symbols[number].place == Some(Place { unit, symbol }))
    }

    /// Whether an offset is in a variable for which another unit's definition stands.
    pub(crate) fn is_replaced(&self, unit: usize, section: usize, offset: u64) -> bool {
        let symbols = &self.units[unit].symbols;
        symbols.iter().enumerate().any(|(number, symbol)| {
            symbol.section == section
                && symbol.kind != SymbolKind::Section
                && symbol.value <= offset
                && offset < symbol.value + symbol.size
                && !self.prevails(unit, number)
        })
    }

    /// The joined function whose code is in a section of a unit, whether or not its definition there prevails.
    pub(crate) fn function_in(&self, unit: usize, section: usize) -> Option<(usize, usize)> {
        let symbols = &self.units[unit].symbols;
        let symbol = symbols.iter().position(|symbol| symbol.kind.is_code() && symbol.section == section)?;
        Some((symbol, self.numbers[unit][symbol]?))
    }
}
