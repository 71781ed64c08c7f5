//! The cut of one target's device link into independent jobs.
//!
//! A partition is a set of kernels with all that they reach. Today there is exactly one, the whole
//! target; the cut by kernels comes before optimization, so everything behind this point (merge,
//! optimize, emit, assemble) already works on one partition at a time.

/// One independent job of a target's device link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Position in the target's list; names files and messages.
    pub index: usize,
    /// The units it is made of, by index, in link order.
    pub units: Vec<usize>,
}

/// Cuts `unit_count` bitcode units into partitions. No units, no partition.
pub fn cut(unit_count: usize) -> Vec<Partition> {
    match unit_count {
        0 => Vec::new(),
        count => vec![Partition { index: 0, units: (0..count).collect() }],
    }
}
