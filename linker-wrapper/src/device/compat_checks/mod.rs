//! Compares how the files of a link were compiled. Files that differ still link, but the difference is seldom intended.
//!
//! Each check reads one property of every device image, such as its debug information, and groups the files by its value.
//! [`checks`] has the texts of the messages.

mod checks;

use std::collections::BTreeMap;

use checks::Texts;
use llvm_passes::module_flags::{DebugKind, ModuleFlags};
use offload_bundle::arch::GpuArch;
use offload_bundle::cubin;
use offload_bundle::ptx::DebugInfo;
use rayon::prelude::*;

use crate::cli::values::{Check, Level, Levels};
use crate::device::recorded_ptx_flags;
use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::diag::error::Errors;

/// The property of one image that a check compares.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Property {
    check: Check,
    file: String,
    value: String,
}

/// The files with each value of a property.
type Groups = BTreeMap<String, Vec<String>>;

/// A property in which files differ.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", message(self))]
struct Difference {
    check: Check,
    /// The targets with these groups; empty for [`Check::MissingTarget`], which compares the targets themselves.
    targets: Vec<GpuArch>,
    groups: Groups,
}

/// Checks the files of all device links, and returns the warnings.
///
/// # Errors
/// Each difference that the user raised to an error.
pub fn check(targets: &[TargetImages<'_>], levels: &Levels) -> Result<Vec<String>, Errors> {
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
fn differences(targets: &[TargetImages<'_>], levels: &Levels) -> Vec<Difference> {
    let is_on = |check: &Check| levels.of(*check) != Level::Off;
    let of_code: Vec<Check> = Check::all().filter(is_on).filter(|check| *check != Check::MissingTarget).collect();
    // The groups are usually the same for all targets, and are then reported once.
    let mut found: BTreeMap<(Check, Groups), Vec<GpuArch>> = BTreeMap::new();
    for target in targets {
        for (check, groups) in of_target(target, &of_code) {
            found.entry((check, groups)).or_default().push(target.arch);
        }
    }
    let missing = Some(Check::MissingTarget).filter(is_on).and_then(|_| missing_targets(targets));
    let others = found.into_iter().map(|((check, groups), targets)| Difference { check, targets, groups });
    missing.into_iter().chain(others).collect()
}

/// Groups the images of one target by the properties in which they differ.
fn of_target(target: &TargetImages<'_>, checks: &[Check]) -> BTreeMap<Check, Groups> {
    // A single image need not be read.
    if target.images.len() < 2 || checks.is_empty() {
        return BTreeMap::new();
    }
    let properties: Vec<Vec<Property>> = target.images.par_iter().map(of_image).collect();
    let mut all: BTreeMap<Check, Groups> = BTreeMap::new();
    for property in properties.into_iter().flatten().filter(|property| checks.contains(&property.check)) {
        let files = all.entry(property.check).or_default().entry(property.value).or_default();
        if files.last() != Some(&property.file) {
            files.push(property.file);
        }
    }
    all.retain(|_, groups| groups.len() > 1);
    all
}

/// Reads how an image was compiled. An unreadable image has no properties; the link reports it.
fn of_image(image: &DeviceImage<'_>) -> Vec<Property> {
    let values = match image.code {
        Code::Bitcode => {
            let flags = image.unit.and_then(|unit| unit.module_flags().ok());
            flags.map(of_bitcode).unwrap_or_default()
        }
        Code::Cubin => of_cubin(image.bytes),
        Code::Ptx => vec![(Check::Debug, debug(of_ptx(image.bytes)).to_owned())],
        // LTO-IR records none of the properties.
        Code::LtoIr => Vec::new(),
    };
    values.into_iter().map(|(check, value)| Property { check, file: image.origin.file.clone(), value }).collect()
}

fn of_bitcode(flags: &ModuleFlags) -> Vec<(Check, String)> {
    let joined = |values: Vec<String>| (!values.is_empty()).then(|| values.join(" and "));
    let fast = flags.fast_math.iter().map(|fast| if *fast { "fast" } else { "exact" }.to_owned());
    let denormals = flags.denormals.iter().map(|mode| match mode.as_str() {
        "ieee" => "kept".to_owned(),
        "preserve-sign" | "positive-zero" => "flushed to zero".to_owned(),
        other => other.to_owned(),
    });
    let ptx = flags.ptx.iter().map(|feature| ptx_version(feature));
    [
        (Check::Producer, flags.producer.as_ref().map(|producer| producer.replacen("LLVM", "LLVM ", 1))),
        (Check::Features, joined(ptx.collect())),
        (Check::FastMath, joined(fast.collect())),
        (Check::Denormals, joined(denormals.collect())),
        (Check::Debug, Some(debug(flags.debug).to_owned())),
    ]
    .into_iter()
    .filter_map(|(check, value)| Some((check, value?)))
    .collect()
}

/// Formats the feature `+ptx88` as `PTX 8.8`.
fn ptx_version(feature: &str) -> String {
    let digits = feature.trim_start_matches("+ptx");
    match digits.split_at_checked(digits.len().saturating_sub(1)) {
        Some((major, minor)) if !major.is_empty() => format!("PTX {major}.{minor}"),
        _ => feature.to_owned(),
    }
}

fn of_ptx(text: &[u8]) -> DebugKind {
    match DebugInfo::of(text) {
        DebugInfo::Full => DebugKind::Full,
        DebugInfo::Lines => DebugKind::Lines,
        DebugInfo::None => DebugKind::None,
    }
}

fn of_cubin(bytes: &[u8]) -> Vec<(Check, String)> {
    let Ok(cubin) = cubin::parse(bytes) else { return Vec::new() };
    let kind = match (cubin.has_debug_info(), cubin.has_line_info()) {
        (true, _) => DebugKind::Full,
        (_, true) => DebugKind::Lines,
        _ => DebugKind::None,
    };
    let toolkit = cubin.toolkit().map(|release| (Check::Toolkit, format!("CUDA {}", release.major)));
    toolkit.into_iter().chain([(Check::Debug, debug(kind).to_owned())]).collect()
}

fn debug(kind: DebugKind) -> &'static str {
    match kind {
        DebugKind::None => "none",
        DebugKind::Lines => "lines alone",
        DebugKind::Full => "full",
    }
}

/// Groups the files by their targets, if some lack a target that others have. Files that the line gives to the device link itself
/// need not have code for all targets.
fn missing_targets(targets: &[TargetImages<'_>]) -> Option<Difference> {
    let mut files: Vec<(&str, Vec<GpuArch>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for target in targets {
        for image in target.images.iter().filter(|image| image.from_host) {
            let file = image.origin.file.as_str();
            let place = *places.entry(file).or_insert_with(|| {
                files.push((file, Vec::new()));
                files.len() - 1
            });
            if files[place].1.last() != Some(&target.arch) {
                files[place].1.push(target.arch);
            }
        }
    }
    let mut groups = Groups::new();
    for (file, archs) in files {
        groups.entry(names(&archs)).or_default().push(file.to_owned());
    }
    (groups.len() > 1).then_some(Difference { check: Check::MissingTarget, targets: Vec::new(), groups })
}

fn message(difference: &Difference) -> String {
    let Difference { check, targets, groups } = difference;
    let files = if targets.is_empty() { "the files".to_owned() } else { format!("the files for {}", names(targets)) };
    let values: Vec<String> =
        groups.iter().map(|(value, files)| format!("{value} in {}", recorded_ptx_flags::shown(files))).collect();
    let Texts { what, advice } = checks::texts(*check);
    format!("{files} differ in {what}: {}; {advice} [--offload-check={}]", values.join("; "), check.name())
}

fn names(archs: &[GpuArch]) -> String {
    archs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::embedded_images::Origin;

    fn target(arch: &str, files: &[&str]) -> TargetImages<'static> {
        let image = |file: &&str| DeviceImage {
            from_host: true,
            origin: Origin { file: (*file).to_owned(), offset: Some(64) },
            code: Code::Cubin,
            bytes: b"",
            unit: None,
            rdc: None,
        };
        TargetImages { arch: arch.parse().unwrap(), images: files.iter().map(image).collect() }
    }

    #[test]
    fn files_that_lack_a_target_are_grouped_by_their_targets() {
        let targets = [target("sm_90", &["a.o", "b.o", "c.o", "d.o", "e.o"]), target("sm_80", &["a.o", "e.o"])];
        let text = missing_targets(&targets).unwrap().to_string();
        assert!(text.contains("sm_90 in b.o, c.o, d.o; sm_90 and sm_80 in a.o, e.o;"), "{text}");
        assert_eq!(missing_targets(&targets[..1]), None);
        let levels = Levels::default();
        assert_eq!(check(&targets, &levels).unwrap(), [text]);
    }

    #[test]
    fn ptx_features_are_formatted_as_versions() {
        for (feature, version) in
            [("+ptx88", "PTX 8.8"), ("+ptx90", "PTX 9.0"), ("+ptx100", "PTX 10.0"), ("+ptx", "+ptx")]
        {
            assert_eq!(ptx_version(feature), version);
        }
    }
}
