//! Which machine code and which PTX go into the image. PURE: tested by tables.
//!
//! There is no one true choice: the newest runs best on the next GPU, the oldest reaches furthest, all is
//! big. So it is the user's, and without a word of theirs there is machine code for every target and no PTX,
//! as with clang 22.

use offload_bundle::arch::{ArchFeature, GpuArch};

use crate::cli::values::{PtxPolicy, SassPolicy};
use crate::device::recorded_ptx_flags::{self, FileWishes};
use crate::device::targets::{Code, TargetImages};
use crate::diag::error::Errors;

/// How many files a message names.
const FILES_SHOWN: usize = 3;

/// One entry of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its architecture.
    pub arch: GpuArch,
    /// The target whose linked IR it is made of.
    pub from: GpuArch,
}

/// Everything that the image gets, of all targets.
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

    /// Whether anything but the target's own machine code is generated from its code.
    pub fn has_more_than_own(&self, arch: GpuArch) -> bool {
        let mut others = self.sass.iter().filter(|entry| entry.arch != arch);
        self.ptx.iter().chain(others.by_ref()).any(|entry| entry.from == arch)
    }
}

/// Decides what PTX the image gets, highest architecture first, and what there is to say about it. `files` are
/// the wishes of the files, or of the link line under [`PtxPolicy::Line`].
///
/// # Errors
/// PTX that cannot be made, files that contradict each other where they decide.
pub fn ptx(
    policy: &PtxPolicy,
    targets: &[TargetImages<'_>],
    files: &[FileWishes],
) -> Result<(Vec<Entry>, Vec<String>), Errors> {
    let archs: Vec<GpuArch> = targets.iter().map(|target| target.arch).collect();
    let wished = || archs.iter().copied().filter(|arch| recorded_ptx_flags::about(*arch, files).wants()).collect();
    let wanted = match policy {
        PtxPolicy::None => Vec::new(),
        PtxPolicy::All => archs.clone(),
        PtxPolicy::List(list) => list.clone(),
        PtxPolicy::Newest => portable(&archs).into_iter().max().into_iter().collect(),
        PtxPolicy::Oldest => portable(&archs).into_iter().min().into_iter().collect(),
        PtxPolicy::Objects | PtxPolicy::Line => wished(),
    };
    let mut notes = agreement(policy, &archs, files)?;
    let entries = entries(wanted, |arch| {
        let made = source(arch, targets).and_then(ir_of);
        let name = arch.virtual_name();
        match made {
            // A wish is no order: clang itself ignores it for machine code.
            Err(why) if *policy == PtxPolicy::Objects => {
                notes.push(format!("files wish for PTX of {name}, which cannot be made: {why}"));
                Ok(None)
            }
            Err(why) => Err(format!("--offload-ptx: PTX for {name} cannot be made: {why}")),
            Ok(from) => Ok(Some(from)),
        }
    })?;
    Ok((entries, notes))
}

/// Where the files decide, contradictions are errors; beside an explicit policy they are worth a warning.
fn agreement(policy: &PtxPolicy, archs: &[GpuArch], files: &[FileWishes]) -> Result<Vec<String>, Errors> {
    let mut errors = Errors::default();
    let mut notes = Vec::new();
    for arch in archs {
        let opinion = recorded_ptx_flags::about(*arch, files);
        match (opinion.contradiction(), policy) {
            (Some(text), PtxPolicy::Objects) => errors.push(format_args!(
                "the files contradict each other about PTX of {}: {text}; compile them alike, or decide with --offload-ptx=",
                arch.virtual_name()
            )),
            (Some(text), _) => notes.push(format!("the files contradict each other about PTX of {}: {text}", arch.virtual_name())),
            (None, PtxPolicy::Objects) => notes.extend(opinion.silence().map(|files| {
                format!("PTX of {} is put in, as some files wish; {files} say nothing about it", arch.virtual_name())
            })),
            (None, _) => {}
        }
    }
    errors.or(notes)
}

/// Decides what machine code the image gets, highest architecture first.
///
/// # Errors
/// Machine code that cannot be made, with what to do.
pub fn sass(policy: &SassPolicy, targets: &[TargetImages<'_>]) -> Result<Vec<Entry>, Errors> {
    let wanted = match policy {
        SassPolicy::None => Vec::new(),
        SassPolicy::All => targets.iter().map(|target| target.arch).collect(),
        SassPolicy::List(list) => list.clone(),
    };
    entries(wanted, |arch| {
        let failed = |why| format!("--offload-sass: machine code for {arch} cannot be made: {why}");
        let target = source(arch, targets).map_err(failed)?;
        // What was compiled for the very target needs no IR.
        if target.arch == arch { Ok(Some(arch)) } else { ir_of(target).map(Some).map_err(failed) }
    })
}

fn entries(
    mut wanted: Vec<GpuArch>,
    mut from: impl FnMut(GpuArch) -> Result<Option<GpuArch>, String>,
) -> Result<Vec<Entry>, Errors> {
    wanted.sort();
    wanted.dedup();
    let mut errors = Errors::default();
    let mut entries = Vec::new();
    for arch in wanted.into_iter().rev() {
        match from(arch) {
            Ok(from) => entries.extend(from.map(|from| Entry { arch, from })),
            Err(error) => errors.push(error),
        }
    }
    errors.or(entries)
}

/// The targets whose PTX later GPUs can use; all of them, if none is such.
fn portable(archs: &[GpuArch]) -> Vec<GpuArch> {
    let plain: Vec<GpuArch> = archs.iter().copied().filter(|arch| arch.feature == ArchFeature::Plain).collect();
    if plain.is_empty() { archs.to_vec() } else { plain }
}

/// The target to make code for `arch` of: itself, else the highest plain one below it. Code for an 'a' or 'f'
/// target may use what others lack.
fn source<'t, 'a>(arch: GpuArch, targets: &'t [TargetImages<'a>]) -> Result<&'t TargetImages<'a>, String> {
    let fits = |target: &&TargetImages<'_>| {
        target.arch == arch || (target.arch.feature == ArchFeature::Plain && target.arch.number <= arch.number)
    };
    targets.iter().filter(fits).max_by_key(|target| (target.arch == arch, target.arch)).ok_or_else(|| {
        let linked = targets.iter().map(|target| target.arch.to_string()).collect::<Vec<_>>().join(", ");
        format!(
            "the code is for {linked}, and none of these can be turned into it; compile with --offload-arch={arch} too"
        )
    })
}

