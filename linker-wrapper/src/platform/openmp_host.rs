//! OpenMP offloading to the host's own kind of processor: one shared library per target, registered with libomptarget.

use std::ops::Range;

use llvm_passes::bitcode;
use llvm_passes::pipeline::{self, NamedBitcode, OptLevel};
use llvm_passes::registration;
use llvm_passes::session::Session;
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::{self, ImageKind, ImageToWrite, OffloadImage, OffloadKinds};

use crate::cli::device_words;
use crate::diag::error::{Errors, collect};
use crate::host::embedded_images::{FoundImage, Origin};
use crate::host::host_linker;
use crate::host::registration_object::Blobs;
use crate::machines::image_linker;
use crate::plan::link_context::LinkContext;
use crate::plan::report::{BackendReport, ImageReport, TargetReport};
use crate::platform::error::Error;
use crate::platform::interface::{Bundle, DeviceLink, Platform, Products, Setup};
use crate::sys::mapped_file::Mapped;

/// OpenMP on x86-64.
pub struct OpenMpHost;

impl Platform for OpenMpHost {
    fn kind(&self) -> &'static str {
        "openmp"
    }

    fn accepts(&self) -> &'static str {
        "OpenMP images for x86_64"
    }

    fn takes(&self, image: &OffloadImage<'_>) -> bool {
        image.offload_kinds == OffloadKinds::OPENMP && image.triple().starts_with("x86_64")
    }

    fn plan<'a>(&self, setup: &Setup<'a>) -> Result<Box<dyn DeviceLink + 'a>, Errors> {
        let relocatable = setup.request.options.relocatable;
        Ok(Box::new(HostLink { targets: group(&setup.images), relocatable }))
    }

    fn finished(&self, file: &str, content: Mapped) -> Result<Box<dyn Products>, Errors> {
        let bytes = content.bytes();
        if host_object::file_kind(bytes) != FileKind::ElfShared {
            return Err(Error::NotShared { file: file.to_owned() }.into());
        }
        Ok(Box::new(HostImages::new(vec![("x86_64-unknown-linux-gnu", "", bytes.to_vec())], false)))
    }
}

/// The device links of all targets.
struct HostLink<'a> {
    /// In order of appearance.
    targets: Vec<HostTarget<'a>>,
    relocatable: bool,
}

/// What the host linker links for one target.
#[derive(Debug, Clone)]
struct HostTarget<'a> {
    /// The triple, as the images spell it: "x86_64-pc-linux-gnu".
    triple: &'a str,
    /// The processor, as the images spell it: "generic".
    arch: &'a str,
    /// The images, in link order.
    images: Vec<(&'a Origin, &'a [u8])>,
}

impl DeviceLink for HostLink<'_> {
    fn warnings(&self) -> &[String] {
        &[]
    }

    fn triples(&self) -> Vec<&str> {
        self.targets.iter().map(|target| target.triple).collect()
    }

    fn link<'p>(&'p self, context: &LinkContext<'p>) -> Result<Box<dyn Products + 'p>, Errors> {
        context.plan.add(|| self.targets.iter().map(|target| target.report(context)).collect())?;
        let images = collect(self.targets.iter().map(|target| target.link(context)))?;
        let linked = self.targets.iter().zip(images).map(|(target, image)| (target.triple, target.arch, image));
        Ok(Box::new(HostImages::new(linked.collect(), self.relocatable)))
    }
}

/// All images as offload binaries, with the place of each image in the concatenation of these.
struct HostImages {
    /// One offload binary per image.
    blobs: Vec<Vec<u8>>,
    /// The range of each image in the concatenated blobs.
    images: Vec<Range<u64>>,
    relocatable: bool,
}

impl HostImages {
    /// Bundles finished images: triple, architecture and bytes of each.
    fn new(images: Vec<(&str, &str, Vec<u8>)>, relocatable: bool) -> Self {
        let mut bundle = HostImages { blobs: Vec::new(), images: Vec::new(), relocatable };
        let mut start = 0;
        for (triple, arch, image) in images {
            let blob = blob(triple, arch, &image);
            let found = offload_binary::read_all(&blob).ok().and_then(|found| Some(found.first()?.image_offset));
            let begin = start + found.unwrap_or(0);
            bundle.images.push(begin..begin + image.len() as u64);
            start += blob.len() as u64;
            bundle.blobs.push(blob);
        }
        bundle
    }
}

impl Products for HostImages {
    fn bundle<'p>(&'p self, _context: &LinkContext<'_>) -> Result<Bundle<'p>, Errors> {
        Ok(Bundle {
            image: Box::new(Blobs::borrowed(&self.blobs)),
            registration: Box::new(registration::OpenMp { images: &self.images, relocatable: self.relocatable }),
            section: None,
            kept_as: None,
            report: None,
        })
    }
}

