//! Decides which machine code and which PTX go into the image. Pure, and tested with tables.
//!
//! No choice of PTX is best for everyone: PTX of the newest target runs fastest on later GPUs, PTX of the oldest runs on most
//! GPUs, and PTX of all targets is large. The user therefore decides; by default the image gets machine code for every target and
//! the PTX that files request, which is none with clang 22's defaults.

use offload_bundle::arch::{ArchFeature, GpuArch};

use crate::cli::values::{PtxPolicy, SassPolicy};
use crate::device::recorded_ptx_flags::{self, RecordedFlags};
use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::diag::error::Errors;
use crate::machines::nvptx::error::{Error, NoSource};

/// One entry of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The architecture that it is for.
    pub arch: GpuArch,
    /// The target whose linked code it is generated from.
    pub from: GpuArch,
}

/// All entries of the image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageEntries {
    /// Machine code.
    pub sass: Vec<Entry>,
    /// PTX.
    pub ptx: Vec<Entry>,
}

impl ImageEntries {
    /// The targets of machine code that is generated from the code of `from`.
    pub fn sass_from(&self, from: GpuArch) -> Vec<GpuArch> {
        self.sass.iter().filter(|entry| entry.from == from).map(|entry| entry.arch).collect()
    }

    /// The targets of PTX that is generated from the code of `from`.
    pub fn ptx_from(&self, from: GpuArch) -> Vec<GpuArch> {
        self.ptx.iter().filter(|entry| entry.from == from).map(|entry| entry.arch).collect()
    }

    /// Whether machine code of other targets is generated from the code of `from`.
    pub fn has_other_sass(&self, from: GpuArch) -> bool {
        self.sass.iter().any(|entry| entry.from == from && entry.arch != from)
    }
}

/// Decides what PTX the image gets, highest architecture first, and returns it with warnings. `files` are the flags that the
/// files record, or under [`PtxPolicy::Line`] those of the link line.
///
/// # Errors
/// PTX that cannot be generated. Conflicting flags, if the policy follows them.
pub fn ptx(
    policy: &PtxPolicy,
    targets: &[TargetImages<'_>],
    files: &[RecordedFlags],
) -> Result<(Vec<Entry>, Vec<String>), Errors> {
    let archs: Vec<GpuArch> = targets.iter().map(|target| target.arch).collect();
    let is_recorded = |arch: &GpuArch| recorded_ptx_flags::summarize(*arch, files).includes_ptx();
    let requested = match policy {
        PtxPolicy::None => Vec::new(),
        PtxPolicy::All => archs.clone(),
        PtxPolicy::List(list) => list.clone(),
        PtxPolicy::Newest => portable(&archs).into_iter().max().into_iter().collect(),
        PtxPolicy::Oldest => portable(&archs).into_iter().min().into_iter().collect(),
        PtxPolicy::Objects | PtxPolicy::Line => archs.iter().copied().filter(is_recorded).collect(),
    };
    let mut warnings = check_flags(policy, &archs, files)?;
    let source = |arch| source(arch, targets).and_then(|target| ptx_source(arch, target));
    let entries = entries(requested, |arch| match source(arch) {
        // A recorded flag is only a request, which clang itself ignores for machine code.
        Err(reason) if *policy == PtxPolicy::Objects => {
            let name = arch.virtual_name();
            warnings.push(format!("files request PTX for {name}, which cannot be generated: {reason}"));
            Ok(None)
        }
        Err(reason) => Err(Error::Ptx { arch, reason }),
        Ok(from) => Ok(from),
    })?;
    Ok((entries, warnings))
}

/// PTX of clang's units that the program needs next to units of nvcc, if nothing requests any. Where all of nvcc's units have PTX, the
/// driver links it for GPUs that no machine code is for, and fails if clang's is missing. That of the lowest target suits most GPUs.
pub fn implied_ptx(policy: &PtxPolicy, targets: &[TargetImages<'_>], requested: &[Entry]) -> Option<Entry> {
    if *policy != PtxPolicy::Objects || !requested.is_empty() {
        return None;
    }
    let is_mixed = |target: &TargetImages<'_>| {
        let units = target.images.iter().filter(|image| image.rdc.is_some()).count();
        (1..target.images.len()).contains(&units)
    };
    let is_fit = |target: &&TargetImages<'_>| {
        let is_plain = target.arch.feature == ArchFeature::Plain;
        is_plain && is_mixed(target) && matches!(ptx_source(target.arch, target), Ok(Some(_)))
    };
    let lowest = targets.iter().filter(is_fit).map(|target| target.arch).min()?;
    Some(Entry { arch: lowest, from: lowest })
}