/// The target, if all its code is IR.
fn ir_of(target: &TargetImages<'_>) -> Result<GpuArch, String> {
    let other: Vec<_> = target.images.iter().filter(|image| image.code != Code::Bitcode).collect();
    let Some(first) = other.first() else { return Ok(target.arch) };
    let files: Vec<&str> = other.iter().map(|image| image.origin.file.as_str()).collect();
    let count = files.len();
    Err(format!(
        "the code for {} comes as {} from {}{}; compile with -foffload-lto",
        target.arch,
        first.code.name(),
        files[..count.min(FILES_SHOWN)].join(", "),
        if count > FILES_SHOWN { format!(" and {} more", count - FILES_SHOWN) } else { String::new() }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::targets::DeviceImage;
    use crate::host::embedded_images::Origin;

    fn target(arch: &str, code: Code) -> TargetImages<'static> {
        let origin = Origin { file: "a.o".into(), offset: Some(64) };
        TargetImages {
            arch: arch.parse().unwrap(),
            images: vec![DeviceImage { origin, from_host: true, code, bytes: b"", unit: None }],
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
    fn policies() {
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
            // A target that is in no table.
            ("newest", &["sm_130", "sm_90"], "compute_130<-sm_130"),
            ("compute_130", &["sm_90"], "compute_130<-sm_90"),
        ] {
            assert_eq!(decided(policy, archs), expected, "{policy} {archs:?}");
        }
    }

    #[test]
    fn machine_code_gives_no_ptx_and_nonsense_no_policy() {
        let errors = ptx(&PtxPolicy::All, &[target("sm_90", Code::Cubin)], &[]).unwrap_err();
        assert!(format!("{errors:?}").contains("machine code from a.o; compile with -foffload-lto"), "{errors:?}");
    }

    #[test]
    fn machine_code_is_made_for_what_was_compiled_and_for_what_is_asked() {
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
            // Its code is machine code for another generation.
            ("sm_100", None),
            ("sm_75", None),
        ] {
            assert_eq!(decided(policy).ok().as_deref(), expected, "{policy}");
        }
    }
}
