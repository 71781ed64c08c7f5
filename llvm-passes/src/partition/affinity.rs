//! Which roots belong together: those of one unit, but kernels of several units that are mostly the same function go with
//! that function, so that it is compiled once.

use std::collections::HashMap;

use crate::program::{Identity, Node, Program};
use crate::summary::Role;

/// Copies of less code than this cost less than what stays unchanged in the cache when units are kept apart.
const LEAST_SHARED: u64 = 500;

/// What is known of a function that roots call.
struct Shared {
    /// Instructions of it and all that it reaches.
    instructions: u64,
    /// The unit of the first root that reaches it.
    unit: usize,
    /// Roots of other units reach it, too.
    by_several: bool,
}

/// The roots in groups; each keeps their order, and groups stand in the order of their first roots.
pub fn groups(program: &Program<'_>, roots: &[Node]) -> Vec<Vec<Node>> {
    let shared = shared_functions(program, roots);
    let mut places: HashMap<Result<Identity<'_>, usize>, usize> = HashMap::new();
    let mut groups: Vec<Vec<Node>> = Vec::new();
    for root in roots {
        let group = anchor(program, *root, &shared).ok_or(root.unit);
        let place = *places.entry(group).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(*root);
    }
    groups
}

/// The function that is at least half of what a root reaches and that roots of other units reach, too: the largest.
fn anchor<'p>(program: &Program<'p>, root: Node, shared: &HashMap<Identity<'p>, Shared>) -> Option<Identity<'p>> {
    let closure = program.closure(&[root]);
    let half = closure.instructions().div_ceil(2).max(LEAST_SHARED);
    let candidates = closure.nodes().filter(|node| *node != root).filter_map(|node| {
        let identity = program.identity(node);
        let found = shared.get(&identity).filter(|found| found.by_several && found.instructions >= half)?;
        Some((found.instructions, identity))
    });
    // Of two of one size the first by name, whatever the order of units.
    candidates.max_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1))).map(|(_, identity)| identity)
}

/// All functions that roots reach by calls.
fn shared_functions<'p>(program: &Program<'p>, roots: &[Node]) -> HashMap<Identity<'p>, Shared> {
    let mut shared: HashMap<Identity<'p>, Shared> = HashMap::new();
    for root in roots {
        let closure = program.closure(&[*root]);
        for node in closure.nodes().filter(|node| node != root && program.global(*node).role == Role::Function) {
            let new = || {
                let instructions = program.closure(&[node]).instructions();
                Shared { instructions, unit: root.unit, by_several: false }
            };
            let found = shared.entry(program.identity(node)).or_insert_with(new);
            found.by_several |= found.unit != root.unit;
        }
    }
    shared
}
