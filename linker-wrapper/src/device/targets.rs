//! One device link per target: its images, in order. PURE: tested by tables.

use std::collections::BTreeMap;

use llvm_passes::bitcode;
use offload_bundle::arch::GpuArch;
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::OffloadKinds;
use offload_bundle::{ltoir, ptx};

use crate::diag::error::Errors;
use crate::host::embedded_images::{FoundImage, Origin};

/// All device links of one host link.
#[derive(Debug, Clone, Default)]
pub struct Plan<'a> {
    /// CUDA targets, highest first, as clang-linker-wrapper orders them.
    pub cuda: Vec<TargetPlan<'a>>,
    /// OpenMP targets whose code is the host's own kind, in order of appearance.
    pub openmp: Vec<HostTargetPlan<'a>>,
}

/// What is linked for one OpenMP target by the host's linker.
#[derive(Debug, Clone)]
pub struct HostTargetPlan<'a> {
    /// As the images name it: "x86_64-pc-linux-gnu".
    pub triple: &'a str,
    /// As the images name it: "generic".
    pub arch: &'a str,
    /// All its images, in link order.
    pub images: Vec<(Origin, &'a [u8])>,
}

/// What is linked for one GPU target.
#[derive(Debug, Clone)]
pub struct TargetPlan<'a> {
    /// The target.
    pub arch: GpuArch,
    /// All its images, in link order.
    pub images: Vec<PlannedImage<'a>>,
}

/// One image of a target.
#[derive(Debug, Clone)]
pub struct PlannedImage<'a> {
    /// Where it came from.
    pub origin: Origin,
    /// It was found in a host file; otherwise the line gives it to the device link itself.
    pub from_host: bool,
    /// What it is.
    pub code: Code,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// The forms of device code that can be linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// LLVM bitcode, from `-foffload-lto`.
    Bitcode,
    /// A cubin.
    Cubin,
    /// PTX.
    Ptx,
    /// NVIDIA's LTO-IR.
    LtoIr,
}

impl Code {
    /// What messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Code::Bitcode => "LLVM bitcode",
            Code::Cubin => "machine code",
            Code::Ptx => "PTX",
            Code::LtoIr => "LTO-IR",
        }
    }

    /// How its files end.
    pub fn ending(self) -> &'static str {
        match self {
            Code::Bitcode => "bc",
            Code::Cubin => "cubin",
            Code::Ptx => "ptx",
            Code::LtoIr => "ltoir",
        }
    }
}

/// Groups the images by runtime and target.
///
/// # Errors
/// Images of another offload kind, of an unknown target or of a form that cannot be linked.
pub fn make<'a>(images: &[FoundImage<'a>]) -> Result<Plan<'a>, Errors> {
    let mut openmp = Vec::new();
    let mut targets: BTreeMap<GpuArch, Vec<PlannedImage<'a>>> = BTreeMap::new();
    let mut errors = Errors::default();
    for found in images {
        if is_host_openmp(found) {
            openmp.push(found);
            continue;
        }
        match classify(found) {
            Ok((arch, image)) => targets.entry(arch).or_default().push(image),
            Err(error) => errors.push(error),
        }
    }
    let cuda = targets.into_iter().rev().map(|(arch, images)| TargetPlan { arch, images }).collect();
    errors.or(Plan { cuda, openmp: group_openmp(&openmp) })
}

/// Groups OpenMP images by target. Code for the `generic` processor runs on every other of its triple and
/// so belongs to each of those targets; it is a target of its own only where there is no other.
fn group_openmp<'a>(images: &[&FoundImage<'a>]) -> Vec<HostTargetPlan<'a>> {
    let mut targets: Vec<HostTargetPlan<'a>> = Vec::new();
    for image in images.iter().map(|found| &found.image) {
        let (triple, arch) = (image.triple(), image.arch());
        let has_other = || images.iter().any(|other| other.image.triple() == triple && !is_generic(other.image.arch()));
        let known = targets.iter().any(|target| (target.triple, target.arch) == (triple, arch));
        if !known && (!is_generic(arch) || !has_other()) {
            targets.push(HostTargetPlan { triple, arch, images: Vec::new() });
        }
    }
    for target in &mut targets {
        let belongs = |found: &&&FoundImage<'a>| {
            let (triple, arch) = (found.image.triple(), found.image.arch());
            triple == target.triple && (arch == target.arch || is_generic(arch))
        };
        target.images = images.iter().filter(belongs).map(|found| (found.origin.clone(), found.image.image)).collect();
    }
    targets
}

fn is_generic(arch: &str) -> bool {
    arch.is_empty() || arch == "generic"
}

/// OpenMP code for processors of the kind this program runs on.
fn is_host_openmp(found: &FoundImage<'_>) -> bool {
    found.image.offload_kinds == OffloadKinds::OPENMP && found.image.triple().starts_with("x86_64")
}

