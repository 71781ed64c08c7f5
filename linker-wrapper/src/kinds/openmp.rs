//! OpenMP: one image for each target, registered with libomptarget, which loads those that a device of its can run. Processors of the host are
//! devices, too: their images are shared libraries.

use std::ops::Range;

use llvm_passes::registration;
use object::Object;
use offload_bundle::audit::ReadImages;
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::{self, ImageKind, ImageToWrite, OffloadImage, OffloadKinds};

use crate::cli::device_options::CUDA_TRIPLE;
use crate::cli::host_triple;
use crate::cli::options::Options;
use crate::device::device_files::{self, LineTargets};
use crate::device::targets::{DeviceImage, TargetImages};
use crate::diag::error::{Errors, both};
use crate::host::embedded_images::FoundImage;
use crate::host::registration_object::Blobs;
use crate::kinds::amdgcn_code::{AmdCode, AmdTarget};
use crate::kinds::error::Error;
use crate::kinds::interface::{Bundle, DeviceLink, Kind, Products, Setup};
use crate::kinds::nvptx_code::NvptxCode;
use crate::kinds::nvptx_targets;
use crate::lto::device_link as lto;
use crate::lto::products::LinkedTarget;
use crate::lto::result_cache::ResultCache;
use crate::machines::amdgcn::target::CodeObject;
use crate::machines::host::target::{Host, HostArch, HostCode, HostImages};
use crate::machines::nvptx::image_policy::{Entry, ImageEntries};
use crate::plan::link_context::{LinkContext, Request};
use crate::sys::mapped_file::Mapped;
use crate::sys::threads;

/// The name of the kind.
const NAME: &str = "openmp";

/// What triples of NVIDIA's GPUs and AMD's GPUs begin with.
const NVPTX: &str = "nvptx";
const AMDGCN: &str = "amdgcn";

/// OpenMP.
pub struct OpenMp;

impl Kind for OpenMp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn accepts(&self) -> &'static str {
        "OpenMP images for amdgcn-amd-amdhsa, nvptx64-nvidia-cuda, x86_64 or aarch64"
    }

    fn takes(&self, image: &OffloadImage<'_>) -> bool {
        let is_gpu = [NVPTX, AMDGCN].iter().any(|machine| image.triple().starts_with(machine));
        image.offload_kinds == OffloadKinds::OPENMP && (is_gpu || host_triple::of_triple(image.triple()).is_some())
    }

    fn line_targets(&self, images: &[FoundImage<'_>], _options: &Options) -> LineTargets {
        let nvptx = device_files::archs_of(images, OffloadKinds::OPENMP);
        nvptx.into_iter().chain(device_files::amd_targets_of(images, OffloadKinds::OPENMP)).collect()
    }

    fn plan<'a>(&self, setup: &Setup<'a>) -> Result<Box<dyn DeviceLink + 'a>, Errors> {
        let of = |machine: &str| -> Vec<&'a FoundImage<'a>> {
            setup.images.iter().copied().filter(|found| found.image.triple().starts_with(machine)).collect()
        };
        let of_host = |found: &&FoundImage<'_>| host_triple::of_triple(found.image.triple()).is_some();
        let host: Vec<_> = setup.images.iter().copied().filter(of_host).collect();
        let Request { options, device, .. } = setup.request;
        if options.require.is_some() {
            return Err(Error::RequireOther { what: "images of OpenMP" }.into());
        }
        let nvptx = nvptx_targets::group(&of(NVPTX)).and_then(|targets| setup.line_code.add_to(targets, &device.roots));
        let amd = of(AMDGCN);
        let amd = if amd.is_empty() { Ok(AmdCode::default()) } else { AmdCode::plan(&amd, setup) };
        let ((nvptx, mut warnings), amd) = both(nvptx, amd)?;
        warnings.extend_from_slice(&amd.warnings);
        let sass = nvptx.iter().map(|target| Entry { arch: target.arch, from: target.arch }).collect();
        let entries = ImageEntries { sass, ptx: Vec::new() };
        let relocatable = options.relocatable;
        Ok(Box::new(OpenMpLink { host: group(&host), nvptx, entries, amd, warnings, relocatable }))
    }

    fn finished(&self, file: &str, content: Mapped) -> Result<Box<dyn Products>, Errors> {
        let bytes = content.bytes();
        let is_shared = host_object::file_kind(bytes) == FileKind::ElfShared;
        let architecture = object::File::parse(bytes).ok().map(|file| file.architecture()).filter(|_| is_shared);
        let Some(host) = architecture.and_then(host_triple::of_architecture) else {
            return Err(Error::NotShared { file: file.to_owned() }.into());
        };
        let image = (format!("{}-unknown-linux-gnu", host.name), String::new(), bytes.to_vec());
        Ok(Box::new(Images::new(&[image], false, None)))
    }
}

/// The device links of all targets.
struct OpenMpLink<'a> {
    /// Processors of the host, in order of appearance.
    host: Vec<HostImages<'a>>,
    /// NVIDIA's GPUs.
    nvptx: Vec<TargetImages<'a>>,
    /// The machine code for these. No device takes PTX.
    entries: ImageEntries,
    /// AMD's GPUs.
    amd: AmdCode<'a>,
    warnings: Vec<String>,
    relocatable: bool,
}

/// Triple, processor and bytes of a linked image.
type LinkedImage = (String, String, Vec<u8>);

/// Numbers of cache hits and misses, if a cache was used.
type CacheCounts = Option<(u64, u64)>;

