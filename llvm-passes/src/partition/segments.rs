//! Groups of roots, cut into segments of bounded size, and small segments joined with their neighbours.

use super::Reached;
use crate::program::{Node, Program};
use rustc_hash::FxHashSet;

/// Roots of one group that go together.
#[derive(Default)]
pub struct Segment {
    pub roots: Vec<Node>,
    /// What the roots reach, by identity number.
    reached: FxHashSet<u32>,
    pub instructions: u64,
}

impl Segment {
    pub fn add(&mut self, program: &Program<'_>, root: &Reached) {
        self.roots.push(root.root);
        for node in &root.nodes {
            if self.reached.insert(program.identity_number(*node)) {
                self.instructions += u64::from(program.global(*node).instructions);
            }
        }
    }

    /// Instructions that a root would add.
    pub fn more(&self, program: &Program<'_>, root: &Reached) -> u64 {
        let new = root.nodes.iter().filter(|node| !self.reached.contains(&program.identity_number(**node)));
        new.map(|node| u64::from(program.global(*node).instructions)).sum()
    }

    /// Whether a root should begin a new segment.
    pub fn is_full_for(&self, more: u64, whole: u64, grain: u64) -> bool {
        let together = self.instructions + more;
        // A root that shares most of its code stays, up to a limit, for the shared code may be larger than any partition.
        let limit = if more * 4 <= whole { grain.saturating_mul(2).max(whole.saturating_add(grain)) } else { grain };
        !self.roots.is_empty() && together > limit
    }
}

/// The roots of every group, in segments of bounded size.
pub fn segments(program: &Program<'_>, together: &[Vec<&Reached>], grain: u64) -> Vec<Segment> {
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
pub fn join(segments: Vec<Segment>, program: &Program<'_>, grain: u64) -> Vec<Vec<Node>> {
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
