//! Images for NVIDIA's GPUs, of any kind, grouped by target.

use std::collections::BTreeMap;

use llvm_passes::bitcode;
use offload_bundle::arch::GpuArch;
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::{ltoir, ptx};

use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::diag::error::Errors;
use crate::host::embedded_images::FoundImage;
use crate::kinds::error::Error;

/// Groups the images by target.
///
/// # Errors
/// Images of an unknown target or of a form that cannot be linked.
pub fn group<'a>(images: &[&'a FoundImage<'a>]) -> Result<Vec<TargetImages<'a>>, Errors> {
    let mut targets: BTreeMap<GpuArch, Vec<DeviceImage<'a>>> = BTreeMap::new();
    let mut errors = Errors::default();
    for found in images.iter().filter(|found| found.foreign.is_none()) {
        match classify(found) {
            Ok((arch, image)) => targets.entry(arch).or_default().push(image),
            Err(error) => errors.extend(error),
        }
    }
    errors.or(targets.into_iter().rev().map(|(arch, images)| TargetImages { arch, images }).collect())
}

fn classify<'a>(found: &'a FoundImage<'a>) -> Result<(GpuArch, DeviceImage<'a>), Error> {
    let (origin, image) = (&found.origin, &found.image);
    let arch = image
        .arch()
        .parse::<GpuArch>()
        .map_err(|_| Error::UnknownTarget { name: origin.to_string(), target: image.arch().to_owned() })?;
    let code = match host_object::file_kind(image.image) {
        _ if bitcode::is_bitcode(image.image) => Code::Bitcode,
        FileKind::ElfRelocatable | FileKind::ElfExecutable => Code::Cubin,
        _ if ltoir::version(image.image).is_some() => Code::LtoIr,
        _ if ptx::is_ptx(image.image) => ptx_for(arch, found)?,
        _ => return Err(Error::UnknownForm { name: origin.to_string(), arch, kind: image.image_kind }),
    };
    let unit = found.unit.as_ref();
    Ok((arch, DeviceImage { origin: origin.clone(), from_host: true, code, bytes: image.image, unit, rdc: None }))
}

/// PTX becomes machine code for its own target and for later ones.
fn ptx_for(arch: GpuArch, found: &FoundImage<'_>) -> Result<Code, Error> {
    match ptx::target(found.image.image) {
        Some(ptx_arch) if !arch.assembles_ptx_of(ptx_arch) => {
            Err(Error::PtxForOtherTarget { name: found.origin.to_string(), ptx_arch, arch })
        }
        _ => Ok(Code::Ptx),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::device_options::CUDA_TRIPLE;
    use crate::host::embedded_images::Origin;
    use offload_bundle::offload_binary::{ImageKind, OffloadImage, OffloadKinds};

    fn found<'a>(arch: &'a str, image: &'a [u8]) -> FoundImage<'a> {
        let strings = vec![("triple", CUDA_TRIPLE), ("arch", arch)];
        let (image_kind, offload_kinds) = (ImageKind::Object, OffloadKinds::CUDA);
        let image = OffloadImage { image_kind, offload_kinds, flags: 0, strings, image, image_offset: 0 };
        FoundImage::new(0, Origin { file: "a.o".into(), offset: Some(64), is_one_of_several: false }, image)
    }

    const BITCODE: &[u8] = b"BC\xc0\xde";

    #[test]
    fn targets_come_highest_first() {
        let images = ["sm_80", "sm_90", "sm_90a", "sm_80"].map(|arch| found(arch, BITCODE));
        let targets = group(&images.iter().collect::<Vec<_>>()).unwrap();
        let targets: Vec<_> = targets.iter().map(|target| (target.arch.to_string(), target.images.len())).collect();
        assert_eq!(targets, [("sm_90a".to_owned(), 1), ("sm_90".to_owned(), 1), ("sm_80".to_owned(), 2)]);
    }

    #[test]
    fn all_images_that_cannot_be_linked_are_reported_together() {
        let images = [found("sm_nonsense", BITCODE), found("sm_90", b"text")];
        let errors = group(&images.iter().collect::<Vec<_>>()).map(drop).unwrap_err().to_string();
        for word in ["sm_nonsense", "neither LLVM bitcode, nor a cubin"] {
            assert!(errors.contains(word), "{word}: {errors}");
        }
    }
}
