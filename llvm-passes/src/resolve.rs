//! Who defines what. PURE: no LLVM, tested by tables.
//!
//! The rules are those of ELF: one strong definition wins over weak ones, the first of several weak
//! ones prevails, two strong ones are an error, and what nobody defines is undefined.

use std::collections::{BTreeMap, BTreeSet};

use crate::symbols::{Strength, Symbol};

/// The visible symbols of one unit: a bitcode module, a relocatable cubin.
#[derive(Debug, Clone, Default)]
pub struct UnitSymbols {
    /// What it defines and wants, in its own order.
    pub symbols: Vec<Symbol>,
}

/// Two strong definitions of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// Mangled name.
    pub name: String,
    /// The units that define it, by index, in link order; at least two.
    pub units: Vec<usize>,
}

/// A name that somebody wants and nobody defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undefined {
    /// Mangled name.
    pub name: String,
    /// The units that want it, by index, in link order.
    pub wanted_by: Vec<usize>,
}

/// The outcome of symbol resolution.
#[derive(Debug, Clone, Default)]
pub struct Resolution {
    /// Name -> index of the unit whose definition prevails.
    pub prevailing: BTreeMap<String, usize>,
    /// Names whose first definition is a linkonce one although a later unit has a weak one, with the unit
    /// that prevails: equally weak by ELF's rules, but LLVM's merge prefers weak.
    pub linkonce_over_weak: Vec<(String, usize)>,
    /// Every name with two strong definitions, sorted.
    pub duplicates: Vec<Duplicate>,
    /// Every undefined name, sorted.
    pub undefined: Vec<Undefined>,
}

/// What ptxas and the driver provide themselves, so that nobody has to define it: the system calls
/// of the CUDA C++ programming guide (printf, malloc, free, assert).
pub const SYSTEM_CALLS: [&str; 5] = ["vprintf", "malloc", "free", "__assertfail", "__nvvm_reflect"];

/// Resolves all names over all units. `provided` names come from outside (libdevice, the system).
pub fn resolve(units: &[UnitSymbols], provided: &dyn Fn(&str) -> bool) -> Resolution {
    let mut table: BTreeMap<&str, Names> = BTreeMap::new();
    for (unit, symbols) in units.iter().enumerate() {
        for symbol in &symbols.symbols {
            table.entry(&symbol.name).or_default().add(unit, symbol.strength);
        }
    }
    let mut resolution = Resolution::default();
    for (name, entry) in table {
        let name = name.to_owned();
        if entry.strong.len() > 1 {
            resolution.duplicates.push(Duplicate { name: name.clone(), units: entry.strong.iter().copied().collect() });
        }
        match entry.strong.first().or(entry.weak.first()) {
            Some(unit) => {
                if entry.strong.is_empty() && entry.linkonce.contains(unit) && entry.linkonce != entry.weak {
                    resolution.linkonce_over_weak.push((name.clone(), *unit));
                }
                resolution.prevailing.insert(name, *unit);
            }
            None if !entry.wanted_by.is_empty() && !provided(&name) => {
                resolution.undefined.push(Undefined { name, wanted_by: entry.wanted_by.into_iter().collect() });
            }
            None => {}
        }
    }
    resolution
}

/// All that is said about one name.
#[derive(Default)]
struct Names {
    strong: BTreeSet<usize>,
    /// All that yield to a strong one, linkonce ones too.
    weak: BTreeSet<usize>,
    linkonce: BTreeSet<usize>,
    wanted_by: BTreeSet<usize>,
}

impl Names {
    fn add(&mut self, unit: usize, strength: Strength) {
        match strength {
            Strength::Strong => self.strong.insert(unit),
            Strength::Weak => self.weak.insert(unit),
            Strength::LinkOnce => self.linkonce.insert(unit) && self.weak.insert(unit),
            Strength::Undefined => self.wanted_by.insert(unit),
            Strength::WeakUndefined => false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::SymbolKind;

    fn unit(symbols: &[(&str, Strength)]) -> UnitSymbols {
        let symbol = |(name, strength): &(&str, Strength)| Symbol {
            name: (*name).to_owned(),
            strength: *strength,
            kind: SymbolKind::Function,
        };
        UnitSymbols { symbols: symbols.iter().map(symbol).collect() }
    }

    fn resolved(units: &[UnitSymbols]) -> Resolution {
        resolve(units, &|name| SYSTEM_CALLS.contains(&name))
    }

    #[test]
    fn strong_prevails_over_weak_and_linkonce_whatever_the_order() {
        use Strength::{LinkOnce, Strong, Weak};
        for (first, second, winner) in
            [(Weak, Strong, 1), (Strong, Weak, 0), (LinkOnce, Strong, 1), (Weak, Weak, 0), (LinkOnce, Weak, 0)]
        {
            let outcome = resolved(&[unit(&[("f", first)]), unit(&[("f", second)])]);
            assert_eq!(outcome.prevailing["f"], winner, "{first:?} {second:?}");
            assert!(outcome.duplicates.is_empty() && outcome.undefined.is_empty());
            assert_eq!(outcome.linkonce_over_weak.len(), usize::from((first, second) == (LinkOnce, Weak)));
        }
    }

    #[test]
    fn two_strong_definitions_name_both_units() {
        let outcome = resolved(&[unit(&[("f", Strength::Strong)]), unit(&[]), unit(&[("f", Strength::Strong)])]);
        assert_eq!(outcome.duplicates, [Duplicate { name: "f".into(), units: vec![0, 2] }]);
    }

    #[test]
    fn undefined_names_list_all_who_want_them() {
        let wants =
            unit(&[("g", Strength::Undefined), ("vprintf", Strength::Undefined), ("w", Strength::WeakUndefined)]);
        let outcome = resolved(&[wants.clone(), unit(&[]), wants]);
        assert_eq!(outcome.undefined, [Undefined { name: "g".into(), wanted_by: vec![0, 2] }]);
    }
}
