//! Do the files of a link agree? What differs between them works, more or less, and is seldom meant.
//!
//! [`checks`] has the table of what is looked for. Each device image says how it was compiled, a line for each check;
//! files that say different things are grouped by what they say.

mod checks;

use std::collections::BTreeMap;

use llvm_passes::module_flags::{DebugKind, ModuleFlags};
use offload_bundle::arch::GpuArch;
use offload_bundle::cubin;
use offload_bundle::ptx::DebugInfo;
use rayon::prelude::*;

use crate::cli::values::{Check, Level, Levels};
use crate::device::recorded_ptx_flags;
use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::diag::error::Errors;

/// What one image says for a check.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Saying {
    check: Check,
    file: String,
    says: String,
}

/// Files by what they say, for one check.
type Groups = BTreeMap<String, Vec<String>>;

/// Checks the files of all device links. The warnings come back.
///
/// # Errors
/// Every disagreement that is to be one.
pub fn check(targets: &[TargetImages<'_>], levels: &Levels) -> Result<Vec<String>, Errors> {
    let mut errors = Errors::default();
    let mut warnings = Vec::new();
    for (check, text) in disagreements(targets, levels) {
        match levels.of(check) {
            Level::Error => errors.push(text),
            Level::Warn => warnings.push(text),
            Level::Off => {}
        }
    }
    errors.or(warnings)
}

/// All disagreements, in the order of the checks and targets.
fn disagreements(targets: &[TargetImages<'_>], levels: &Levels) -> Vec<(Check, String)> {
    let is_on = |check: &Check| levels.of(*check) != Level::Off;
    let of_code: Vec<Check> = Check::all().filter(is_on).filter(|check| *check != Check::MissingTarget).collect();
    // The same files usually say the same for all targets: that is said once.
    let mut found: BTreeMap<(Check, Groups), Vec<GpuArch>> = BTreeMap::new();
    for target in targets {
        for (check, groups) in of_target(target, &of_code) {
            found.entry((check, groups)).or_default().push(target.arch);
        }
    }
    let missing = Some(Check::MissingTarget).filter(is_on).and_then(|_| missing_targets(targets));
    let rest = found.into_iter().map(|((check, groups), archs)| (check, differing(check, &archs, &groups)));
    missing.into_iter().map(|text| (Check::MissingTarget, text)).chain(rest).collect()
}

/// What the images of one target say differently.
fn of_target(target: &TargetImages<'_>, checks: &[Check]) -> BTreeMap<Check, Groups> {
    // A single image agrees with itself, and need not be looked into.
    if target.images.len() < 2 || checks.is_empty() {
        return BTreeMap::new();
    }
    let said: Vec<Vec<Saying>> = target.images.par_iter().map(of_image).collect();
    let mut all: BTreeMap<Check, Groups> = BTreeMap::new();
    for saying in said.into_iter().flatten().filter(|saying| checks.contains(&saying.check)) {
        let files = all.entry(saying.check).or_default().entry(saying.says).or_default();
        if files.last() != Some(&saying.file) {
            files.push(saying.file);
        }
    }
    all.retain(|_, groups| groups.len() > 1);
    all
}

/// How an image was compiled. What cannot be read is reported where it is linked.
fn of_image(image: &DeviceImage<'_>) -> Vec<Saying> {
    let says = match image.code {
        Code::Bitcode => {
            let flags = image.unit.and_then(|unit| unit.module_flags().ok());
            flags.map(of_bitcode).unwrap_or_default()
        }
        Code::Cubin => of_cubin(image.bytes),
        Code::Ptx => vec![(Check::Debug, debug(of_ptx(image.bytes)).to_owned())],
        // Only its version is known.
        Code::LtoIr => Vec::new(),
    };
    says.into_iter().map(|(check, says)| Saying { check, file: image.origin.file.clone(), says }).collect()
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
    .filter_map(|(check, says)| Some((check, says?)))
    .collect()
}

/// "+ptx88" as "PTX 8.8".
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

/// Files without code for a target that other files have code for. What the line gives to the device link itself need not be
/// for all.
fn missing_targets(targets: &[TargetImages<'_>]) -> Option<String> {
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
    (groups.len() > 1).then(|| message(Check::MissingTarget, "the files", &groups))
}

fn differing(check: Check, archs: &[GpuArch], groups: &Groups) -> String {
    message(check, &format!("the files for {}", names(archs)), groups)
}

fn message(check: Check, who: &str, groups: &Groups) -> String {
    let said: Vec<String> =
        groups.iter().map(|(says, files)| format!("{says} in {}", recorded_ptx_flags::shown(files))).collect();
    let words = checks::words(check);
    format!("{who} differ in {}: {}; {} [--offload-check={}]", words.what, said.join("; "), words.advice, check.name())
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
        };
        TargetImages { arch: arch.parse().unwrap(), images: files.iter().map(image).collect() }
    }

    #[test]
    fn files_without_a_target_are_grouped_by_what_they_have() {
        let targets = [target("sm_90", &["a.o", "b.o", "c.o", "d.o", "e.o"]), target("sm_80", &["a.o", "e.o"])];
        let text = missing_targets(&targets).unwrap();
        assert!(text.contains("sm_90 in b.o, c.o, d.o; sm_90 and sm_80 in a.o, e.o;"), "{text}");
        assert_eq!(missing_targets(&targets[..1]), None);
        let levels = Levels::default();
        assert_eq!(check(&targets, &levels).unwrap(), [text]);
    }

    #[test]
    fn ptx_features_are_versions() {
        for (feature, version) in
            [("+ptx88", "PTX 8.8"), ("+ptx90", "PTX 9.0"), ("+ptx100", "PTX 10.0"), ("+ptx", "+ptx")]
        {
            assert_eq!(ptx_version(feature), version);
        }
    }
}
