//! Cutting the program of one target into partitions, which are compiled independently. A pure function of the program.
//!
//! A partition is some kernels with everything that they reach. The cuts depend on the code alone, never on cores or memory, and
//! a changed unit moves only the cuts next to it: kernels of one unit, or with one large function in common, stay together up to
//! a size, and a hash of their names decides whether a small group is joined with the next one. For a link whose results are kept
//! for other programs ([`Grouping::Units`]), each unit is cut by itself.

mod affinity;
mod segments;
mod units;

use std::collections::BTreeSet;

use crate::extract::{How, Take, UnitPart};
use crate::program::{Class, Monolithic, Need, Node, Program};
use crate::reference_graph::{Role, Scope};
use rustc_hash::FxHashMap;
use segments::{join, segments};

/// The usual size of a partition, in instructions before optimization: about half a second of work, enough to be worth processes
/// of its own.
const USUAL_GRAIN: u64 = 12_000;

/// With [`Grain::Usual`], partitions become larger rather than having more of the program, or of a unit, than this compiled more than once.
const MOST_DUPLICATED_PERCENT: u64 = 50;

/// With [`Grouping::Units`], programs of this part of the usual size are cut.
const LEAST_OF_UNITS: u64 = 4;

/// How large partitions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grain {
    /// The usual size, or larger if too much code would be compiled more than once.
    Usual,
    /// About this many instructions before optimization, however much code is compiled more than once.
    Exactly(u64),
}

/// Which kernels may share a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// Those of all units, for the least work in this program.
    Program,
    /// Those of one unit, so that every program with these units has the same partitions, and smaller programs are cut, too.
    Units,
    /// The same however small the program is: the partitions of a unit are compiled before it is known which program it is for. What too many
    /// of them would compile makes those of this unit larger.
    AlwaysUnits,
}

/// How a program is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// How large partitions are.
    pub grain: Grain,
    /// Which kernels may share one.
    pub grouping: Grouping,
}

/// What is compiled together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partition {
    /// What it takes of each unit, in order of units.
    pub parts: Vec<UnitPart>,
    /// Names that other partitions, the host or cubins reference.
    pub keep: BTreeSet<String>,
    /// Its kernels, in order.
    pub kernels: Vec<String>,
    /// Instructions before optimization: the estimated cost.
    pub instructions: u64,
    /// Instructions of the kernel that reaches the most: LLVM may make one function of them.
    pub largest: u64,
}

/// All partitions of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cut {
    /// In order of units.
    pub partitions: Vec<Partition>,
    /// The definitions that each partition owns.
    pub groups: Vec<Vec<Node>>,
    /// Instructions that the kernels reach, each counted once.
    pub distinct: u64,
    /// Why the program is compiled in one piece, if there is a reason beside its size.
    pub monolithic: Option<Monolithic>,
}

impl Cut {
    /// Instructions that are compiled more than once.
    pub fn duplicated(&self) -> u64 {
        let placed: u64 = self.partitions.iter().map(|partition| partition.instructions).sum();
        placed.saturating_sub(self.distinct)
    }
}

/// Kernels that are not in any partition.
#[derive(Debug, Clone, Copy)]
pub struct LeftOut<'l> {
    /// Those that the program cannot launch.
    pub dead: &'l BTreeSet<String>,
    /// Those that others stand for.
    pub folded: &'l BTreeSet<String>,
    /// Kernels whose partitions have results: with [`Grouping::AlwaysUnits`] nothing is taken out of such a partition.
    pub finished: &'l BTreeSet<String>,
}

/// Cuts the program into partitions, without kernels that are `dead`, unless other code refers to them. With [`Grouping::Units`] the
/// program is cut as if it needed all kernels, and only whole partitions are left out. The result has no partitions if the program
/// should be compiled in one piece.
pub fn cut(program: &Program<'_>, rules: Rules, dead: &BTreeSet<String>) -> Cut {
    let none = BTreeSet::new();
    cut_without(program, rules, LeftOut { dead, folded: &none, finished: &none })
}

