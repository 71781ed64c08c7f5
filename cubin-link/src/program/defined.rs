//! Finds references to what no unit defines.

use super::{Program, Reach};
use crate::error::{LinkError, Reference};
use crate::unit::{Kind, Relocation, SymbolKind};

/// Undefined functions that the driver provides: nvlink leaves references to them in the cubin.
const SYSTEM: [&str; 4] = ["vprintf", "malloc", "free", "__assertfail"];
/// Names that begin like this may be such functions, too.
const SYSTEM_PREFIXES: [&str; 4] = ["__cuda", "cuda", "cnp", "__nv"];

/// Checks that what needed code and data refer to is defined.
///
/// # Errors
/// All undefined symbols.
pub(crate) fn check_defined(
    program: &Program<'_>,
    reach: &Reach,
    relocations: &[Vec<(usize, Vec<Relocation>)>],
) -> Result<(), LinkError> {
    let mut missing: Vec<Reference> = Vec::new();
    for (number, unit) in program.units.iter().enumerate() {
        for (section, entries) in &relocations[number] {
            if !counts(program, reach, number, *section) {
                continue;
            }
            for relocation in entries {
                let Some(symbol) = program.numbers[number][relocation.symbol] else { continue };
                let linked = &program.symbols[symbol];
                let known = match linked.kind {
                    // An undefined shared variable is the array whose size the launch gives.
                    SymbolKind::Shared | SymbolKind::Reserved => true,
                    _ => linked.place.is_some() || SYSTEM.contains(&linked.name),
                };
                if known || missing.iter().any(|reference| reference.name == linked.name) {
                    continue;
                }
                if SYSTEM_PREFIXES.iter().any(|prefix| linked.name.starts_with(prefix)) {
                    let what = format!("reference to {}, which the driver may provide", linked.name);
                    return Err(LinkError::unsupported(unit.file, relocation.at, what));
                }
                missing.push(Reference { name: linked.name.to_owned(), file: unit.file.to_owned() });
            }
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(LinkError::Undefined(missing)) }
}

/// Whether a section of a unit becomes a part of the cubin.
pub(super) fn counts(program: &Program<'_>, reach: &Reach, unit: usize, section: usize) -> bool {
    match program.units[unit].sections[section].kind {
        Kind::Code => program
            .function_in(unit, section)
            .is_some_and(|(symbol, function)| reach.needed[function] && program.prevails(unit, symbol)),
        kind => kind != Kind::Frames,
    }
}
