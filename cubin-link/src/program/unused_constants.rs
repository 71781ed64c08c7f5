//! Finds constants that no code of the cubin refers to.

use super::{Program, Reach, defined};
use crate::unit::{Kind, Relocation, SymbolKind};

/// The `__constant__` variables to which no function refers that is in the cubin. References of other variables do not count.
pub(crate) fn unused_constants(
    program: &Program<'_>,
    reach: &Reach,
    relocations: &[Vec<(usize, Vec<Relocation>)>],
) -> Vec<String> {
    let mut referenced = vec![false; program.symbols.len()];
    for (number, unit) in program.units.iter().enumerate() {
        let of_code = relocations[number].iter().filter(|(section, _)| unit.sections[*section].kind == Kind::Code);
        let in_cubin = of_code.filter(|(section, _)| defined::counts(program, reach, number, *section));
        for symbol in
            in_cubin.flat_map(|(_, entries)| entries).filter_map(|entry| program.numbers[number][entry.symbol])
        {
            referenced[symbol] = true;
        }
    }
    let constants = program.symbols.iter().zip(referenced).filter(|(linked, is_referenced)| {
        linked.kind == SymbolKind::Constant && linked.place.is_some() && !is_referenced
    });
    constants.map(|(linked, _)| linked.name.to_owned()).collect()
}
