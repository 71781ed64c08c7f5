//! CUDA on nvptx64: the device code of all GPU targets becomes machine code and PTX in one fatbin, which the program registers with
//! the CUDA runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use llvm_passes::bitcode;
use llvm_passes::registration::{self, ClangUnits, CudaFolded, CudaPrelinked, CudaUnits, Registration};
use offload_bundle::arch::GpuArch;
use offload_bundle::fatbin::FatbinWriter;
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::{OffloadImage, OffloadKinds};
use offload_bundle::{cubin, ltoir, ptx};

use crate::cli::device_options::CUDA_TRIPLE;
use crate::cli::options::Options;
use crate::cli::values::{KernelFolding, Part, PtxPolicy};
use crate::codegen::Backends;
use crate::device::recorded_ptx_flags::RecordedFlags;
use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::device::{cudadevrt, device_files, rdc_targets, recorded_ptx_flags};
use crate::diag::error::{Errors, both};
use crate::diag::messages;
use crate::host::embedded_images::FoundImage;
use crate::host::registration_object;
use crate::image::compression;
use crate::image::fatbin::{self, Parts};
use crate::image::replay::{self, Making};
use crate::image::report::{ImageReport, Linked};
use crate::lto::context::LtoContext;
use crate::lto::cuda_libraries::CudaLibraries;
use crate::lto::device_link;
use crate::lto::distribution::Distribution;
use crate::lto::products::LinkedTarget;
use crate::lto::result_cache::ResultCache;
use crate::plan::backend::BackendDecision;
use crate::plan::image_policy::{self, ImageEntries};
use crate::plan::link_context::{LinkContext, Request};
use crate::platform::error::Error;
use crate::platform::interface::{Bundle, DeviceLink, Platform, Products, Setup};
use crate::platform::relocatable_link;
use crate::profile::span;
use crate::sys::mapped_file::Mapped;
use crate::sys::memory::estimates::Estimates;
use crate::sys::stamp::Stamp;
use crate::toolchain::Toolchain;

/// CUDA on nvptx64.
pub struct Cuda;

impl Platform for Cuda {
    fn kind(&self) -> &'static str {
        "cuda"
    }

    fn accepts(&self) -> &'static str {
        "CUDA images for nvptx64-nvidia-cuda"
    }

    fn takes(&self, image: &OffloadImage<'_>) -> bool {
        image.offload_kinds.contains(OffloadKinds::CUDA) && image.triple().starts_with("nvptx")
    }

    fn line_targets(&self, images: &[FoundImage<'_>], options: &Options) -> BTreeSet<GpuArch> {
        device_files::archs_of(images).into_iter().chain(rdc_targets::archs_of(images, &options.sass_policy)).collect()
    }

    fn plan<'a>(&self, setup: &Setup<'a>) -> Result<Box<dyn DeviceLink + 'a>, Errors> {
        Ok(Box::new(CudaLink::plan(setup)?))
    }

    fn finished(&self, file: &str, content: Mapped) -> Result<Box<dyn Products>, Errors> {
        let arch = cubin::parse(content.bytes()).map(|cubin| cubin.arch());
        let arch = arch.map_err(|source| Error::NotCubin { file: file.to_owned(), source })?;
        Ok(Box::new(FinishedCubin { arch, content }))
    }
}

/// The device links of all GPU targets.
struct CudaLink<'a> {
    /// Highest first, as clang-linker-wrapper orders them.
    targets: Vec<TargetImages<'a>>,
    /// The entries of the fatbin.
    entries: ImageEntries,
    /// The PTX flags that the files record, or those of the link line.
    flags: Vec<RecordedFlags>,
    /// The ids of nvcc's units that the link has to register.
    ids: Vec<String>,
    /// Their fatbins.
    fatbins: Vec<&'a [u8]>,
    /// Whether units of nvcc are linked.
    has_units: bool,
    /// Whether the host program launches kernels in place of others.
    folds_all: bool,
    /// Whether units of clang are linked.
    has_clang: bool,
    /// The id of the result, if it is relocatable.
    prelinked_id: Option<String>,
    warnings: Vec<String>,
}