/// As [`cut`], of a program in which some kernels stand for others. With [`Grouping::Units`], these others are taken out of the partitions
/// that they would be in, so that all other partitions are those of every program with these units.
pub fn cut_without(program: &Program<'_>, rules: Rules, left_out: LeftOut<'_>) -> Cut {
    let LeftOut { dead, folded, .. } = left_out;
    let gone: BTreeSet<String> = dead.union(folded).cloned().collect();
    let live = program.roots_without(&gone);
    if rules.grouping == Grouping::Program || gone.is_empty() {
        return cut_roots(program, live, rules);
    }
    let mut cut = cut_roots(program, program.roots(), rules);
    if !folded.is_empty() {
        take_out_folded(program, &mut cut, left_out);
    }
    let is_kept = kept_groups(program, &cut.groups, live);
    let mut places = is_kept.iter();
    cut.partitions.retain(|_| places.next().is_none_or(|is_kept| *is_kept));
    let mut places = is_kept.iter();
    cut.groups.retain(|_| places.next().is_none_or(|is_kept| *is_kept));
    cut
}

/// Takes kernels that others stand for out of their partitions, and partitions of such kernels alone out of the cut.
fn take_out_folded(program: &Program<'_>, cut: &mut Cut, left_out: LeftOut<'_>) {
    let wanted = program.roots_without(left_out.folded);
    let is_finished = |root: &Node| left_out.finished.contains(&program.global(*root).name);
    let (mut partitions, mut groups) = (Vec::new(), Vec::new());
    for (group, partition) in cut.groups.drain(..).zip(cut.partitions.drain(..)) {
        let rest: Vec<Node> = group.iter().copied().filter(|root| wanted.contains(root)).collect();
        if rest.is_empty() {
            continue;
        }
        if rest.len() == group.len() || group.iter().any(is_finished) {
            partitions.push(partition);
            groups.push(group);
        } else {
            let reached = rest.iter().map(|root| (*root, program.closure(&[*root]).instructions())).collect();
            let mut partition = self::partition(program, &rest, &reached);
            units::order(program, &mut partition);
            partitions.push(partition);
            groups.push(rest);
        }
    }
    let all: Vec<Node> = groups.iter().flatten().copied().collect();
    cut.distinct = program.closure(&all).instructions();
    (cut.partitions, cut.groups) = (partitions, groups);
}

/// Which groups of roots are needed for the `live` ones: a group is compiled whole, so that everything in it needs what it reaches.
fn kept_groups(program: &Program<'_>, groups: &[Vec<Node>], mut live: BTreeSet<Node>) -> Vec<bool> {
    loop {
        let is_kept: Vec<bool> = groups.iter().map(|group| group.iter().any(|root| live.contains(root))).collect();
        let kept = groups.iter().zip(&is_kept).filter(|(_, is_kept)| **is_kept).flat_map(|(group, _)| group);
        let more: Vec<Node> = kept.copied().filter(|root| !live.contains(root)).collect();
        if more.is_empty() {
            return is_kept;
        }
        live.extend(more);
        live = program.roots_from(live);
    }
}

fn cut_roots(program: &Program<'_>, roots: BTreeSet<Node>, rules: Rules) -> Cut {
    let Rules { grain, grouping } = rules;
    let all: Vec<Node> = roots.iter().copied().collect();
    let distinct = program.closure(&all).instructions();
    let size = match grain {
        Grain::Usual => USUAL_GRAIN,
        Grain::Exactly(size) => size,
    };
    let whole = match grouping {
        Grouping::Program => size.saturating_mul(3) / 2,
        Grouping::Units => size / LEAST_OF_UNITS,
        Grouping::AlwaysUnits => 0,
    };
    if distinct <= whole {
        return Cut { distinct, ..Cut::default() };
    }
    if let Some(monolithic) = program.monolithic(&roots) {
        return Cut { distinct, monolithic: Some(monolithic), ..Cut::default() };
    }
    let all: Vec<Reached> = all.into_iter().map(|root| Reached::new(program, root)).collect();
    let is_too_much = |distinct: u64, duplicated: u64| {
        grain == Grain::Usual && duplicated > distinct.saturating_mul(MOST_DUPLICATED_PERCENT) / 100
    };
    let is_good = |cut: &Cut| !is_too_much(distinct, cut.duplicated());
    if grouping != Grouping::Program {
        // Other programs are not cut by units if too much is compiled more than once.
        let is_too_much = |distinct, duplicated| grouping == Grouping::AlwaysUnits && is_too_much(distinct, duplicated);
        let groups = units::groups(program, &all, size, is_too_much);
        let mut cut = match grouping {
            Grouping::AlwaysUnits => partitions_of(program, groups, &all, distinct),
            _ => cut_into(program, groups, &all, distinct),
        };
        cut.partitions.iter_mut().for_each(|partition| units::order(program, partition));
        if grouping == Grouping::AlwaysUnits || is_good(&cut) {
            return cut;
        }
    }
    cut_by_program(program, &all, distinct, size, is_good)
}