/// Groups the images by target. Code for the `generic` processor runs on every processor of its triple, so it is added to all
/// targets of that triple; it is a target of its own only if there is no other.
fn group<'a>(images: &[&'a FoundImage<'a>]) -> Vec<HostTarget<'a>> {
    let mut targets: Vec<HostTarget<'a>> = Vec::new();
    for image in images.iter().map(|found| &found.image) {
        let (triple, arch) = (image.triple(), image.arch());
        let has_other = || images.iter().any(|other| other.image.triple() == triple && !is_generic(other.image.arch()));
        let known = targets.iter().any(|target| (target.triple, target.arch) == (triple, arch));
        if !known && (!is_generic(arch) || !has_other()) {
            targets.push(HostTarget { triple, arch, images: Vec::new() });
        }
    }
    for target in &mut targets {
        let belongs = |found: &&&'a FoundImage<'a>| {
            let (triple, arch) = (found.image.triple(), found.image.arch());
            triple == target.triple && (arch == target.arch || is_generic(arch))
        };
        target.images = images.iter().filter(belongs).map(|found| (&found.origin, found.image.image)).collect();
    }
    targets
}

fn is_generic(arch: &str) -> bool {
    arch.is_empty() || arch == "generic"
}

impl HostTarget<'_> {
    /// Describes the device link for `--offload-plan`.
    fn report(&self, context: &LinkContext<'_>) -> TargetReport {
        let image = |(origin, bytes): &(&Origin, &[u8])| ImageReport {
            file: origin.file.clone(),
            offset: origin.offset,
            code: if bitcode::is_bitcode(bytes) { "LLVM bitcode" } else { "machine code" },
        };
        let backend = context.host_linker().ok().map(|linker| BackendReport {
            name: "host linker",
            file: linker.display().to_string(),
            reason: "the code is for the host's own kind of processor".to_owned(),
        });
        TargetReport {
            platform: "openmp",
            target: format!("{} {}", self.triple, self.arch),
            images: self.images.iter().map(image).collect(),
            backend,
            ..TargetReport::default()
        }
    }

    fn link(&self, context: &LinkContext<'_>) -> Result<Vec<u8>, Errors> {
        let (temp_files, options) = (context.temp_files, context.request.options);
        let stem = format!("{}.{}", self.triple.split('-').next().unwrap_or(self.triple), self.arch);
        let objects = self.images.iter().enumerate().filter(|(_, (_, bytes))| !bitcode::is_bitcode(bytes));
        let write =
            |(index, (_, bytes)): (usize, &(_, &[u8]))| temp_files.write(&format!("{stem}.input.{index}.o"), bytes);
        let mut inputs = collect(objects.map(write))?;
        if let Some(object) = self.link_bitcode(device_words::level_for(options, self.triple))? {
            inputs.push(temp_files.write(&format!("{stem}.lto.o"), &object)?);
        }
        let words = options.device_linker.iter();
        let own = words.filter(|(triple, _)| triple.as_deref().is_none_or(|triple| triple == self.triple));
        let arguments: Vec<String> = own.map(|(_, value)| value.clone()).collect();
        let output = temp_files.file(&format!("{stem}.img"));
        let line = image_linker::line(&inputs, &output, &options.host_line, &arguments);
        let short = host_linker::shortened(&line, &stem, temp_files)?;
        image_linker::link_shared(context.host_linker()?, self.triple, &inputs, &short, &output, context.request.mode)
    }

    /// Optimizes all bitcode images (`-foffload-lto`) together and compiles them to one object, because not every host linker supports
    /// LTO.
    fn link_bitcode(&self, level: OptLevel) -> Result<Option<Vec<u8>>, Errors> {
        let images = self.images.iter().filter(|(_, bytes)| bitcode::is_bitcode(bytes));
        let images: Vec<(String, &[u8])> = images.map(|(origin, bytes)| (origin.to_string(), *bytes)).collect();
        if images.is_empty() {
            return Ok(None);
        }
        let units: Vec<NamedBitcode<'_>> =
            images.iter().map(|(name, bitcode)| NamedBitcode { name, bitcode }).collect();
        let session = Session::new();
        let modules = pipeline::read_units(&session, &units).map_err(Errors::from_iter)?;
        let merged = pipeline::merge(&session, modules, &units)?;
        Ok(Some(pipeline::host_object(&session, &merged, self.triple, level)?))
    }
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
            let targets: Vec<_> = targets.iter().map(|target| (target.arch, target.images.len())).collect();
            assert_eq!(targets, [("x86-64-v2", 2), ("x86-64-v3", 2)]);
        }
        assert_eq!(group(&[&found("generic")]).len(), 1);
    }
}
