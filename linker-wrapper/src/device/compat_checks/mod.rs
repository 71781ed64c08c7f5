//! Compares how the files of a link were compiled. Files that differ still link, but the difference is seldom intended.
//!
//! Each check reads one property of every device image, such as its debug information, and groups the files by its value.
//! [`properties`] reads them, [`checks`] has the texts of the messages.

mod checks;
mod properties;

use std::collections::BTreeMap;

use checks::Texts;
use rayon::prelude::*;

pub use checks::texts;
pub use properties::Source;

use crate::cli::values::{Check, Level, Levels};
use crate::device::recorded_ptx_flags;
use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::diag::error::Errors;

/// The images that are linked for one target.
pub struct ComparedTarget<'a> {
    /// The target: `sm_90`, `gfx90a:xnack+`.
    pub name: String,
    /// Whether it is one of AMD's GPUs.
    pub is_amd: bool,
    /// Its images, in link order.
    pub images: Vec<ComparedImage<'a>>,
}

/// An image to compare with others.
pub struct ComparedImage<'a> {
    /// The file that holds it.
    pub file: &'a str,
    /// Whether it was found in a host file; otherwise the line gives it to the device link itself.
    pub from_host: bool,
    /// What its properties are read from.
    pub source: Source<'a>,
}

/// The property of one image that a check compares.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Property<'a> {
    check: Check,
    file: &'a str,
    value: String,
}

/// The files with each value of a property.
type Groups = BTreeMap<String, Vec<String>>;

/// A property in which files differ.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", message(self))]
struct Difference {
    check: Check,
    is_amd: bool,
    /// The targets with these groups; empty for [`Check::MissingTarget`], which compares the targets themselves.
    targets: Vec<String>,
    groups: Groups,
}

impl<'a> ComparedTarget<'a> {
    /// A target of CUDA.
    pub fn of_cuda(target: &'a TargetImages<'_>) -> Self {
        let images = target.images.iter().map(ComparedImage::of_cuda).collect();
        Self { name: target.arch.to_string(), is_amd: false, images }
    }
}

impl<'a> ComparedImage<'a> {
    fn of_cuda(image: &'a DeviceImage<'_>) -> Self {
        let source = match (image.code, image.unit) {
            (Code::Bitcode, Some(unit)) => Source::Unit(unit),
            (Code::Cubin, _) => Source::Cubin(image.bytes),
            (Code::Ptx, _) => Source::Ptx(image.bytes),
            _ => Source::Unknown,
        };
        Self { file: &image.origin.file, from_host: image.from_host, source }
    }
}

