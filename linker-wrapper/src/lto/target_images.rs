//! Private copies of the images of targets.

use std::collections::HashMap;

use llvm_passes::unit::Unit;
use rayon::prelude::*;

use crate::device::targets::{DeviceImage, TargetImages};
use crate::diag::error::{Errors, collect};
use crate::lto::context::LtoContext;
use crate::lto::private_images::PrivateImages;
use crate::machines::interface::Machine;

/// Copies the images of targets whose results will be cached. They are compiled from the copy, which no other program writes to, and
/// the keys are computed from it.
///
/// # Errors
/// A copy cannot be written.
pub fn copies<M: Machine>(
    targets: &[&TargetImages<'_, M::Arch>],
    is_copied: impl Fn(usize) -> bool,
    context: &LtoContext<'_, M>,
) -> Result<Vec<Option<PrivateImages>>, Errors> {
    collect(targets.iter().enumerate().map(|(place, target)| {
        let bytes: Vec<&[u8]> = target.images.iter().map(|image| image.bytes).collect();
        let stem = context.machine.stem(&target.arch);
        is_copied(place).then(|| PrivateImages::of(&bytes, &stem, context.temp_files())).transpose()
    }))
}

/// Returns the units of copied targets, with what was read of them before.
pub fn copied_units<'c, M: Machine>(
    targets: &[&TargetImages<'c, M::Arch>],
    copies: &'c [Option<PrivateImages>],
    context: &'c LtoContext<'_, M>,
) -> Vec<Vec<Option<Unit<'c>>>> {
    let of_target = |(target, copy): (&&TargetImages<'c, M::Arch>, &'c Option<PrivateImages>)| {
        let unit = |(place, image): (usize, &DeviceImage<'c>)| {
            Some(context.result_cache.with_facts(image.unit?.moved_to(copy.as_ref()?.bytes(place))))
        };
        target.images.par_iter().enumerate().map(unit).collect()
    };
    targets.iter().zip(copies).map(of_target).collect()
}

/// Returns the targets with the images of the copies and with these units. Targets that share a unit share its copy, too, unless the file
/// changed between their copies.
pub fn with_copies<'c, A: Clone>(
    targets: &[&TargetImages<'c, A>],
    copies: &'c [Option<PrivateImages>],
    units: &'c [Vec<Option<Unit<'c>>>],
) -> Vec<TargetImages<'c, A>> {
    let mut shared: HashMap<(*const Unit<'c>, blake3::Hash), &'c Unit<'c>> = HashMap::new();
    let mut unit_of = |original: &'c Unit<'c>, copied: &'c Unit<'c>| {
        *shared.entry((std::ptr::from_ref(original), copied.content_hash())).or_insert(copied)
    };
    let copied = |((target, copy), units): ((&&TargetImages<'c, A>, &'c Option<PrivateImages>), &'c Vec<_>)| {
        let image = |(place, (image, unit)): (usize, (&DeviceImage<'c>, &'c Option<Unit<'c>>))| DeviceImage {
            bytes: copy.as_ref().map_or(image.bytes, |copy| copy.bytes(place)),
            unit: image.unit.map(|original| unit.as_ref().map_or(original, |copied| unit_of(original, copied))),
            ..image.clone()
        };
        TargetImages {
            arch: target.arch.clone(),
            images: target.images.iter().zip(units).enumerate().map(image).collect(),
        }
    };
    targets.iter().zip(copies).zip(units).map(copied).collect()
}
