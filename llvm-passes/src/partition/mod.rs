//! Cutting the program of one target into partitions, which are compiled independently. A pure function of the program.
//!
//! A partition is some kernels with everything that they reach. The cuts depend on the code alone, never on cores or memory, and
//! a changed unit moves only the cuts next to it: kernels of one unit, or with one large function in common, stay together up to
//! a size, and a hash of their names decides whether a small group is joined with the next one.

mod affinity;

use std::collections::BTreeSet;

use crate::extract::{How, Take, UnitPart};
use crate::program::{Class, Monolithic, Need, Node, Program};
use crate::reference_graph::{Role, Scope};
use rustc_hash::{FxHashMap, FxHashSet};

/// The usual size of a partition, in instructions before optimization: about half a second of work, enough to be worth processes
/// of its own.
const USUAL_GRAIN: u64 = 12_000;

/// With [`Grain::Usual`], partitions become larger rather than having more of the program than this compiled more than once.
const MOST_DUPLICATED_PERCENT: u64 = 50;

/// How large partitions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grain {
    /// The usual size, or larger if too much code would be compiled more than once.
    Usual,
    /// About this many instructions before optimization, however much code is compiled more than once.
    Exactly(u64),
}

/// What is compiled together.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// Kernels that a program does not need.
#[derive(Debug, Clone, Copy)]
pub struct DeadKernels<'d> {
    /// Their names.
    pub names: &'d BTreeSet<String>,
    /// Whether the program is cut as if it needed them, and only whole partitions are left out: then the others are the same in every program
    /// that is made of these units.
    pub keeps_cuts: bool,
}

/// Cuts the program into partitions of about that size. The result has no partitions if the program should be compiled in one
/// piece.
pub fn cut(program: &Program<'_>, grain: Grain) -> Cut {
    cut_roots(program, program.roots(), grain)
}

