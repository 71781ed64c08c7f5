//! Grouping roots: those of one unit stay together, but kernels of several units that mostly consist of the same function are
//! grouped by that function, so that it is compiled once.

use std::collections::HashMap;
use std::hash::Hash;

use super::Reached;
use crate::program::{Identity, Node, Program};
use crate::reference_graph::Role;
use rustc_hash::FxHashMap;

/// A smaller shared function does not regroup kernels: copies of it cost less than the cache entries that stay valid when units
/// are kept apart.
pub const LEAST_SHARED: u64 = 500;

/// Functions that roots of several units reach, by identity number, each with the instructions of it and of everything that it
/// reaches.
type Shared = FxHashMap<u32, u64>;

/// Groups the roots: by a shared function of at least `least_shared` instructions, or by what `apart` returns. A group keeps their order,
/// and groups come in the order of their first roots.
pub fn groups<'r, K: Eq + Hash>(
    program: &Program<'_>,
    roots: &'r [Reached],
    least_shared: u64,
    apart: impl Fn(&Reached) -> K,
) -> Vec<Vec<&'r Reached>> {
    let shared = shared_functions(program, roots);
    let mut places: HashMap<Result<Identity<'_>, K>, usize> = HashMap::new();
    let mut groups: Vec<Vec<&Reached>> = Vec::new();
    for reached in roots {
        let group = anchor(program, reached, &shared, least_shared).ok_or_else(|| apart(reached));
        let place = *places.entry(group).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(reached);
    }
    groups
}

/// The largest function that makes up at least half of what a root reaches and that roots of other units reach, too.
fn anchor<'p>(program: &Program<'p>, reached: &Reached, shared: &Shared, least_shared: u64) -> Option<Identity<'p>> {
    let half = reached.instructions.div_ceil(2).max(least_shared);
    let candidates = reached.nodes.iter().filter(|node| **node != reached.root).filter_map(|node| {
        let instructions = *shared.get(&program.identity_number(*node))?;
        (instructions >= half).then(|| (instructions, program.identity(*node)))
    });
    // Of two functions of one size the first by name, whatever the order of units.
    candidates.max_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1))).map(|(_, identity)| identity)
}

fn shared_functions(program: &Program<'_>, roots: &[Reached]) -> Shared {
    // By identity: one of the definitions, the unit of the first root that reaches it, and whether roots of other units do, too.
    let mut found: FxHashMap<u32, (Node, usize, bool)> = FxHashMap::default();
    for Reached { root, nodes, .. } in roots {
        for node in nodes.iter().filter(|node| *node != root && program.global(**node).role == Role::Function) {
            let (_, unit, by_several) =
                found.entry(program.identity_number(*node)).or_insert((*node, root.unit, false));
            *by_several |= *unit != root.unit;
        }
    }
    let by_several = found.into_iter().filter(|(_, (_, _, by_several))| *by_several);
    by_several.map(|(identity, (node, _, _))| (identity, program.closure(&[node]).instructions())).collect()
}