impl<'a> CudaLink<'a> {
    fn plan(setup: &Setup<'a>) -> Result<Self, Errors> {
        let Request { options, device, .. } = setup.request;
        let units = rdc_targets::units(&setup.images);
        let linked = rdc_targets::with_code(&units)?;
        let targets = group(&setup.images)?;
        let (targets, left_out) = rdc_targets::add_to(targets, &linked, &options.sass_policy, device.lto)?;
        let (targets, mut warnings) = setup.line_code.add_to(targets, &device.roots)?;
        warnings.extend(left_out);
        warnings.extend(device.unknown.iter().map(|word| format!("{word} has no effect on this device link")));
        let flags = match options.ptx_policy {
            PtxPolicy::Line => recorded_ptx_flags::of_link_line(&options.include_ptx),
            _ => recorded_ptx_flags::read(setup.inputs, &setup.images),
        };
        let sass = image_policy::sass(&options.sass_policy, &targets);
        let (sass, (mut ptx, notes)) = both(sass, image_policy::ptx(&options.ptx_policy, &targets, &flags))?;
        warnings.extend(notes);
        let implied = image_policy::implied_ptx(&options.ptx_policy, &targets, &ptx);
        ptx.extend(implied);
        // Without machine code in the image, the driver links the PTX of nvcc's units at run time.
        let has_own_ptx = !units.is_empty() && units.iter().all(|(_, rdc)| rdc.has_ptx());
        if sass.is_empty() && ptx.is_empty() && !has_own_ptx {
            return Err(Error::EmptyImage.into());
        }
        if device.relocatable {
            relocatable_link::require(setup, &sass, &ptx)?;
        }
        let prelinked_id = device.relocatable.then(|| relocatable_link::id(units.iter().map(|(_, rdc)| rdc.id)));
        let registered = || units.iter().filter(|(_, rdc)| rdc.is_registered);
        let ids = registered().map(|(_, rdc)| rdc.id.to_owned()).collect();
        let fatbins = registered().map(|(found, _)| found.image.image).collect();
        let (has_units, has_clang) = (!units.is_empty(), setup.images.len() > units.len());
        Ok(CudaLink {
            targets,
            entries: ImageEntries { sass, ptx, ptx_is_implied: implied.is_some() },
            flags,
            ids,
            fatbins,
            has_units,
            folds_all: options.kernel_folding == KernelFolding::All,
            has_clang,
            prelinked_id,
            warnings,
        })
    }

    fn run(&self, context: &LinkContext<'_>) -> Result<CudaProducts<'_>, Errors> {
        let Request { options, device, mode, .. } = context.request;
        let cuda_path = options.cuda_path.as_deref().or(device.cuda_path.as_deref());
        let toolchain = Toolchain::find(cuda_path, &options.parts);
        let backends = Backends::new(&toolchain, context);
        let library = cudadevrt::path(options, &toolchain);
        let parts = [Part::Ptxas, Part::Nvlink, Part::Libdevice].map(|part| toolchain.path(part));
        let stamps = parts.iter().chain([&library]).flatten().filter_map(|path| Stamp::of(path).ok());
        let result_cache = ResultCache::open(context, stamps.collect())?;
        let linked = std::thread::scope(|scope| {
            // ptxas takes 2 ms to print its version: run it while LLVM reads and optimizes. If no thread can be started, it runs
            // when it is needed.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || backends.probe_early());
            let lto = LtoContext {
                link: context,
                backends: &backends,
                libraries: &CudaLibraries::new(toolchain.path(Part::Libdevice), library.clone()),
                entries: &self.entries,
                result_cache: &result_cache,
                estimates: &Estimates::default(),
                distribution: &Distribution::default(),
                only_folded: None,
            };
            device_link::link(&self.targets, &lto)
        });
        if mode.show {
            // Printed as shell comments, so that the output can be pasted into a shell.
            backends.decisions().iter().for_each(|choice| messages::show(format_args!(" # {choice}")));
        }
        let cached = result_cache.finish(context.request);
        // If a tool or library was replaced during the link, that may be the cause of the other errors: it comes first.
        let ((), linked) = both(result_cache.check_tools(), linked)?;
        let clang_ptx = OnceLock::new();
        Ok(CudaProducts { plan: self, linked, choices: backends.decisions(), cached, clang_ptx })
    }
}

impl DeviceLink for CudaLink<'_> {
    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn triples(&self) -> Vec<&str> {
        vec![CUDA_TRIPLE]
    }

    fn early_registration(&self) -> Option<&'static dyn Registration> {
        // That of nvcc's units depends on the PTX.
        // and that of folded kernels on which there are.
        (!self.has_units && !self.folds_all).then_some(&registration::Cuda)
    }

    fn link<'p>(&'p self, context: &LinkContext<'_>) -> Result<Box<dyn Products + 'p>, Errors> {
        Ok(Box::new(self.run(context)?))
    }

    fn diagnose(&self, context: &LinkContext<'_>) -> Result<(), Errors> {
        self.run(context).map(drop)
    }
}

/// The machine code and PTX of all targets.
struct CudaProducts<'p> {
    plan: &'p CudaLink<'p>,
    linked: Vec<LinkedTarget>,
    choices: Vec<BackendDecision>,
    cached: Option<(u64, u64)>,
    /// A fatbin with the PTX of clang's units, if it goes beside the PTX of nvcc's units instead of into the image.
    clang_ptx: OnceLock<Vec<u8>>,
}

