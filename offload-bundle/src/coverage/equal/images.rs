//! The cubins of a fatbin that have equal code.

use std::collections::BTreeMap;

use super::super::code::{Code, Content};
use crate::cubin::{self, AttributeDifference};
use crate::fatbin::FatbinEntry;

/// A cubin whose code equals that of another one in the same fatbin, apart from attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EqualImages {
    /// Its number, from 1.
    pub replaced: usize,
    /// The number of the other one.
    pub instead: usize,
    /// The attributes in which the other one differs from it.
    pub differing: Vec<AttributeDifference>,
    /// Whether the driver may finalize the code for another GPU of the family.
    pub finalizable: bool,
}

/// Compares the cubins of a fatbin, of which `codes` are its entries: one result for each direction.
///
/// Cubins of different releases of CUDA are never equal, as they need other drivers; nor are a part of a concatenation and an entry of its
/// own.
pub fn equal_images(entries: &[FatbinEntry<'_>], codes: &[Code]) -> Vec<EqualImages> {
    let mut alike: BTreeMap<_, Vec<(&FatbinEntry<'_>, &Code)>> = BTreeMap::new();
    for (entry, code) in entries.iter().zip(codes) {
        if let Content::Sass { arch, .. } = &code.content {
            alike.entry((code.shape, arch.major(), code.is_concatenated)).or_default().push((entry, code));
        }
    }
    let mut equal: Vec<EqualImages> = alike.values().flat_map(|images| among(images)).collect();
    equal.sort_by_key(|images| (images.replaced, images.instead));
    equal
}

fn among(images: &[(&FatbinEntry<'_>, &Code)]) -> Vec<EqualImages> {
    if images.len() < 2 {
        return Vec::new();
    }
    // Each is decompressed once.
    let payloads: Vec<_> = images.iter().filter_map(|(entry, code)| Some((*code, entry.payload().ok()?))).collect();
    let cubins: Vec<_> =
        payloads.iter().filter_map(|(code, payload)| Some((*code, cubin::parse(payload).ok()?))).collect();
    let mut equal = Vec::new();
    for (place, (code, cubin)) in cubins.iter().enumerate() {
        for (other_code, other) in cubins.iter().skip(place + 1).filter(|(other, _)| other.toolkit() == code.toolkit())
        {
            let difference = cubin::code_difference(cubin, other);
            if difference.is_in_attributes_alone() {
                equal.extend(both_ways(code.number, other_code.number, difference.attributes, cubin.finalizable()));
            }
        }
    }
    equal
}

fn both_ways(
    replaced: usize,
    instead: usize,
    differing: Vec<AttributeDifference>,
    finalizable: bool,
) -> [EqualImages; 2] {
    let reversed = differing.iter().cloned().map(AttributeDifference::reversed).collect();
    [
        EqualImages { replaced, instead, differing, finalizable },
        EqualImages { replaced: instead, instead: replaced, differing: reversed, finalizable },
    ]
}