fn classify<'a>(found: &FoundImage<'a>) -> Result<(GpuArch, PlannedImage<'a>), String> {
    let (origin, image) = (&found.origin, &found.image);
    if !image.offload_kinds.contains(OffloadKinds::CUDA) || !image.triple().starts_with("nvptx") {
        return Err(format!(
            "{origin}: a device image of kind {} for {}: this version links CUDA images for nvptx64-nvidia-cuda and OpenMP images for x86_64 only",
            image.offload_kinds,
            image.triple()
        ));
    }
    let arch = image.arch().parse::<GpuArch>().map_err(|_| {
        format!(
            "{origin}: the device image names the target '{}', which is no GPU target such as sm_90; \
             compile with --offload-arch=",
            image.arch()
        )
    })?;
    let code = match host_object::file_kind(image.image) {
        _ if bitcode::is_bitcode(image.image) => Code::Bitcode,
        FileKind::ElfRelocatable | FileKind::ElfExecutable => Code::Cubin,
        _ if ltoir::version(image.image).is_some() => Code::LtoIr,
        _ if ptx::is_ptx(image.image) => ptx_for(arch, found)?,
        _ => {
            return Err(format!(
                "{origin}: the device image for {arch} is neither LLVM bitcode, nor a cubin, nor PTX, nor LTO-IR ({}); compile with -fgpu-rdc",
                image.image_kind
            ));
        }
    };
    Ok((arch, PlannedImage { origin: origin.clone(), from_host: true, code, bytes: image.image }))
}

/// PTX becomes machine code for its own target and for later ones.
fn ptx_for(arch: GpuArch, found: &FoundImage<'_>) -> Result<Code, String> {
    match ptx::target(found.image.image) {
        Some(own) if !arch.assembles_ptx_of(own) => Err(format!(
            "{}: PTX for {own} cannot become machine code for {arch}, which the device image names; make it for {arch}",
            found.origin
        )),
        _ => Ok(Code::Ptx),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use offload_bundle::offload_binary::{ImageKind, OffloadImage};

    fn found<'a>(kinds: OffloadKinds, triple: &'a str, arch: &'a str, image: &'a [u8]) -> FoundImage<'a> {
        let strings = vec![("triple", triple), ("arch", arch)];
        let image_kind = ImageKind::Object;
        let image = OffloadImage { image_kind, offload_kinds: kinds, flags: 0, strings, image, image_offset: 0 };
        FoundImage { piece: 0, origin: Origin { file: "a.o".into(), offset: Some(64) }, image }
    }

    const BITCODE: &[u8] = b"BC\xc0\xde";
    const NVPTX: &str = "nvptx64-nvidia-cuda";
    const X86: &str = "x86_64-pc-linux-gnu";

    #[test]
    fn cuda_targets_come_highest_first() {
        let images = ["sm_80", "sm_90", "sm_90a", "sm_80"].map(|arch| found(OffloadKinds::CUDA, NVPTX, arch, BITCODE));
        let plan = make(&images).unwrap();
        let targets: Vec<_> = plan.cuda.iter().map(|target| (target.arch.to_string(), target.images.len())).collect();
        assert_eq!(targets, [("sm_90a".to_owned(), 1), ("sm_90".to_owned(), 1), ("sm_80".to_owned(), 2)]);
    }

    #[test]
    fn generic_openmp_code_joins_every_other_target_whatever_the_order() {
        for archs in [["generic", "x86-64-v2", "x86-64-v3"], ["x86-64-v2", "x86-64-v3", "generic"]] {
            let images = archs.map(|arch| found(OffloadKinds::OPENMP, X86, arch, b""));
            let plan = make(&images).unwrap();
            let targets: Vec<_> = plan.openmp.iter().map(|target| (target.arch, target.images.len())).collect();
            assert_eq!(targets, [("x86-64-v2", 2), ("x86-64-v3", 2)]);
        }
        let alone = make(&[found(OffloadKinds::OPENMP, X86, "generic", b"")]).unwrap();
        assert_eq!(alone.openmp.len(), 1);
    }

    #[test]
    fn everything_that_cannot_be_linked_is_named_at_once() {
        let images = [
            found(OffloadKinds::HIP, "amdgcn-amd-amdhsa", "gfx90a", BITCODE),
            found(OffloadKinds::CUDA, NVPTX, "sm_nonsense", BITCODE),
            found(OffloadKinds::CUDA, NVPTX, "sm_90", b"text"),
        ];
        let errors = format!("{:?}", make(&images).unwrap_err());
        for word in ["gfx", "sm_nonsense", "neither LLVM bitcode, nor a cubin"] {
            assert!(errors.contains(word) || word == "gfx" && errors.contains("kind hip"), "{word}: {errors}");
        }
    }
}
