//! One device link per target: its images, in order. PURE: tested by tables.

use std::collections::BTreeMap;

use llvm_passes::bitcode;
use offload_bundle::arch::GpuArch;
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::OffloadKinds;

use crate::error::Errors;
use crate::images::{FoundImage, Origin};

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

/// Groups the images by target, highest target first, as clang-linker-wrapper orders them.
///
/// # Errors
/// Images of another offload kind, of an unknown target or of a form that cannot be linked.
pub fn make<'a>(images: &[FoundImage<'a>]) -> Result<Vec<TargetPlan<'a>>, Errors> {
    let mut targets: BTreeMap<GpuArch, Vec<PlannedImage<'a>>> = BTreeMap::new();
    let mut errors = Errors::default();
    for found in images {
        match classify(found) {
            Ok((arch, image)) => targets.entry(arch).or_default().push(image),
            Err(error) => errors.push(error),
        }
    }
    errors.or(targets.into_iter().rev().map(|(arch, images)| TargetPlan { arch, images }).collect())
}

fn classify<'a>(found: &FoundImage<'a>) -> Result<(GpuArch, PlannedImage<'a>), String> {
    let (origin, image) = (&found.origin, &found.image);
    if !image.offload_kinds.contains(OffloadKinds::CUDA) || !image.triple().starts_with("nvptx") {
        return Err(format!(
            "{origin}: a device image of kind {} for {}: this version links CUDA images for nvptx64-nvidia-cuda only",
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
