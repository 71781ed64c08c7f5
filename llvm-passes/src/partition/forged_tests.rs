//! Facts that an object keeps may claim anything about a unit.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Grain, Grouping, Rules, cut};
use crate::program::{Machine, Program};
use crate::reference_graph::{self, Global, Reference, ReferenceGraph, Role, Scope, Variable};
use crate::resolve::{self, UnitSymbols};
use crate::symbols::Strength;

fn scopes() -> impl Strategy<Value = Scope> {
    let strengths = prop_oneof![
        Just(Strength::Undefined),
        Just(Strength::WeakUndefined),
        Just(Strength::LinkOnce),
        Just(Strength::Weak),
        Just(Strength::Strong)
    ];
    let visible = (strengths, any::<bool>()).prop_map(|(strength, odr)| Scope::Visible { strength, odr });
    prop_oneof![Just(Scope::Reserved), Just(Scope::Local), visible]
}

fn roles() -> impl Strategy<Value = Role> {
    let content = prop_oneof![Just(None), Just(Some("00ff".to_owned()))];
    let variable = (0..6_u32, any::<bool>(), any::<bool>(), any::<u64>(), content).prop_map(
        |(address_space, constant, address_matters, size, content)| {
            Role::Variable(Variable { address_space, constant, address_matters, size, content })
        },
    );
    prop_oneof![Just(Role::Kernel), Just(Role::Function), variable]
}

/// A global of a graph with `count` globals.
fn globals(count: usize) -> impl Strategy<Value = Global> {
    let references = vec((0..count as u32, any::<bool>()), 0..4);
    let name = prop_oneof![Just(""), Just("a"), Just("b"), Just("llvm.used"), Just("é\0")];
    let instructions = prop_oneof![0..2000_u32, Just(u32::MAX)];
    (name, scopes(), roles(), instructions, references, any::<bool>(), any::<bool>()).prop_map(
        |(name, scope, role, instructions, references, retained, referenced)| Global {
            name: name.to_owned(),
            scope,
            role,
            instructions,
            references: references.into_iter().map(|(to, called)| Reference { to, called }).collect(),
            retained,
            referenced,
        },
    )
}

fn graphs() -> impl Strategy<Value = ReferenceGraph> {
    (1..7_usize)
        .prop_flat_map(|count| vec(globals(count), count))
        .prop_map(|globals| ReferenceGraph { globals, monolithic: None })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Whatever a closed graph claims, the program is cut without a panic, and parts take what the graph has.
    #[test]
    fn programs_of_forged_graphs_are_cut(
        units in vec(graphs(), 1..4),
        keep in any::<bool>(),
        is_amd in any::<bool>(),
        grouping in prop_oneof![Just(Grouping::Program), Just(Grouping::Units), Just(Grouping::AlwaysUnits)],
        grain in prop_oneof![Just(Grain::Usual), Just(Grain::Exactly(1)), Just(Grain::Exactly(u64::MAX))],
        // Where the symbols are facts of their own, they may claim other definitions.
        elsewhere in any::<bool>(),
    ) {
        let machine = if is_amd { Machine::Amdgpu } else { Machine::Nvptx };
        let symbols: Vec<UnitSymbols> =
            units.iter().map(|unit| UnitSymbols { symbols: reference_graph::symbols(unit) }).collect();
        let resolution = resolve::resolve(&symbols, &|_| true);
        let keep: BTreeSet<String> = keep.then(|| "a".to_owned()).into_iter().collect();
        let tags = (0..units.len()).map(|unit| format!("tag{unit}")).collect();
        let prevailing = |name: &str| {
            if elsewhere { Some(0) } else { resolution.prevailing.get(name).copied() }
        };
        let program = Program::on(machine, units.iter().collect(), tags, &prevailing, &keep);
        let cut = cut(&program, Rules { grain, grouping }, &BTreeSet::from(["b".to_owned()]));
        for part in cut.partitions.iter().flat_map(|partition| &partition.parts) {
            prop_assert!(part.takes.iter().all(|take| units[part.unit].globals.get(take.index as usize).is_some()));
        }
    }
}