/// Diagnoses conflicting and missing flags. A conflict is an error if the policy follows the flags, and a warning otherwise.
fn check_flags(policy: &PtxPolicy, archs: &[GpuArch], files: &[RecordedFlags]) -> Result<Vec<String>, Errors> {
    let mut errors = Errors::default();
    let mut warnings = Vec::new();
    for arch in archs.iter().copied() {
        let summary = recorded_ptx_flags::summarize(arch, files);
        let name = arch.virtual_name();
        match (summary.conflict(), policy) {
            (Some(conflict), PtxPolicy::Objects) => errors.extend(Error::ConflictingFlags { arch, conflict }),
            (Some(conflict), _) => {
                warnings.push(format!("the files contradict each other about PTX of {name}: {conflict}"));
            }
            (None, PtxPolicy::Objects) => warnings.extend(summary.silent_files().map(|silent| {
                format!("the image gets PTX for {name} because some files request it; no such request is recorded in {silent}")
            })),
            (None, _) => {}
        }
    }
    errors.or(warnings)
}

/// Decides what machine code the image gets, highest architecture first.
///
/// # Errors
/// Machine code that cannot be generated, with advice.
pub fn sass(policy: &SassPolicy, targets: &[TargetImages<'_>]) -> Result<Vec<Entry>, Errors> {
    let requested = match policy {
        SassPolicy::None => Vec::new(),
        SassPolicy::All => targets.iter().map(|target| target.arch).collect(),
        SassPolicy::List(list) => list.clone(),
    };
    entries(requested, |arch| {
        let failed = |reason| Error::Sass { arch, reason };
        let target = source(arch, targets).map_err(failed)?;
        // Code that was compiled for exactly this target may have any form.
        if target.arch == arch { Ok(Some(arch)) } else { ir_of(target).map(Some).map_err(failed) }
    })
}

/// Pairs each requested architecture, highest first, with the target that `from` returns for it.
fn entries(
    mut requested: Vec<GpuArch>,
    mut from: impl FnMut(GpuArch) -> Result<Option<GpuArch>, Error>,
) -> Result<Vec<Entry>, Errors> {
    requested.sort();
    requested.dedup();
    let mut errors = Errors::default();
    let mut entries = Vec::new();
    for arch in requested.into_iter().rev() {
        match from(arch) {
            Ok(from) => entries.extend(from.map(|from| Entry { arch, from })),
            Err(error) => errors.extend(error),
        }
    }
    errors.or(entries)
}

/// Selects the targets whose PTX later GPUs can use, or all targets if there is no such target.
fn portable(archs: &[GpuArch]) -> Vec<GpuArch> {
    let plain: Vec<GpuArch> = archs.iter().copied().filter(|arch| arch.feature == ArchFeature::Plain).collect();
    if plain.is_empty() { archs.to_vec() } else { plain }
}

/// Selects the target whose code is compiled for `arch`: `arch` itself, else the highest plain target below it. Code for an `a`
/// or `f` target may use instructions that other targets lack.
fn source<'t, 'a>(arch: GpuArch, targets: &'t [TargetImages<'a>]) -> Result<&'t TargetImages<'a>, NoSource> {
    let fits = |target: &&TargetImages<'_>| {
        target.arch == arch || (target.arch.feature == ArchFeature::Plain && target.arch.number <= arch.number)
    };
    let best = targets.iter().filter(fits).max_by_key(|target| (target.arch == arch, target.arch));
    let linked = || targets.iter().map(|target| target.arch).collect();
    best.ok_or_else(|| NoSource::Incompatible { arch, linked: linked() })
}

/// Returns the target if PTX for `arch` can be generated from its code. Units of nvcc bring their own PTX, which the driver links with
/// that of the rest, so that all of them must have some; of LTO-IR alone, a linker generates it. Returns `None` if the units' own PTX is
/// all that there is.
fn ptx_source(arch: GpuArch, target: &TargetImages<'_>) -> Result<Option<GpuArch>, NoSource> {
    let (units, others): (Vec<_>, Vec<_>) = target.images.iter().partition(|image| image.rdc.is_some());
    if let Some(first) = others.iter().find(|image| image.code != Code::Bitcode) {
        return Err(not_ir(target.arch, first.code, others.iter().filter(|image| image.code != Code::Bitcode)));
    }
    let without_ptx = || units.iter().filter(|image| !image.rdc.is_some_and(|rdc| rdc.has_ptx_for(arch)));
    match without_ptx().next() {
        None => Ok((!others.is_empty()).then_some(target.arch)),
        Some(_) if others.is_empty() && units.iter().all(|image| image.code == Code::LtoIr) => Ok(Some(target.arch)),
        Some(_) => Err(NoSource::UnitsWithoutPtx {
            arch,
            files: without_ptx().map(|image| image.origin.file.clone()).collect(),
        }),
    }
}

fn not_ir<'i>(target: GpuArch, code: Code, images: impl Iterator<Item = &'i &'i DeviceImage<'i>>) -> NoSource {
    NoSource::NotIr { target, code, files: images.map(|image| image.origin.file.clone()).collect() }
}

