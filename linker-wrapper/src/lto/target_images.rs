//! The images of one target of any machine, and their private copies.

use llvm_passes::unit::Unit;
use rayon::prelude::*;

use crate::diag::error::{Errors, collect};
use crate::lto::private_images::PrivateImages;
use crate::lto::result_cache::ResultCache;
use crate::sys::temp_files::TempFiles;

/// The bytes of an image, and the unit if it is bitcode.
pub type Image<'c> = (&'c [u8], Option<&'c Unit<'c>>);

/// The images of one target.
pub trait Images<'c>: Sized + Sync {
    /// The beginning of the names of intermediate files.
    fn stem(&self) -> String;

    /// Returns all images, in link order.
    fn images(&self) -> Vec<Image<'c>>;

    /// Returns the target with other bytes and units in place of those of its images.
    fn with_images(&self, images: Vec<Image<'c>>) -> Self;
}

/// Copies the images of targets whose results will be cached. They are compiled from the copy, which no other program writes to, and
/// the keys are computed from it.
///
/// # Errors
/// A copy cannot be written.
pub fn copies<'c, I: Images<'c>>(
    targets: &[&I],
    is_copied: impl Fn(usize) -> bool,
    temp_files: &TempFiles,
) -> Result<Vec<Option<PrivateImages>>, Errors> {
    collect(targets.iter().enumerate().map(|(place, target)| {
        let bytes: Vec<&[u8]> = target.images().into_iter().map(|(bytes, _)| bytes).collect();
        is_copied(place).then(|| PrivateImages::of(&bytes, &target.stem(), temp_files)).transpose()
    }))
}

/// Returns the units of copied targets. A target that may be cut into partitions gets the facts that earlier links cached; a program
/// that is compiled in one piece is read anyway.
pub fn copied_units<'c, I: Images<'c>>(
    targets: &[&I],
    copies: &'c [Option<PrivateImages>],
    cache: &ResultCache<'_>,
    may_be_cut: impl Fn(&I) -> bool,
) -> Vec<Vec<Option<Unit<'c>>>> {
    let of_target = |(target, copy): (&&I, &'c Option<PrivateImages>)| {
        let may_be_cut = may_be_cut(target);
        let unit = |(place, (_, unit)): (usize, Image<'c>)| {
            let unit = Unit::new(unit?.name(), copy.as_ref()?.bytes(place));
            Some(if may_be_cut { cache.with_facts(unit) } else { unit })
        };
        target.images().into_par_iter().enumerate().map(unit).collect()
    };
    targets.iter().zip(copies).map(of_target).collect()
}

/// Returns the targets with the images of the copies and with these units.
pub fn with_copies<'c, I: Images<'c>>(
    targets: &[&I],
    copies: &'c [Option<PrivateImages>],
    units: &'c [Vec<Option<Unit<'c>>>],
) -> Vec<I> {
    let copied = |((target, copy), units): ((&&I, &'c Option<PrivateImages>), &'c Vec<Option<Unit<'c>>>)| {
        let images = target.images().into_iter().zip(units).enumerate();
        let images = images.map(|(place, ((bytes, unit), copied))| {
            (copy.as_ref().map_or(bytes, |copy| copy.bytes(place)), copied.as_ref().or(unit))
        });
        target.with_images(images.collect())
    };
    targets.iter().zip(copies).zip(units).map(copied).collect()
}
