//! Cutting each unit by itself: the partitions of a library's units are the same in every program that has them, so that results are
//! found again when another program is linked.
//!
//! - Kernels of different units share no partition, unless they mostly consist of one function that is too large to be compiled
//!   for each.
//! - Within a unit, a hash of a kernel's name decides whether a partition ends behind it: kernels that come or go, because another unit's
//!   definition prevails, move only the cuts next to them.
//! - Small kernels that other units may define, too (an instantiation of a template in many units), have one partition for all units: they
//!   come and go with the other units of a program, and would take the results of large kernels with them.
//! - What a unit owns only because other units refer to it has a partition of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::segments::Segment;
use super::{Partition, Reached, affinity};
use crate::extract::How;
use crate::program::{Node, Program};
use crate::reference_graph::Scope;
use crate::symbols::Strength;

/// A kernel of less than this part of a partition's size is small.
const SMALL: u64 = 100;

/// Groups the roots into partitions of that size, or larger ones if `is_too_much` of the code is compiled several times: it gets the instructions
/// of each group of kernels that may share a partition, and how many of them would be duplicates.
pub fn groups(
    program: &Program<'_>,
    all: &[Reached],
    size: u64,
    is_too_much: impl Fn(u64, u64) -> bool,
) -> Vec<Vec<Node>> {
    let own = own_roots(program, all);
    let comes_and_goes = |reached: &Reached| may_come_and_go(program, reached, size);
    let apart =
        |reached: &Reached| (!comes_and_goes(reached)).then(|| (reached.root.unit, own.contains(&reached.root)));
    let mut together = affinity::groups(program, all, size / 2, apart);
    for group in together.iter_mut().filter(|group| group.iter().all(|reached| comes_and_goes(reached))) {
        // Not by units: which one defines them depends on the program.
        group.sort_by_key(|reached| &program.global(reached.root).name);
    }
    let segments = together.iter().flat_map(|group| cut_until(program, group, size, &is_too_much));
    segments.map(|segment| segment.roots).collect()
}

/// Cuts a group of roots into larger and larger segments until not `is_too_much` of its code is in several of them.
fn cut_until(
    program: &Program<'_>,
    group: &[&Reached],
    mut size: u64,
    is_too_much: impl Fn(u64, u64) -> bool,
) -> Vec<Segment> {
    let mut whole = Segment::default();
    group.iter().for_each(|root| whole.add(program, root));
    loop {
        let segments = cut(program, group, size);
        let placed: u64 = segments.iter().map(|segment| segment.instructions).sum();
        if segments.len() < 2 || !is_too_much(whole.instructions, placed.saturating_sub(whole.instructions)) {
            return segments;
        }
        size = size.saturating_mul(2);
    }
}

/// Whether a root is a small kernel of which another unit may have the prevailing definition.
fn may_come_and_go(program: &Program<'_>, reached: &Reached, size: u64) -> bool {
    let global = program.global(reached.root);
    let is_weak = matches!(global.scope, Scope::Visible { strength: Strength::Weak | Strength::LinkOnce, .. });
    is_weak && global.is_kernel() && reached.instructions < size / SMALL
}

/// Orders what a partition takes by names instead of the order of units on the line: first what it owns, then what that refers to.
pub fn order(program: &Program<'_>, partition: &mut Partition) {
    partition.parts.sort_by_cached_key(|part| {
        let owned = part.takes.iter().find(|take| take.how == How::Owned);
        let take = owned.or(part.takes.first());
        let name = take.map(|take| program.global(Node { unit: part.unit, index: take.index }).name.as_str());
        (owned.is_none(), name)
    });
}

/// The roots that units have in every program: what they define for the host, and what they own that is reached from there.
fn own_roots(program: &Program<'_>, all: &[Reached]) -> BTreeSet<Node> {
    let mut starts: BTreeMap<usize, BTreeSet<Node>> = BTreeMap::new();
    for root in all.iter().map(|reached| reached.root).filter(|root| program.is_start(*root)) {
        starts.entry(root.unit).or_default().insert(root);
    }
    let of_unit = |(unit, starts)| program.roots_from(starts).into_iter().filter(move |root| root.unit == unit);
    starts.into_iter().flat_map(of_unit).collect()
}

/// Cuts a group of roots into segments of about that size.
fn cut(program: &Program<'_>, group: &[&Reached], size: u64) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut current = Segment::default();
    for root in group {
        let more = current.more(program, root);
        if current.is_full_for(more, root.instructions, size) {
            segments.push(std::mem::take(&mut current));
        }
        current.add(program, root);
        if current.instructions.saturating_mul(2) >= size && is_boundary(program, root, size) {
            segments.push(std::mem::take(&mut current));
        }
    }
    segments.push(current);
    segments.retain(|segment| !segment.roots.is_empty());
    segments
}

/// Whether a segment ends behind this root: more often behind larger ones, so that segments have about the same size.
fn is_boundary(program: &Program<'_>, root: &Reached, size: u64) -> bool {
    let mut head = [0; 8];
    head.copy_from_slice(&blake3::hash(program.global(root.root).name.as_bytes()).as_bytes()[..8]);
    // Rounded, so that a small change of the size changes nothing.
    let likely = root.instructions.max(1).next_power_of_two();
    u64::from_le_bytes(head) % size.max(1) < likely
}