/// Returns the target if all its code is IR.
fn ir_of(target: &TargetImages<'_>) -> Result<GpuArch, NoSource> {
    let other: Vec<_> = target.images.iter().filter(|image| image.code != Code::Bitcode).collect();
    let Some(first) = other.first() else { return Ok(target.arch) };
    Err(not_ir(target.arch, first.code, other.iter()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::targets::DeviceImage;
    use crate::host::embedded_images::Origin;

    fn target(arch: &str, code: Code) -> TargetImages<'static> {
        let origin = Origin { file: "a.o".into(), offset: Some(64), is_one_of_several: false };
        TargetImages {
            arch: arch.parse().unwrap(),
            images: vec![DeviceImage { origin, from_host: true, code, bytes: b"", unit: None, rdc: None }],
        }
    }

    fn decided(policy: &str, archs: &[&str]) -> String {
        let targets: Vec<_> = archs.iter().map(|arch| target(arch, Code::Bitcode)).collect();
        match ptx(&PtxPolicy::parse(policy).unwrap(), &targets, &[]) {
            Ok((entries, _)) => {
                let shown = entries.iter().map(|entry| format!("{}<-{}", entry.arch.virtual_name(), entry.from));
                shown.collect::<Vec<_>>().join(" ")
            }
            Err(_) => "error".to_owned(),
        }
    }

    #[test]
    fn ptx_policies() {
        for (policy, archs, expected) in [
            ("none", &["sm_90", "sm_80"][..], ""),
            ("objects", &["sm_90", "sm_80"], ""),
            ("newest", &["sm_90", "sm_80"], "compute_90<-sm_90"),
            ("oldest", &["sm_90", "sm_80"], "compute_80<-sm_80"),
            ("all", &["sm_90", "sm_80"], "compute_90<-sm_90 compute_80<-sm_80"),
            // PTX for 90a would run nowhere else.
            ("newest", &["sm_90a", "sm_80"], "compute_80<-sm_80"),
            ("newest", &["sm_90a"], "compute_90a<-sm_90a"),
            ("compute_86,sm_90", &["sm_80"], "compute_90<-sm_80 compute_86<-sm_80"),
            ("compute_90", &["sm_90", "sm_80"], "compute_90<-sm_90"),
            ("compute_90a", &["sm_80"], "compute_90a<-sm_80"),
            ("compute_75", &["sm_80"], "error"),
            ("compute_90", &["sm_90a"], "error"),
            // A target that is unknown to the tables.
            ("newest", &["sm_130", "sm_90"], "compute_130<-sm_130"),
            ("compute_130", &["sm_90"], "compute_130<-sm_90"),
        ] {
            assert_eq!(decided(policy, archs), expected, "{policy} {archs:?}");
        }
    }

    #[test]
    fn ptx_is_implied_for_no_target_without_units_of_nvcc() {
        let targets = [target("sm_90", Code::Bitcode), target("sm_80", Code::Bitcode)];
        assert_eq!(implied_ptx(&PtxPolicy::Objects, &targets, &[]), None);
    }

    #[test]
    fn machine_code_of_the_own_target_is_none_of_another() {
        let entry = |arch: u32, from: u32| Entry { arch: GpuArch::plain(arch), from: GpuArch::plain(from) };
        let entries = ImageEntries { sass: vec![entry(90, 90), entry(86, 80)], ..ImageEntries::default() };
        assert!(entries.has_other_sass(GpuArch::plain(80)));
        assert!(!entries.has_other_sass(GpuArch::plain(90)) && !entries.has_other_sass(GpuArch::plain(86)));
    }

    #[test]
    fn ptx_is_not_generated_from_machine_code() {
        let errors = ptx(&PtxPolicy::All, &[target("sm_90", Code::Cubin)], &[]).unwrap_err();
        assert!(errors.to_string().contains("machine code from a.o; compile with -foffload-lto"), "{errors}");
    }

    #[test]
    fn machine_code_policies() {
        let targets = [target("sm_90", Code::Cubin), target("sm_80", Code::Bitcode)];
        let decided = |policy: &str| {
            let entries = sass(&SassPolicy::parse(policy).unwrap(), &targets);
            entries.map(|entries| {
                entries.iter().map(|entry| format!("{}<-{}", entry.arch, entry.from)).collect::<Vec<_>>().join(" ")
            })
        };
        for (policy, expected) in [
            ("all", Some("sm_90<-sm_90 sm_80<-sm_80")),
            ("none", Some("")),
            ("sm_86,sm_89", Some("sm_89<-sm_80 sm_86<-sm_80")),
            // The best source, sm_90, is machine code of another generation.
            ("sm_100", None),
            ("sm_75", None),
        ] {
            assert_eq!(decided(policy).ok().as_deref(), expected, "{policy}");
        }
    }
}
