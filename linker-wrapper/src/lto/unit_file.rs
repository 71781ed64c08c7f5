//! The file with the bitcode units of a target, which its workers read.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use std::path::PathBuf;

use llvm_passes::extract::UnitPart;
use llvm_passes::unit::Unit;
use rayon::prelude::*;

use crate::diag::error::Errors;
use crate::lto::compile_job::UnitRange;
use crate::lto::private_images::{self, PrivateImages};
use crate::sys::temp_files::TempFiles;

/// A file with all bitcode units of a target, one after the other.
pub struct UnitFile {
    /// The file.
    pub path: PathBuf,
    /// The range of each unit in the file.
    pub ranges: Vec<UnitRange>,
}

impl UnitFile {
    /// Writes the file, unless the private copy of the images is one. `is_unit` says which images of the copy are units.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn of(
        units: &[&Unit<'_>],
        target: &dyn Display,
        private: Option<(&PrivateImages, &[bool])>,
        temp_files: &TempFiles,
    ) -> Result<Self, Errors> {
        let (path, places): (PathBuf, Vec<Range<usize>>) = match private {
            Some((private, is_unit)) => {
                let all = private.ranges().iter().zip(is_unit);
                let of_units = all.filter(|(_, is_unit)| **is_unit).map(|(range, _)| range.clone());
                (private.path().to_owned(), of_units.collect())
            }
            None => {
                let bitcode: Vec<&[u8]> = units.iter().map(|unit| unit.bitcode()).collect();
                private_images::write(&bitcode, target, temp_files)?
            }
        };
        let hashes: Vec<_> = units.par_iter().map(|unit| unit.content_hash().to_hex().to_string()).collect();
        let ranges = units.iter().zip(hashes).zip(places).map(|((unit, hash), place)| UnitRange {
            name: unit.name().to_owned(),
            hash,
            start: place.start,
            length: place.len(),
        });
        Ok(UnitFile { path, ranges: ranges.collect() })
    }

    /// The ranges of the units that a partition takes code of; all for a whole program.
    pub fn ranges_of(&self, parts: &[UnitPart]) -> Vec<UnitRange> {
        if parts.is_empty() {
            return self.ranges.clone();
        }
        parts.iter().map(|part| self.ranges[part.unit].clone()).collect()
    }
}

/// Makes the parts of a partition refer to its own ranges instead of all units.
pub fn renumbered(parts: &[UnitPart]) -> Vec<UnitPart> {
    parts.iter().enumerate().map(|(unit, part)| UnitPart { unit, takes: part.takes.clone() }).collect()
}

/// Names the units by their content alone, each differently.
pub fn tags(units: &[&Unit<'_>]) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let hashes: Vec<String> = units.par_iter().map(|unit| unit.content_hash().to_hex()[..16].to_owned()).collect();
    let tag = |hash: String| {
        let count = seen.entry(hash.clone()).or_default();
        *count += 1;
        if *count == 1 { hash } else { format!("{hash}_{count}") }
    };
    hashes.into_iter().map(tag).collect()
}