/// As [`cut`], without kernels that are dead, unless other code refers to them.
pub fn cut_live(program: &Program<'_>, grain: Grain, dead: DeadKernels<'_>) -> Cut {
    let live = program.roots_without(dead.names);
    if !dead.keeps_cuts || dead.names.is_empty() {
        return cut_roots(program, live, grain);
    }
    let mut cut = cut(program, grain);
    let is_kept = kept_groups(program, &cut.groups, live);
    let mut places = is_kept.iter();
    cut.partitions.retain(|_| places.next().is_none_or(|is_kept| *is_kept));
    let mut places = is_kept.iter();
    cut.groups.retain(|_| places.next().is_none_or(|is_kept| *is_kept));
    cut
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

fn cut_roots(program: &Program<'_>, roots: BTreeSet<Node>, grain: Grain) -> Cut {
    let all: Vec<Node> = roots.iter().copied().collect();
    let distinct = program.closure(&all).instructions();
    let mut size = match grain {
        Grain::Usual => USUAL_GRAIN,
        Grain::Exactly(size) => size,
    };
    if distinct <= size.saturating_mul(3) / 2 {
        return Cut { distinct, ..Cut::default() };
    }
    if let Some(monolithic) = program.monolithic(&roots) {
        return Cut { distinct, monolithic: Some(monolithic), ..Cut::default() };
    }
    let all: Vec<Reached> = all.into_iter().map(|root| Reached::new(program, root)).collect();
    let together: Vec<Vec<&Reached>> = affinity::groups(program, &all)
        .into_iter()
        .map(|group| group.into_iter().map(|number| &all[number]).collect())
        .collect();
    let bound = distinct.saturating_mul(MOST_DUPLICATED_PERCENT) / 100;
    while size <= distinct || grain != Grain::Usual {
        let cut = cut_at(program, &together, distinct, size);
        if cut.duplicated() <= bound || grain != Grain::Usual {
            return cut;
        }
        size = size.saturating_mul(2);
    }
    // In one piece nothing is duplicated.
    Cut { distinct, ..Cut::default() }
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

fn cut_at(program: &Program<'_>, together: &[Vec<&Reached>], distinct: u64, size: u64) -> Cut {
    let groups = join(segments(program, together, size), program, size);
    let reached: FxHashMap<Node, u64> = together.iter().flatten().map(|one| (one.root, one.instructions)).collect();
    let partitions: Vec<_> = groups.iter().map(|roots| partition(program, roots, &reached)).collect();
    if partitions.len() < 2 {
        return Cut { distinct, ..Cut::default() };
    }
    Cut { partitions, groups, distinct, monolithic: None }
}

/// Roots of one group that go together.
#[derive(Default)]
struct Segment {
    roots: Vec<Node>,
    /// What the roots reach, by identity number.
    reached: FxHashSet<u32>,
    instructions: u64,
}

impl Segment {
    fn add(&mut self, program: &Program<'_>, root: &Reached) {
        self.roots.push(root.root);
        for node in &root.nodes {
            if self.reached.insert(program.identity_number(*node)) {
                self.instructions += u64::from(program.global(*node).instructions);
            }
        }
    }

    /// Instructions that a root would add.
    fn more(&self, program: &Program<'_>, root: &Reached) -> u64 {
        let new = root.nodes.iter().filter(|node| !self.reached.contains(&program.identity_number(**node)));
        new.map(|node| u64::from(program.global(*node).instructions)).sum()
    }

    /// Whether a root should begin a new segment.
    fn is_full_for(&self, more: u64, whole: u64, grain: u64) -> bool {
        let together = self.instructions + more;
        // A root that shares most of its code stays, up to a limit, for the shared code may be larger than any partition.
        let limit = if more * 4 <= whole { grain.saturating_mul(2).max(whole.saturating_add(grain)) } else { grain };
        !self.roots.is_empty() && together > limit
    }
}

/// The roots of every group, in segments of bounded size.
fn segments(program: &Program<'_>, together: &[Vec<&Reached>], grain: u64) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for group in together {
        let mut current = Segment::default();
        for root in group {
            let more = current.more(program, root);
            if current.is_full_for(more, root.instructions, grain) {
                segments.push(std::mem::take(&mut current));
            }
            current.add(program, root);
        }
        segments.push(current);
    }
    segments
}

/// Joins small segments with their neighbours.
fn join(segments: Vec<Segment>, program: &Program<'_>, grain: u64) -> Vec<Vec<Node>> {
    let mut groups: Vec<Vec<Node>> = Vec::new();
    let (mut group, mut instructions) = (Vec::new(), 0);
    for segment in segments {
        let big = segment.instructions.saturating_mul(2) >= grain;
        if !group.is_empty() && (big || instructions + segment.instructions > grain.saturating_mul(2)) {
            groups.push(std::mem::take(&mut group));
            instructions = 0;
        }
        let ends = big || is_boundary(program, &segment, grain);
        instructions += segment.instructions;
        group.extend(segment.roots);
        if ends {
            groups.push(std::mem::take(&mut group));
            instructions = 0;
        }
    }
    groups.push(group);
    groups.retain(|group| !group.is_empty());
    groups
}

/// Whether a group ends behind this segment. A hash of the names of its roots decides, more often so for larger segments: groups
/// have about the size of the grain, and no change elsewhere moves their ends.
fn is_boundary(program: &Program<'_>, segment: &Segment, grain: u64) -> bool {
    let mut names = blake3::Hasher::new();
    for root in &segment.roots {
        names.update(program.global(*root).name.as_bytes());
        names.update(&[0]);
    }
    let mut head = [0; 8];
    head.copy_from_slice(&names.finalize().as_bytes()[..8]);
    // Rounded, so that a small change of the size changes nothing.
    let size = segment.instructions.max(1).next_power_of_two();
    u64::from_le_bytes(head) % grain < size
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
mod tests;
