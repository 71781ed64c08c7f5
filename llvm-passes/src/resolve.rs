//! Symbol resolution over all units: which definition prevails, what is defined twice, and what is undefined. A pure function
//! of the units' symbols.
//!
//! The rules are those of ELF: a strong definition prevails over weak ones, the first of several weak ones prevails, and two
//! strong ones are an error.

use std::collections::{BTreeMap, BTreeSet};

use offload_bundle::cubin;

use crate::symbols::{Strength, Symbol};

/// The visible symbols of one unit: a bitcode module, a relocatable cubin.
#[derive(Debug, Clone, Default)]
pub struct UnitSymbols {
    /// Defined and referenced symbols, in the unit's own order.
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

/// A name that is referenced and that no unit defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undefined {
    /// Mangled name.
    pub name: String,
    /// The units that reference it, by index, in link order.
    pub referenced_by: Vec<usize>,
}

/// A variable that two units declare or define with different sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeMismatch {
    /// Mangled name.
    pub name: String,
    /// The first unit with a size, by index, and the size in bytes.
    pub first: (usize, u64),
    /// The first unit with another one.
    pub second: (usize, u64),
}

/// The outcome of symbol resolution.
#[derive(Debug, Clone, Default)]
pub struct Resolution {
    /// The index of the unit whose definition prevails, by name.
    pub prevailing: BTreeMap<String, usize>,
    /// Names whose prevailing definition is linkonce although a later unit has a weak one, with the unit that prevails. Both
    /// are weak by ELF's rules, but LLVM's merge would prefer the later one.
    pub linkonce_over_weak: Vec<(String, usize)>,
    /// Every name with two strong definitions, sorted.
    pub duplicates: Vec<Duplicate>,
    /// Every undefined name, sorted.
    pub undefined: Vec<Undefined>,
    /// Every variable of two sizes, sorted. LLVM's merge would take one of them.
    pub sizes: Vec<SizeMismatch>,
}

/// A function of clang's headers that LLVM replaces by a constant.
const REFLECT: &str = "__nvvm_reflect";

/// The tables of functions and data that nvlink defines in a finished image. The results of relocatable links reference them.
const TABLES: [&str; 8] =
    ["__UFT", "__UFT_END", "__UFT_OFFSET", "__UFT_CANONICAL", "__UDT", "__UDT_END", "__UDT_OFFSET", "__UDT_CANONICAL"];

/// Whether a name is defined outside of the units, by ptxas, nvlink or the driver.
pub fn is_provided(name: &str) -> bool {
    cubin::is_system_call(name) || name.starts_with(".nv.") || name == REFLECT || TABLES.contains(&name)
}

/// Resolves all names over all units. Names that are `provided` come from outside (libdevice, the driver).
pub fn resolve(units: &[UnitSymbols], provided: &dyn Fn(&str) -> bool) -> Resolution {
    let mut table: BTreeMap<&str, Names> = BTreeMap::new();
    for (unit, symbols) in units.iter().enumerate() {
        for symbol in &symbols.symbols {
            table.entry(&symbol.name).or_default().add(unit, symbol);
        }
    }
    let mut resolution = Resolution::default();
    for (name, entry) in table {
        let name = name.to_owned();
        if let Some((first, second)) = entry.sizes {
            resolution.sizes.push(SizeMismatch { name: name.clone(), first, second });
        }
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
            None if !entry.referenced_by.is_empty() && !provided(&name) => {
                resolution.undefined.push(Undefined { name, referenced_by: entry.referenced_by.into_iter().collect() });
            }
            None => {}
        }
    }
    resolution
}

/// The units that define or reference one name.
#[derive(Default)]
struct Names {
    strong: BTreeSet<usize>,
    /// Weak and linkonce definitions.
    weak: BTreeSet<usize>,
    linkonce: BTreeSet<usize>,
    referenced_by: BTreeSet<usize>,
    /// The first unit that says how large the variable is, and the size.
    size: Option<(usize, u64)>,
    /// That unit, and the first with another size.
    sizes: Option<((usize, u64), (usize, u64))>,
}

impl Names {
    fn add(&mut self, unit: usize, symbol: &Symbol) {
        match self.size {
            _ if symbol.size == 0 => {}
            None => self.size = Some((unit, symbol.size)),
            Some(first) if first.1 != symbol.size => _ = self.sizes.get_or_insert((first, (unit, symbol.size))),
            Some(_) => {}
        }
        match symbol.strength {
            Strength::Strong => self.strong.insert(unit),
            Strength::Weak => self.weak.insert(unit),
            Strength::LinkOnce => self.linkonce.insert(unit) && self.weak.insert(unit),
            Strength::Undefined => self.referenced_by.insert(unit),
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
            size: 0,
        };
        UnitSymbols { symbols: symbols.iter().map(symbol).collect() }
    }

    fn resolved(units: &[UnitSymbols]) -> Resolution {
        resolve(units, &is_provided)
    }

    #[test]
    fn names_that_nvlink_and_the_driver_define() {
        let of_nvlink = [".nv.reservedSmem.offset0", "__UFT", "__UDT_END"];
        let of_driver =
            ["malloc", "__cuda_syscall_CGS_sync", "cnpMalloc", "cudaGraphLaunch", "cudaGraphSetConditional"];
        for name in of_nvlink.into_iter().chain(of_driver) {
            assert!(is_provided(name), "{name}");
        }
        for name in ["cnp", "cnpm", "__UFTx", "__cuda", "nv", "mallocate", "cudaMalloc"] {
            assert!(!is_provided(name), "{name}");
        }
    }

    #[test]
    fn variables_of_two_sizes() {
        let variable = |strength, size| Symbol { name: "v".into(), strength, kind: SymbolKind::Variable, size };
        let sizes = |units: &[(Strength, u64)]| {
            let units = units.iter().map(|(strength, size)| UnitSymbols { symbols: vec![variable(*strength, *size)] });
            resolved(&units.collect::<Vec<_>>()).sizes
        };
        let mismatch = |first, second| vec![SizeMismatch { name: "v".into(), first, second }];
        assert_eq!(sizes(&[(Strength::Strong, 8), (Strength::Undefined, 32)]), mismatch((0, 8), (1, 32)));
        // An array of unknown length.
        let odr =
            [(Strength::Undefined, 0), (Strength::LinkOnce, 16), (Strength::LinkOnce, 16), (Strength::LinkOnce, 8)];
        assert_eq!(sizes(&odr), mismatch((1, 16), (3, 8)));
        assert!(sizes(&odr[..3]).is_empty());
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
    fn undefined_names_list_all_units_that_reference_them() {
        let unit_with_references =
            unit(&[("g", Strength::Undefined), ("vprintf", Strength::Undefined), ("w", Strength::WeakUndefined)]);
        let outcome = resolved(&[unit_with_references.clone(), unit(&[]), unit_with_references]);
        assert_eq!(outcome.undefined, [Undefined { name: "g".into(), referenced_by: vec![0, 2] }]);
    }
}
