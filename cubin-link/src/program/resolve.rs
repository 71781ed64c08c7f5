//! Which definition each name stands for.

use rustc_hash::FxHashMap;

use super::{Linked, Own, Place, Program};
use crate::error::LinkError;
use crate::unit::{Binding, Symbol, SymbolKind, Unit};

/// Joins the symbols of all units.
///
/// # Errors
/// Two definitions of one name, or definitions that do not fit together in a way that is known.
pub(crate) fn resolve<'a>(units: &'a [Unit<'a>], own: Vec<Own>) -> Result<Program<'a>, LinkError> {
    let numbers = units.iter().map(|unit| vec![None; unit.symbols.len()]).collect();
    let mut joiner =
        Joiner { program: Program { units, symbols: Vec::new(), numbers, own }, by_name: FxHashMap::default() };
    for (unit, of_unit) in units.iter().enumerate() {
        for code in [true, false] {
            for (number, symbol) in of_unit.symbols.iter().enumerate() {
                if symbol.kind.is_code() == code && is_joined(symbol) {
                    joiner.join(Place { unit, symbol: number })?;
                }
            }
        }
    }
    Ok(joiner.program)
}

/// Whether the program has a symbol for this one of a unit.
fn is_joined(symbol: &Symbol<'_>) -> bool {
    match symbol.kind {
        SymbolKind::Nothing | SymbolKind::Section | SymbolKind::FunctionConstant => false,
        // The others are tables of functions, of which a program for these GPUs has none.
        SymbolKind::Reserved => symbol.name == RESERVED_SHARED,
        _ => true,
    }
}

/// The shared memory that the system reserves; nvlink names it in each cubin.
const RESERVED_SHARED: &str = ".nv.reservedSmem.offset0";

struct Joiner<'a> {
    program: Program<'a>,
    by_name: FxHashMap<&'a str, usize>,
}

impl<'a> Joiner<'a> {
    fn join(&mut self, place: Place) -> Result<(), LinkError> {
        let symbol = self.program.symbol(place);
        let known = match symbol.binding {
            Binding::Local => None,
            Binding::Weak | Binding::Global => self.by_name.get(symbol.name).copied(),
        };
        let number = match known {
            Some(number) => {
                self.meet(number, place)?;
                number
            }
            None => self.add(place),
        };
        self.program.numbers[place.unit][place.symbol] = Some(number);
        Ok(())
    }

    fn add(&mut self, place: Place) -> usize {
        let symbol = self.program.symbol(place);
        let number = self.program.symbols.len();
        let defined = symbol.section != 0;
        // nvlink makes this one global.
        let binding = if symbol.kind == SymbolKind::Reserved { Binding::Global } else { symbol.binding };
        self.program.symbols.push(Linked {
            name: symbol.name,
            kind: symbol.kind,
            binding,
            first_binding: binding,
            size: symbol.size,
            alignment: if symbol.kind == SymbolKind::Shared { symbol.value } else { 0 },
            first_unit: place.unit,
            place: defined.then_some(place),
            owners: if defined { vec![place.unit] } else { Vec::new() },
        });
        if symbol.binding != Binding::Local {
            self.by_name.insert(symbol.name, number);
        }
        number
    }

    /// A further unit defines the name, or refers to it.
    fn meet(&mut self, number: usize, place: Place) -> Result<(), LinkError> {
        let symbol = self.program.symbol(place);
        self.check(number, place)?;
        if symbol.section == 0 {
            return Ok(());
        }
        let replaces = match self.program.symbols[number].place {
            None => true,
            Some(former) => self.replaces(number, former, place)?,
        };
        let linked = &mut self.program.symbols[number];
        if replaces {
            linked.place = Some(place);
            linked.binding = symbol.binding;
            linked.kind = symbol.kind;
            linked.size = symbol.size;
            linked.owners.push(place.unit);
        }
        Ok(())
    }

    /// Whether a later definition prevails over a former one: a strong variable over a weak one. Of two weak functions nvlink takes the one
    /// with fewer registers, and of a weak and a strong one the strong one; if it is the later one, some relocations of the former one
    /// stay in the cubin and some are lost.
    fn replaces(&self, number: usize, former: Place, place: Place) -> Result<bool, LinkError> {
        let linked = &self.program.symbols[number];
        let (first, second) = (self.program.units[former.unit].file, self.program.units[place.unit].file);
        let registers = |place: Place| self.program.own[place.unit].registers[place.symbol];
        let replaces = match (linked.binding, self.program.symbol(place).binding) {
            (Binding::Weak, Binding::Global) => true,
            (Binding::Global, Binding::Weak) => false,
            (Binding::Weak, Binding::Weak) => linked.kind.is_code() && registers(place) < registers(former),
            _ => {
                let (name, first, second) = (linked.name.to_owned(), first.to_owned(), second.to_owned());
                return Err(LinkError::MultipleDefinition { name, first, second });
            }
        };
        if replaces && linked.kind.is_code() {
            let what = format!("definition of the weak function {} that replaces that of {first}", linked.name);
            return Err(LinkError::unsupported(second, 0, what));
        }
        Ok(replaces)
    }

    /// Checks that both are of one kind, and variables of one size.
    fn check(&self, number: usize, place: Place) -> Result<(), LinkError> {
        let (linked, symbol) = (&self.program.symbols[number], self.program.symbol(place));
        let both_defined = linked.place.is_some() && symbol.section != 0;
        // nvlink rejects a kernel that another unit declares as a function.
        let same_kind = linked.kind == symbol.kind;
        let same_size = symbol.kind.is_code() || symbol.size == linked.size;
        let same_alignment = symbol.kind != SymbolKind::Shared || !both_defined || symbol.value == linked.alignment;
        if same_kind && same_size && same_alignment {
            return Ok(());
        }
        let first = self.program.units[linked.first_unit].file;
        let what = format!("{} of another kind, size or alignment than in {first}", linked.name);
        Err(LinkError::unsupported(self.program.units[place.unit].file, 0, what))
    }
}
