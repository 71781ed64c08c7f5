//! One device link per target: its images, in order. PURE: tested by tables.

use std::collections::BTreeMap;

use llvm_passes::bitcode;
use offload_bundle::arch::GpuArch;
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::OffloadKinds;

use crate::error::Errors;
use crate::images::{FoundImage, Origin};

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
}

/// Groups the images by runtime and target.
///
/// # Errors
/// Images of another offload kind, of an unknown target or of a form that cannot be linked.
pub fn make<'a>(images: &[FoundImage<'a>]) -> Result<Plan<'a>, Errors> {
    let mut plan = Plan::default();
    let mut targets: BTreeMap<GpuArch, Vec<PlannedImage<'a>>> = BTreeMap::new();
    let mut errors = Errors::default();
    for found in images {
        if is_host_openmp(found) {
            plan.add_openmp(found);
            continue;
        }
        match classify(found) {
            Ok((arch, image)) => targets.entry(arch).or_default().push(image),
            Err(error) => errors.push(error),
        }
    }
    plan.cuda = targets.into_iter().rev().map(|(arch, images)| TargetPlan { arch, images }).collect();
    errors.or(plan)
}

impl<'a> Plan<'a> {
    fn add_openmp(&mut self, found: &FoundImage<'a>) {
        let (triple, arch) = (found.image.triple(), found.image.arch());
        let image = (found.origin.clone(), found.image.image);
        match self.openmp.iter_mut().find(|target| (target.triple, target.arch) == (triple, arch)) {
            Some(target) => target.images.push(image),
            None => self.openmp.push(HostTargetPlan { triple, arch, images: vec![image] }),
        }
    }
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
        _ => {
            return Err(format!(
                "{origin}: the device image for {arch} is neither LLVM bitcode nor a cubin ({}); compile with -fgpu-rdc",
                image.image_kind
            ));
        }
    };
    Ok((arch, PlannedImage { origin: origin.clone(), code, bytes: image.image }))
}
