//! Maps and sets by small numbers that the program itself gave out: what is in them comes from no attacker, and a
//! partition's graph is looked at millions of times.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys are numbers, or made of numbers.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// A set of numbers.
pub type NumberSet<K> = HashSet<K, BuildHasherDefault<NumberHasher>>;

/// Mixes numbers by a multiplication each.
#[derive(Debug, Clone, Copy, Default)]
pub struct NumberHasher(u64);

impl NumberHasher {
    fn add(&mut self, number: u64) {
        // An odd number without a pattern: 2^64 over the golden ratio.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.add(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    fn finish(&self) -> u64 {
        // A product mixes upwards; tables look at the lowest bits.
        self.0.rotate_left(32)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn neighbours_are_kept_apart() {
        let state = BuildHasherDefault::<NumberHasher>::default();
        let lowest: HashSet<u64> = (0..256u32).map(|number| state.hash_one(number) % 256).collect();
        assert!(lowest.len() > 128, "{}", lowest.len());
        assert_ne!(state.hash_one((1usize, 2u32)), state.hash_one((2usize, 1u32)));
    }
}