impl DeviceLink for OpenMpLink<'_> {
    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn triples(&self) -> Vec<&str> {
        let host = self.host.iter().map(|target| &*target.arch.triple);
        let nvptx = self.nvptx.iter().map(|_| CUDA_TRIPLE);
        host.chain(nvptx).chain(self.amd.targets.iter().map(|target| target.triple)).collect()
    }

    fn plans(&self) -> usize {
        let machines = [self.host.is_empty(), self.nvptx.is_empty(), self.amd.targets.is_empty()];
        machines.iter().filter(|is_unused| !**is_unused).count()
    }

    fn link<'p>(&'p self, context: &LinkContext<'p>) -> Result<Box<dyn Products + 'p>, Errors> {
        let gpus = || threads::join(|| self.link_nvptx(context), || self.link_amd(context));
        let (host, (nvptx, amd)) = threads::join(|| self.link_host(context), gpus);
        let (mut images, ((nvptx, counts), (amd, more))) = both(host, both(nvptx, amd))?;
        images.extend(nvptx.into_iter().chain(amd));
        let counts = counts.zip(more).map(|(one, other)| (one.0 + other.0, one.1 + other.1)).or(counts).or(more);
        Ok(Box::new(Images::new(&images, self.relocatable, counts)))
    }
}

impl OpenMpLink<'_> {
    fn link_host(&self, context: &LinkContext<'_>) -> Result<Vec<LinkedImage>, Errors> {
        if self.host.is_empty() {
            return Ok(Vec::new());
        }
        let program = &context.host_code.triple;
        let is_other = |triple: &str| host_triple::of_triple(triple) != host_triple::of_triple(program);
        if let Some(other) = self.host.iter().map(|target| &target.arch.triple).find(|triple| is_other(triple)) {
            return Err(Error::OtherHost { triple: other.clone(), program: program.clone() }.into());
        }
        let machine = Host { link: context };
        let link = lto::DeviceLink {
            kind: NAME,
            folds_kernels: false,
            machine: &machine,
            targets: &self.host,
            others: lto::Others::default(),
            link: context,
            // The host linker's libraries are part of the images.
            result_cache: &ResultCache::default(),
        };
        let linked = self.host.iter().zip(link.link()?);
        let image = |(target, linked): (&HostImages<'_>, LinkedTarget<HostCode>)| {
            let HostArch { triple, processor } = &target.arch;
            (triple.clone(), processor.clone(), linked.code.bytes)
        };
        Ok(linked.map(image).collect())
    }

    /// Returns also the numbers of cache hits and misses.
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not general enough in its lifetimes")]
    fn link_nvptx(&self, context: &LinkContext<'_>) -> Result<(Vec<LinkedImage>, CacheCounts), Errors> {
        if self.nvptx.is_empty() {
            return Ok((Vec::new(), None));
        }
        let code = NvptxCode {
            kind: NAME,
            targets: &self.nvptx,
            entries: &self.entries,
            folds_kernels: false,
            looks_up: plugin_looks_up,
        };
        let (linked, result_cache, _) = code.with_tools(context, |link| link.link())?;
        result_cache.store_targets(&linked, false);
        result_cache.finish(context.request);
        let images = linked.into_iter().flat_map(|target| target.code.sass);
        let images = images.map(|(arch, cubin)| (CUDA_TRIPLE.to_owned(), arch.to_string(), cubin));
        Ok((images.collect(), result_cache.counts()))
    }

    /// As [`OpenMpLink::link_nvptx`].
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not general enough in its lifetimes")]
    fn link_amd(&self, context: &LinkContext<'_>) -> Result<(Vec<LinkedImage>, CacheCounts), Errors> {
        if self.amd.targets.is_empty() {
            return Ok((Vec::new(), None));
        }
        let (linked, result_cache) = self.amd.with_cache(NAME, false, context, |link| link.link())?;
        result_cache.store_targets(&linked, false);
        result_cache.finish(context.request);
        let linked = self.amd.targets.iter().zip(linked);
        let image = |(target, linked): (&AmdTarget<'_>, LinkedTarget<CodeObject>)| {
            (target.triple.to_owned(), target.link.arch.name.clone(), linked.code.bytes)
        };
        Ok((linked.map(image).collect(), result_cache.counts()))
    }
}

/// Whether libomptarget's plug-in for NVIDIA's GPUs looks up a name in an image: environments of the device and of kernels, constructors,
/// and tables of LLVM's own runtimes (LLVM's sources, offload/plugins-nextgen).
fn plugin_looks_up(name: &str) -> bool {
    const NAMES: [&str; 2] = ["__omp_rtl_device_environment", "__llvm_rpc_client"];
    const PREFIXES: [&str; 4] = ["__omp_offloading_", "__init_array_", "__fini_array_", "nvptx$device$"];
    const SUFFIXES: [&str; 2] = ["_kernel_environment", "_dynamic_environment"];
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// All images as offload binaries, with the place of each image in the concatenation of these.
struct Images {
    /// One offload binary per image.
    blobs: Vec<Vec<u8>>,
    /// The range of each image in the concatenated blobs.
    images: Vec<Range<u64>>,
    relocatable: bool,
    cache_counts: CacheCounts,
}

impl Images {
    /// Bundles finished images.
    fn new(images: &[LinkedImage], relocatable: bool, cache_counts: CacheCounts) -> Self {
        let mut bundle = Images { blobs: Vec::new(), images: Vec::new(), relocatable, cache_counts };
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
            read: ReadImages::default(),
        })
    }

    fn cache_counts(&self) -> Option<(u64, u64)> {
        self.cache_counts
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