impl Products for CudaProducts<'_> {
    fn bundle<'p>(&'p self, context: &LinkContext<'_>) -> Result<Bundle<'p>, Errors> {
        let CudaLink {
            targets,
            entries: ImageEntries { sass, ptx, .. },
            flags,
            ids,
            fatbins,
            has_units,
            has_clang,
            ..
        } = self.plan;
        let linked = Linked { targets, sass, ptx, flags, choices: &self.choices, prelinked: fatbins };
        let mut parts = Parts::of_targets(&self.linked);
        if let Some(id) = &self.plan.prelinked_id {
            return bundle(&parts, linked, context, Box::new(CudaPrelinked { id }));
        }
        if !has_units {
            // Equal for all targets, as far as they have code.
            let folded = self.linked.iter().map(|target| &target.folded).find(|folded| !folded.is_empty());
            return match folded {
                Some(folded) => bundle(&parts, linked, context, Box::new(CudaFolded { folded })),
                None => bundle(&parts, linked, context, Box::new(registration::Cuda)),
            };
        }
        let mut clang = ClangUnits::None;
        if *has_clang {
            let ptx = parts.take_ptx();
            let written = (!ptx.is_empty()).then(|| fatbin_of(&ptx, context)).transpose()?;
            let ptx = written.map(|fatbin| &**self.clang_ptx.get_or_init(|| fatbin.finish()));
            clang = ClangUnits::Linked { ptx };
        }
        let ClangUnits::Linked { ptx: Some(ptx) } = clang else {
            return bundle(&parts, linked, context, Box::new(CudaUnits { ids, clang }));
        };
        let prelinked = [&fatbins[..], &[ptx]].concat();
        let linked = Linked { prelinked: &prelinked, ..linked };
        bundle(&parts, linked, context, Box::new(CudaUnits { ids, clang }))
    }

    fn cache_counts(&self) -> Option<(u64, u64)> {
        self.cached
    }
}

/// The cubin of `--override-image=`. It stays mapped, since it may be large.
struct FinishedCubin {
    arch: GpuArch,
    content: Mapped,
}

impl Products for FinishedCubin {
    fn bundle<'p>(&'p self, context: &LinkContext<'_>) -> Result<Bundle<'p>, Errors> {
        let parts = Parts::of_cubin(self.arch, self.content.bytes());
        bundle(&parts, Linked::default(), context, Box::new(registration::Cuda))
    }
}

/// Bundles these parts into a fatbin, and validates it as a driver would.
fn bundle<'p>(
    parts: &Parts<'p>,
    linked: Linked<'_>,
    context: &LinkContext<'_>,
    registration: Box<dyn Registration + 'p>,
) -> Result<Bundle<'p>, Errors> {
    let _bundling = span::traced("Bundle linked output", || "cuda".to_owned());
    let Request { program, options, device, output, .. } = context.request;
    let fatbin = fatbin_of(parts, context)?;
    let making = Making {
        compress: options.compress,
        device,
        section: registration.slot().section,
        object: registration_object::path(context.temp_files, &*registration),
    };
    replay::record(parts, &making, context.temp_files)?;
    // No driver loads relocatable code.
    let checked = (!device.relocatable).then(|| fatbin::check(&fatbin, program)).transpose()?;
    let checked = checked.filter(|_| options.report.is_some());
    let report = checked.map(|checked| ImageReport::empty(output, options).with_image(linked, &fatbin, checked));
    Ok(Bundle {
        image: Box::new(fatbin),
        registration,
        section: Some(options.fatbin_section),
        kept_as: Some("fatbin"),
        report,
    })
}

/// Puts the parts into a fatbin. It records the user's options for ptxas, so that the driver's compiler uses them too.
fn fatbin_of<'p>(parts: &Parts<'p>, context: &LinkContext<'_>) -> Result<FatbinWriter<'p>, Errors> {
    let Request { options, device, .. } = context.request;
    let ptx_options = device.ptxas_arguments.join(" ");
    parts.bundle(compression::options(options.compress, device.debug, context.limit.own_threads()), &ptx_options)
}

/// Groups the images by target.
///
/// # Errors
/// Images of an unknown target or of a form that cannot be linked.
fn group<'a>(images: &[&'a FoundImage<'a>]) -> Result<Vec<TargetImages<'a>>, Errors> {
    let mut targets: BTreeMap<GpuArch, Vec<DeviceImage<'a>>> = BTreeMap::new();
    let mut errors = Errors::default();
    for found in images.iter().filter(|found| found.rdc.is_none()) {
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
    use crate::host::embedded_images::Origin;
    use offload_bundle::offload_binary::ImageKind;

    fn found<'a>(arch: &'a str, image: &'a [u8]) -> FoundImage<'a> {
        let strings = vec![("triple", CUDA_TRIPLE), ("arch", arch)];
        let (image_kind, offload_kinds) = (ImageKind::Object, OffloadKinds::CUDA);
        let image = OffloadImage { image_kind, offload_kinds, flags: 0, strings, image, image_offset: 0 };
        FoundImage::new(0, Origin { file: "a.o".into(), offset: Some(64) }, image)
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
