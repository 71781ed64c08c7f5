//! OpenMP: one image for each target, registered with libomptarget, which loads those that a device of its can run. Processors of the host are
//! devices, too: their images are shared libraries.

use std::ops::Range;

use llvm_passes::registration;
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::{self, ImageKind, ImageToWrite, OffloadImage, OffloadKinds};

use crate::device::targets::DeviceImage;
use crate::diag::error::Errors;
use crate::host::embedded_images::FoundImage;
use crate::host::registration_object::Blobs;
use crate::kinds::error::Error;
use crate::kinds::interface::{Bundle, DeviceLink, Kind, Products, Setup};
use crate::lto::device_link as lto;
use crate::lto::result_cache::ResultCache;
use crate::machines::host::target::{Host, HostArch, HostImages};
use crate::plan::link_context::LinkContext;
use crate::sys::mapped_file::Mapped;

/// The name of the kind.
const NAME: &str = "openmp";

/// OpenMP.
pub struct OpenMp;

impl Kind for OpenMp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn accepts(&self) -> &'static str {
        "OpenMP images for x86_64"
    }

    fn takes(&self, image: &OffloadImage<'_>) -> bool {
        image.offload_kinds == OffloadKinds::OPENMP && image.triple().starts_with("x86_64")
    }

    fn plan<'a>(&self, setup: &Setup<'a>) -> Result<Box<dyn DeviceLink + 'a>, Errors> {
        let relocatable = setup.request.options.relocatable;
        Ok(Box::new(OpenMpLink { targets: group(&setup.images), relocatable }))
    }

    fn finished(&self, file: &str, content: Mapped) -> Result<Box<dyn Products>, Errors> {
        let bytes = content.bytes();
        if host_object::file_kind(bytes) != FileKind::ElfShared {
            return Err(Error::NotShared { file: file.to_owned() }.into());
        }
        Ok(Box::new(Images::new([("x86_64-unknown-linux-gnu", "", bytes)].into_iter(), false)))
    }
}

/// The device links of all targets.
struct OpenMpLink<'a> {
    /// In order of appearance.
    targets: Vec<HostImages<'a>>,
    relocatable: bool,
}

impl DeviceLink for OpenMpLink<'_> {
    fn triples(&self) -> Vec<&str> {
        self.targets.iter().map(|target| &*target.arch.triple).collect()
    }

    fn link<'p>(&'p self, context: &LinkContext<'p>) -> Result<Box<dyn Products + 'p>, Errors> {
        let machine = Host { link: context };
        let link = lto::DeviceLink {
            kind: NAME,
            machine: &machine,
            targets: &self.targets,
            others: lto::Others::default(),
            link: context,
            // The host linker's libraries are part of the images.
            result_cache: &ResultCache::default(),
        };
        let linked = link.link()?;
        let images = self.targets.iter().zip(&linked);
        let images = images.map(|(target, linked)| {
            let HostArch { triple, processor } = &target.arch;
            (&**triple, &**processor, &*linked.code.bytes)
        });
        Ok(Box::new(Images::new(images, self.relocatable)))
    }
}

/// All images as offload binaries, with the place of each image in the concatenation of these.
struct Images {
    /// One offload binary per image.
    blobs: Vec<Vec<u8>>,
    /// The range of each image in the concatenated blobs.
    images: Vec<Range<u64>>,
    relocatable: bool,
}

impl Images {
    /// Bundles finished images: triple, architecture and bytes of each.
    fn new<'i>(images: impl Iterator<Item = (&'i str, &'i str, &'i [u8])>, relocatable: bool) -> Self {
        let mut bundle = Images { blobs: Vec::new(), images: Vec::new(), relocatable };
        let mut start = 0;
        for (triple, arch, image) in images {
            let blob = blob(triple, arch, image);
            let found = offload_binary::read_all(&blob).ok().and_then(|found| Some(found.first()?.image_offset));
            let begin = start + found.unwrap_or(0);
            bundle.images.push(begin..begin + image.len() as u64);
            start += blob.len() as u64;
            bundle.blobs.push(blob);
        }
        bundle
    }
}

impl Products for Images {
    fn bundle<'p>(&'p self, _context: &LinkContext<'_>) -> Result<Bundle<'p>, Errors> {
        Ok(Bundle {
            image: Box::new(Blobs::borrowed(&self.blobs)),
            registration: Box::new(registration::OpenMp { images: &self.images, relocatable: self.relocatable }),
            section: None,
            saved_as: None,
            report: None,
        })
    }
}

/// Groups the images by target. Code for the `generic` processor runs on every processor of its triple, so it is added to all
/// targets of that triple; it is a target of its own only if there is no other.
fn group<'a>(images: &[&'a FoundImage<'a>]) -> Vec<HostImages<'a>> {
    let mut targets: Vec<HostImages<'a>> = Vec::new();
    for image in images.iter().map(|found| &found.image) {
        let (triple, processor) = (image.triple(), image.arch());
        let has_other = || images.iter().any(|other| other.image.triple() == triple && !is_generic(other.image.arch()));
        let known = targets.iter().any(|target| (&*target.arch.triple, &*target.arch.processor) == (triple, processor));
        if !known && (!is_generic(processor) || !has_other()) {
            let arch = HostArch { triple: triple.to_owned(), processor: processor.to_owned() };
            targets.push(HostImages { arch, images: Vec::new() });
        }
    }
    for HostImages { arch: HostArch { triple, processor }, images: own } in &mut targets {
        let belongs = |found: &&&'a FoundImage<'a>| {
            let image = &found.image;
            image.triple() == *triple && (image.arch() == *processor || is_generic(image.arch()))
        };
        *own = images.iter().filter(belongs).map(|found| DeviceImage::from_host(found)).collect();
    }
    targets
}

fn is_generic(processor: &str) -> bool {
    processor.is_empty() || processor == "generic"
}

fn blob(triple: &str, arch: &str, image: &[u8]) -> Vec<u8> {
    // As clang-linker-wrapper writes it.
    let arch = if arch == "generic" { "" } else { arch };
    offload_binary::write(&ImageToWrite {
        image_kind: ImageKind::Object,
        offload_kinds: OffloadKinds::OPENMP,
        flags: 0,
        strings: vec![("arch", arch), ("triple", triple)],
        image,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::embedded_images::Origin;

    fn found(arch: &str) -> FoundImage<'_> {
        let strings = vec![("triple", "x86_64-pc-linux-gnu"), ("arch", arch)];
        let (image_kind, offload_kinds) = (ImageKind::Object, OffloadKinds::OPENMP);
        let image = OffloadImage { image_kind, offload_kinds, flags: 0, strings, image: b"", image_offset: 0 };
        FoundImage::new(0, Origin { file: "a.o".into(), offset: Some(64), is_one_of_several: false }, image)
    }

    #[test]
    fn generic_code_joins_every_other_target_whatever_the_order() {
        for archs in [["generic", "x86-64-v2", "x86-64-v3"], ["x86-64-v2", "x86-64-v3", "generic"]] {
            let images = archs.map(found);
            let targets = group(&images.iter().collect::<Vec<_>>());
            let targets: Vec<_> = targets.iter().map(|target| (&*target.arch.processor, target.images.len())).collect();
            assert_eq!(targets, [("x86-64-v2", 2), ("x86-64-v3", 2)]);
        }
        assert_eq!(group(&[&found("generic")]).len(), 1);
    }
}