/// Checks the files of all device links, and returns the warnings.
///
/// # Errors
/// Each difference whose level is an error.
pub fn compare(targets: &[&ComparedTarget<'_>], levels: &Levels) -> Result<Vec<String>, Errors> {
    let mut errors = Errors::default();
    let mut warnings = Vec::new();
    for difference in differences(targets, levels) {
        match levels.of(difference.check) {
            Level::Error => errors.extend(difference),
            Level::Warn => warnings.push(difference.to_string()),
            Level::Off => {}
        }
    }
    errors.or(warnings)
}

/// Finds all differences, in the order of the checks and targets.
fn differences(targets: &[&ComparedTarget<'_>], levels: &Levels) -> Vec<Difference> {
    let is_on = |check: &Check| levels.of(*check) != Level::Off;
    let of_code: Vec<Check> = Check::all().filter(is_on).filter(|check| *check != Check::MissingTarget).collect();
    // The groups are usually the same for all targets, and are then reported once.
    let mut found: BTreeMap<(Check, bool, Groups), Vec<String>> = BTreeMap::new();
    for target in targets {
        for (check, groups) in of_target(target, &of_code) {
            found.entry((check, target.is_amd, groups)).or_default().push(target.name.clone());
        }
    }
    let missing = Some(Check::MissingTarget).filter(is_on).and_then(|_| missing_targets(targets));
    let others =
        found.into_iter().map(|((check, is_amd, groups), targets)| Difference { check, is_amd, targets, groups });
    missing.into_iter().chain(others).collect()
}

/// Groups the images of one target by the properties in which they differ.
fn of_target(target: &ComparedTarget<'_>, checks: &[Check]) -> BTreeMap<Check, Groups> {
    // A single image need not be read.
    if target.images.len() < 2 || checks.is_empty() {
        return BTreeMap::new();
    }
    let properties: Vec<Vec<Property<'_>>> = target.images.par_iter().map(of_image).collect();
    let mut all: BTreeMap<Check, Groups> = BTreeMap::new();
    for property in properties.into_iter().flatten().filter(|property| checks.contains(&property.check)) {
        let files = all.entry(property.check).or_default().entry(property.value).or_default();
        if files.last().is_none_or(|last| last != property.file) {
            files.push(property.file.to_owned());
        }
    }
    all.retain(|_, groups| groups.len() > 1);
    all
}

fn of_image<'a>(image: &ComparedImage<'a>) -> Vec<Property<'a>> {
    // Libraries that the line gives to the device link are compiled once for many releases and GPUs.
    let properties = image.source.properties().into_iter();
    let properties = properties.filter(|(check, _)| image.from_host || *check != Check::Features);
    properties.map(|(check, value)| Property { check, file: image.file, value }).collect()
}

/// Groups the files by their targets, if some lack a target that others have. Files that the line gives to the device link itself
/// need not have code for all targets.
fn missing_targets(targets: &[&ComparedTarget<'_>]) -> Option<Difference> {
    let mut files: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for target in targets {
        for image in target.images.iter().filter(|image| image.from_host) {
            let place = *places.entry(image.file).or_insert_with(|| {
                files.push((image.file, Vec::new()));
                files.len() - 1
            });
            if files[place].1.last() != Some(&target.name.as_str()) {
                files[place].1.push(&target.name);
            }
        }
    }
    let mut groups = Groups::new();
    for (file, names) in files {
        groups.entry(names.join(" and ")).or_default().push(file.to_owned());
    }
    let is_amd = targets.iter().any(|target| target.is_amd);
    let difference = Difference { check: Check::MissingTarget, is_amd, targets: Vec::new(), groups };
    (difference.groups.len() > 1).then_some(difference)
}

fn message(difference: &Difference) -> String {
    let Difference { check, is_amd, targets, groups } = difference;
    let files =
        if targets.is_empty() { "the files".to_owned() } else { format!("the files for {}", targets.join(" and ")) };
    let values: Vec<String> =
        groups.iter().map(|(value, files)| format!("{value} in {}", recorded_ptx_flags::shown(files))).collect();
    let Texts { what, advice } = texts(*check, *is_amd);
    format!("{files} differ in {what}: {}; {advice} [--offload-check={}]", values.join("; "), check.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target<'a>(name: &str, files: &[&'a str]) -> ComparedTarget<'a> {
        let image = |file: &&'a str| ComparedImage { file, from_host: true, source: Source::Unknown };
        ComparedTarget { name: name.to_owned(), is_amd: false, images: files.iter().map(image).collect() }
    }

    #[test]
    fn files_that_lack_a_target_are_grouped_by_their_targets() {
        let (first, second) = (target("sm_90", &["a.o", "b.o", "c.o", "d.o", "e.o"]), target("sm_80", &["a.o", "e.o"]));
        let targets = [&first, &second];
        let text = missing_targets(&targets).unwrap().to_string();
        assert!(text.contains("sm_90 in b.o, c.o, d.o; sm_90 and sm_80 in a.o, e.o;"), "{text}");
        assert_eq!(missing_targets(&targets[..1]), None);
        let levels = Levels::default();
        assert_eq!(compare(&targets, &levels).unwrap(), [text]);
    }
}