/// Cuts with larger and larger partitions until `is_good`.
fn cut_by_program(
    program: &Program<'_>,
    all: &[Reached],
    distinct: u64,
    mut size: u64,
    is_good: impl Fn(&Cut) -> bool,
) -> Cut {
    let together = affinity::groups(program, all, affinity::LEAST_SHARED, |reached| reached.root.unit);
    loop {
        let groups = join(segments(program, &together, size), program, size);
        let cut = cut_into(program, groups, all, distinct);
        if is_good(&cut) {
            return cut;
        }
        size = size.saturating_mul(2);
        if size > distinct {
            // In one piece nothing is duplicated.
            return Cut { distinct, ..Cut::default() };
        }
    }
}

/// A root with everything that it reaches, which is computed once.
struct Reached {
    root: Node,
    /// Definitions with bodies, the root among them.
    nodes: Vec<Node>,
    /// Instructions of those.
    instructions: u64,
}

impl Reached {
    fn new(program: &Program<'_>, root: Node) -> Self {
        let closure = program.closure(&[root]);
        Reached { root, nodes: closure.nodes().collect(), instructions: closure.instructions() }
    }
}

/// The cut with these groups of roots; none into a single one.
fn cut_into(program: &Program<'_>, groups: Vec<Vec<Node>>, all: &[Reached], distinct: u64) -> Cut {
    if groups.len() < 2 {
        return Cut { distinct, ..Cut::default() };
    }
    partitions_of(program, groups, all, distinct)
}

fn partitions_of(program: &Program<'_>, groups: Vec<Vec<Node>>, all: &[Reached], distinct: u64) -> Cut {
    let reached: FxHashMap<Node, u64> = all.iter().map(|one| (one.root, one.instructions)).collect();
    let partitions = groups.iter().map(|roots| partition(program, roots, &reached)).collect();
    Cut { partitions, groups, distinct, monolithic: None }
}

/// Makes a partition with these roots; `reached` has the instructions that each root reaches.
fn partition(program: &Program<'_>, roots: &[Node], reached: &FxHashMap<Node, u64>) -> Partition {
    let closure = program.closure(roots);
    let mut parts: Vec<UnitPart> = Vec::new();
    let mut keep = BTreeSet::new();
    let mut kernels = Vec::new();
    for (node, need) in closure.needs() {
        let global = program.global(node);
        let how = how(program, node, need);
        let name = match how {
            How::Copy => None,
            _ => program.shared_name(node),
        };
        if matches!(how, How::Owned | How::Folded) {
            keep.insert(name.clone().unwrap_or_else(|| global.name.clone()));
        }
        if need.root && global.role == Role::Kernel {
            kernels.push(global.name.clone());
        }
        // The mover declares a visible name that is referenced.
        if how == How::Declaration && global.scope != Scope::Local {
            continue;
        }
        if parts.last().is_none_or(|part| part.unit != node.unit) {
            parts.push(UnitPart { unit: node.unit, takes: Vec::new() });
        }
        if let Some(part) = parts.last_mut() {
            part.takes.push(Take { index: node.index, how, name });
        }
    }
    let largest = roots.iter().filter_map(|root| reached.get(root)).copied().max().unwrap_or_default();
    Partition { parts, keep, kernels, instructions: closure.instructions(), largest }
}

fn how(program: &Program<'_>, node: Node, need: Need) -> How {
    if need.root {
        How::Owned
    } else if need.shared && need.body {
        How::Available
    } else if need.shared {
        How::Declaration
    } else if program.class(node) == Class::Folded {
        How::Folded
    } else {
        How::Copy
    }
}

#[cfg(test)]
mod forged_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod units_tests;
