//! CUDA on nvptx64: the device code of all GPU targets becomes machine code and PTX in one fatbin, which the program registers with
//! the CUDA runtime.

use std::collections::HashSet;
use std::path::Path;
use std::sync::OnceLock;

use llvm_passes::registration::{self, ClangUnits, CudaFolded, CudaPrelinked, CudaUnits, Registration};
use offload_bundle::arch::GpuArch;
use offload_bundle::audit::ReadImages;
use offload_bundle::coverage::FoundContainer;
use offload_bundle::coverage::gate::Requirement;
use offload_bundle::cubin;
use offload_bundle::fatbin::FatbinWriter;
use offload_bundle::offload_binary::{OffloadImage, OffloadKinds};

use crate::cli::device_options::{CUDA_TRIPLE, DeviceOptions};
use crate::cli::options::Options;
use crate::cli::values::{KernelFolding, Part, PtxPolicy};
use crate::device::compat_checks::ComparedTarget;
use crate::device::cudadevrt::LibraryUnit;
use crate::device::device_files::{self, LineTarget, LineTargets};
use crate::device::recorded_ptx_flags::RecordedFlags;
use crate::device::targets::TargetImages;
use crate::device::{cudadevrt, rdc_targets, recorded_ptx_flags, symbols};
use crate::diag::error::{Errors, both};
use crate::diag::messages::warn;
use crate::host::embedded_images::{self, FoundImage};
use crate::host::registration_object::{Blobs, Image};
use crate::image::compression;
use crate::image::fatbin::{self, Checked, Parts};
use crate::image::report::{self, ImageReport};
use crate::image::requirement;
use crate::kinds::error::Error;
use crate::kinds::interface::{Bundle, DeviceLink, Kind, Products, Setup};
use crate::kinds::nvptx_code::NvptxCode;
use crate::kinds::{nvptx_targets, relocatable_link};
use crate::lto::device_link as lto;
use crate::lto::products::LinkedTarget;
use crate::lto::result_cache::ResultCache;
use crate::lto::result_cache::images::CachedImage;
use crate::machines::interface::Fields;
use crate::machines::nvptx::backend::BackendDecision;
use crate::machines::nvptx::image_policy::{self, ImageEntries};
use crate::machines::nvptx::known_targets;
use crate::machines::nvptx::products::LinkedCode;
use crate::plan::link_context::{LinkContext, Request};
use crate::profile::span;
use crate::sys::cache::Key;
use crate::sys::mapped_file::Mapped;
use crate::toolchain::Toolchain;

/// The name of the kind.
const NAME: &str = "cuda";

/// One unit belongs to one device program.
const RUNTIME_ELSEWHERE: &str = "an object of the link has registered NVIDIA's device runtime (libcudadevrt) for a device program of its own, so \
    the driver cannot link this one again for other GPUs; link the code of both in one device link";

/// The linked code of a target.
type Linked = LinkedTarget<LinkedCode>;

/// CUDA on nvptx64.
pub struct Cuda;

impl Kind for Cuda {
    fn name(&self) -> &'static str {
        NAME
    }

    fn accepts(&self) -> &'static str {
        "CUDA images for nvptx64-nvidia-cuda"
    }

    fn takes(&self, image: &OffloadImage<'_>) -> bool {
        image.offload_kinds.contains(OffloadKinds::CUDA) && image.triple().starts_with("nvptx")
    }

    fn line_targets(&self, images: &[FoundImage<'_>], options: &Options) -> LineTargets {
        if images.is_empty() && options.dlink {
            return options.sass_policy.listed().iter().copied().map(LineTarget::Nvptx).collect();
        }
        device_files::archs_of(images, OffloadKinds::CUDA)
            .into_iter()
            .chain(rdc_targets::archs_of(images, &options.sass_policy).into_iter().map(LineTarget::Nvptx))
            .collect()
    }

    fn links_line_code_alone(&self) -> bool {
        true
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
    /// The ids of units that objects of the link register.
    registered_elsewhere: HashSet<&'a str>,
    /// The id of the result, if it is relocatable.
    prelinked_id: Option<String>,
    warnings: Vec<String>,
}

/// Rejects arguments that the links of these targets cannot carry out.
fn require_arguments(device: &DeviceOptions, targets: &[TargetImages<'_>]) -> Result<(), Errors> {
    let mut errors = Errors::default();
    for (option, why) in &device.refused {
        errors.extend(Error::RefusedLinkerOption { option: option.clone(), gpus: "NVIDIA", why: why.clone() });
    }
    for (option, processor) in &device.processors {
        let others = targets.iter().map(|target| target.arch.to_string()).filter(|target| target != processor);
        let error = |target| Error::OtherProcessor { option: option.clone(), processor: processor.clone(), target };
        errors.extend(others.map(error).collect::<Errors>());
    }
    errors.or(())
}

impl<'a> CudaLink<'a> {
    fn plan(setup: &Setup<'a>) -> Result<Self, Errors> {
        let Request { options, device, .. } = setup.request;
        let units = rdc_targets::units(&setup.images);
        let linked = rdc_targets::with_code(&units)?;
        if setup.images.is_empty() && device.relocatable && !options.emit_image_only {
            return Err(Error::RelocatableAlone.into());
        }
        let targets =
            if setup.images.is_empty() { setup.line_code.own_targets() } else { nvptx_targets::group(&setup.images)? };
        require_arguments(device, &targets)?;
        let ptxas = || Toolchain::of(options, device).path(Part::Ptxas);
        known_targets::require(&options.sass_policy, &options.ptx_policy, ptxas)?;
        let (targets, left_out) =
            rdc_targets::add_to(targets, &linked, setup.inputs, &options.sass_policy, device.lto_ir)?;
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
        ptx.extend(image_policy::implied_ptx(&options.ptx_policy, &targets, &ptx));
        // Without machine code in the image, the driver links the PTX of nvcc's units at run time.
        let has_own_ptx = !units.is_empty() && units.iter().all(|(_, rdc)| rdc.has_ptx());
        if sass.is_empty() && ptx.is_empty() && !has_own_ptx {
            return Err(Error::EmptyImage.into());
        }
        if device.relocatable {
            relocatable_link::require(setup, &sass, &ptx)?;
        }
        let entries = ImageEntries { sass, ptx };
        if options.require.is_some() && device.relocatable {
            return Err(Error::RequireOther { what: "relocatable code alone" }.into());
        }
        // What the driver links again shows in the finished image.
        if let Some(required) = options.require.as_ref().filter(|_| units.is_empty()) {
            requirement::check_plan(&entries, options.ptx_version, required)?;
        }
        let prelinked_id = device.relocatable.then(|| relocatable_link::id(units.iter().map(|(_, rdc)| rdc.id)));
        let registered = || units.iter().filter(|(_, rdc)| rdc.is_registered);
        let ids = registered().map(|(_, rdc)| rdc.id.to_owned()).collect();
        let fatbins = registered().map(|(found, _)| found.image.image).collect();
        let (has_units, has_clang) = (!units.is_empty(), setup.images.len() > units.len());
        let inputs = Some(setup.inputs).filter(|_| has_units);
        let registered_elsewhere = inputs.map(embedded_images::linked_ids).unwrap_or_default();
        Ok(CudaLink {
            targets,
            entries,
            flags,
            ids,
            fatbins,
            has_units,
            folds_all: options.kernel_folding == KernelFolding::All,
            has_clang,
            registered_elsewhere,
            prelinked_id,
            warnings,
        })
    }

    fn run<'p>(&'p self, context: &LinkContext<'p>) -> Result<CudaProducts<'p>, Errors> {
        let ((linked, cached, device_runtime), result_cache, choices) = self.code().with_tools(context, |link| {
            let cached = if self.is_plain() {
                link.cached_image(&image_fields(context.request.options, context.request.device))?
            } else {
                None
            };
            if cached.is_some() {
                return Ok((Vec::new(), cached, None));
            }
            let linked = link.link()?;
            let library = link.machine.libraries.device_runtime_path();
            let device_runtime = self.device_runtime(&linked, library, context.request.program)?;
            Ok((linked, None, device_runtime))
        })?;
        let clang_ptx = OnceLock::new();
        Ok(CudaProducts { plan: self, linked, cached, choices, result_cache, device_runtime, clang_ptx })
    }

    /// NVIDIA's device runtime as a unit of the program, from which the driver takes its code for a GPU that the program was not linked
    /// for. A relocatable link leaves it to the link of the program.
    fn device_runtime(
        &self,
        linked: &[Linked],
        library: Option<&Path>,
        program: &str,
    ) -> Result<Option<LibraryUnit>, Errors> {
        if !self.has_units || self.prelinked_id.is_some() {
            return Ok(None);
        }
        let is_linked = linked.iter().any(|target| target.code.calls_device_runtime);
        if !is_linked && !rdc_targets::lto_ir_calls_device_runtime(&self.targets, library)? {
            return Ok(None);
        }
        let unit = library.and_then(cudadevrt::unit);
        if unit.as_ref().is_some_and(|unit| self.registered_elsewhere.contains(&*unit.id)) {
            warn(program, RUNTIME_ELSEWHERE);
            return Ok(None);
        }
        Ok(unit)
    }

    /// The device code of all targets.
    fn code(&self) -> NvptxCode<'_> {
        NvptxCode {
            kind: NAME,
            targets: &self.targets,
            entries: &self.entries,
            folds_kernels: true,
            looks_up: |_| false,
        }
    }

    /// Whether the container and its registration depend on nothing but the code of the targets and options.
    fn is_plain(&self) -> bool {
        !self.has_units && !self.folds_all && self.prelinked_id.is_none()
    }
}

impl DeviceLink for CudaLink<'_> {
    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn triples(&self) -> Vec<&str> {
        vec![CUDA_TRIPLE]
    }

    fn has_kernels(&self) -> bool {
        self.has_units || self.targets.iter().flat_map(|target| &target.images).any(symbols::has_kernels)
    }

    fn early_registration(&self) -> Option<&'static dyn Registration> {
        // That of nvcc's units depends on the PTX, and that of folded kernels on which of them there are.
        (!self.has_units && !self.folds_all).then_some(&registration::Cuda)
    }

    fn link<'p>(&'p self, context: &LinkContext<'p>) -> Result<Box<dyn Products + 'p>, Errors> {
        Ok(Box::new(self.run(context)?))
    }

    fn compare_units(&self, context: &LinkContext<'_>) -> Result<(), Errors> {
        let compared: Vec<ComparedTarget<'_>> = self.targets.iter().map(ComparedTarget::of_cuda).collect();
        lto::compare_units(&compared.iter().collect::<Vec<_>>(), context.request).map(drop)
    }

    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not general enough in its lifetimes")]
    fn compile_for_later(&self, context: &LinkContext<'_>) -> Result<(), Errors> {
        let ((), result_cache, _) = self.code().with_tools(context, |link| link.compile_for_later())?;
        result_cache.finish(context.request);
        Ok(())
    }
}

/// What the container depends on besides the code.
fn image_fields(options: &Options, device: &DeviceOptions) -> Fields {
    vec![
        ("options", format!("{:?}", options.keyed().fatbin).into_bytes()),
        // Entries hold those for ptxas.
        ("device options", format!("{:?}", device.keyed()).into_bytes()),
    ]
}

/// The machine code and PTX of all targets.
struct CudaProducts<'p> {
    plan: &'p CudaLink<'p>,
    linked: Vec<Linked>,
    /// The container of an earlier link, in place of the linked targets.
    cached: Option<CachedImage>,
    choices: Vec<BackendDecision>,
    result_cache: ResultCache<'p>,
    /// NVIDIA's device runtime, if it is a unit of the program.
    device_runtime: Option<LibraryUnit>,
    /// A fatbin with the PTX of clang's units, if it goes next to the PTX of nvcc's units instead of into the image.
    clang_ptx: OnceLock<Vec<u8>>,
}

impl CudaProducts<'_> {
    /// Bundles the linked targets, and keeps them for later links, or the container in their place.
    fn bundle_and_store<'p>(&'p self, context: &LinkContext<'_>) -> Result<Bundle<'p>, Errors> {
        let bundled = self.bundle_targets(context);
        let has_image = matches!(&bundled, Ok((bundle, true)) if self.keep(&*bundle.image, context.request));
        self.result_cache.store_targets(&self.linked, has_image);
        bundled.map(|(bundle, _)| bundle)
    }

    /// Returns also whether a later link can take the container as it is.
    fn bundle_targets<'p>(&'p self, context: &LinkContext<'_>) -> Result<(Bundle<'p>, bool), Errors> {
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
        let mut prelinked = fatbins.clone();
        prelinked.extend(self.device_runtime.iter().map(|unit| &*unit.fatbin));
        let linked = report::Linked { targets, sass, ptx, flags, choices: &self.choices, prelinked: &prelinked };
        let mut parts = Parts::of_targets(&self.linked, context.request.mode);
        if let Some(id) = &self.plan.prelinked_id {
            return Ok((bundle(&parts, linked, context, Box::new(CudaPrelinked { id }))?, false));
        }
        if !has_units {
            // Equal for all targets, as far as they have code.
            let folded = self.linked.iter().map(|target| &target.folded).find(|folded| !folded.is_empty());
            if let Some(folded) = folded {
                return Ok((bundle(&parts, linked, context, Box::new(CudaFolded { folded }))?, false));
            }
            let (bundle, warns) = checked_bundle(&parts, linked, context, Box::new(registration::Cuda))?;
            return Ok((bundle, !warns));
        }
        let mut clang = ClangUnits::None;
        if *has_clang {
            let ptx = parts.take_ptx();
            let written = (!ptx.is_empty()).then(|| fatbin_of(&ptx, context)).transpose()?;
            let ptx = written.map(|fatbin| &**self.clang_ptx.get_or_init(|| fatbin.finish()));
            clang = ClangUnits::Linked { ptx };
        }
        let device_runtime = self.device_runtime.as_ref().map(|unit| &*unit.id);
        let registration = Box::new(CudaUnits { ids, device_runtime, clang });
        let ClangUnits::Linked { ptx: Some(ptx) } = clang else {
            return Ok((bundle(&parts, linked, context, registration)?, false));
        };
        let prelinked = [&prelinked[..], &[ptx]].concat();
        let linked = report::Linked { prelinked: &prelinked, ..linked };
        Ok((bundle(&parts, linked, context, registration)?, false))
    }

    /// Keeps the container for later links. Returns whether it did.
    fn keep(&self, image: &dyn Image, request: Request<'_>) -> bool {
        let keys: Option<Vec<Key>> = self.linked.iter().map(|target| target.key).collect();
        let key = keys.filter(|_| request.may_use_cached_image());
        let key =
            key.and_then(|keys| self.result_cache.image_key(&keys, &image_fields(request.options, request.device)));
        let Some(key) = key else { return false };
        let mut container = Vec::with_capacity(usize::try_from(image.size()).unwrap_or_default());
        if image.write_to(&mut container).is_err() {
            return false;
        }
        let messages = self.linked.iter().map(|target| target.messages.clone()).collect();
        self.result_cache.store_image(&key, &CachedImage { container, messages });
        true
    }
}

impl Products for CudaProducts<'_> {
    fn bundle<'p>(&'p self, context: &LinkContext<'_>) -> Result<Bundle<'p>, Errors> {
        let bundle = match &self.cached {
            Some(CachedImage { container, .. }) => Ok(Bundle {
                image: Box::new(Blobs::borrowed(std::slice::from_ref(container))),
                registration: Box::new(registration::Cuda),
                section: Some(context.request.options.image_section),
                saved_as: None,
                report: None,
                read: ReadImages::default(),
            }),
            None => self.bundle_and_store(context),
        };
        self.result_cache.finish(context.request);
        bundle
    }

    fn archive(&self) -> Option<&Path> {
        self.device_runtime.as_ref().map(|unit| &*unit.path)
    }

    fn cache_counts(&self) -> Option<(u64, u64)> {
        self.result_cache.counts()
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
        bundle(&parts, report::Linked::default(), context, Box::new(registration::Cuda))
    }
}

/// Bundles these parts into a fatbin, and validates it as a driver would.
fn bundle<'p>(
    parts: &Parts<'p>,
    linked: report::Linked<'_>,
    context: &LinkContext<'_>,
    registration: Box<dyn Registration + 'p>,
) -> Result<Bundle<'p>, Errors> {
    checked_bundle(parts, linked, context, registration).map(|(bundle, _)| bundle)
}

/// As [`bundle`]. Returns also whether the validation warned.
fn checked_bundle<'p>(
    parts: &Parts<'p>,
    linked: report::Linked<'_>,
    context: &LinkContext<'_>,
    registration: Box<dyn Registration + 'p>,
) -> Result<(Bundle<'p>, bool), Errors> {
    let _bundling = span::traced("Bundle linked output", || "cuda".to_owned());
    let Request { program, options, device, output, .. } = context.request;
    let fatbin = fatbin_of(parts, context)?;
    // No driver loads relocatable code.
    let checked = (!device.relocatable)
        .then(|| fatbin::check(&fatbin, options.oldest_driver().unwrap_or_default(), program))
        .transpose()?;
    if let (Some(required), Some(checked)) = (&options.require, &checked) {
        // A dry run has no code.
        let is_made = !context.request.mode.dry || !checked.codes.is_empty() || !linked.prelinked.is_empty();
        if is_made {
            require(&fatbin, checked, linked.prelinked, required)?;
        }
    }
    let warns = checked.as_ref().is_some_and(Checked::warns);
    let read = checked.as_ref().map(|checked| checked.read.clone()).unwrap_or_default();
    let checked = checked.filter(|_| options.report.is_some());
    let report = checked.map(|checked| ImageReport::empty(output, options).with_image(linked, &fatbin, checked));
    let section = Some(options.image_section);
    Ok((Bundle { image: Box::new(fatbin), registration, section, saved_as: Some("fatbin"), report, read }, warns))
}

/// Fails if a finished fatbin does not serve what is required.
fn require(
    fatbin: &FatbinWriter<'_>,
    checked: &Checked,
    prelinked: &[&[u8]],
    required: &Requirement,
) -> Result<(), Errors> {
    let entries = fatbin.entries().unwrap_or_default();
    let linked = if prelinked.is_empty() { None } else { FoundContainer::linked(&entries, prelinked).ok() };
    let containers = linked.unwrap_or_else(|| vec![FoundContainer::whole(checked.codes.clone())]);
    requirement::check_image(containers, required)
}

/// Puts the parts into a fatbin. It records the user's options for ptxas, so that the driver's compiler uses them too.
fn fatbin_of<'p>(parts: &Parts<'p>, context: &LinkContext<'_>) -> Result<FatbinWriter<'p>, Errors> {
    let Request { options, device, .. } = context.request;
    let ptx_options = device.ptxas_arguments.join(" ");
    parts.bundle(compression::options(parts, options, device.debug, context.limit.own_threads()), &ptx_options)
}

#[cfg(test)]
mod tests {
    use offload_bundle::coverage::Driver;
    use offload_bundle::fatbin::CompressMode;

    use super::*;
    use crate::cli::values::ImageCompression;

    #[test]
    fn everything_that_a_container_depends_on_changes_the_key() {
        let (options, device) = (Options::default(), DeviceOptions::default());
        let fast = Options { compress: ImageCompression::AsFatbinary(CompressMode::Speed), ..Options::default() };
        let old = Options { driver: Some(Driver::Branch(525)), ..Options::default() };
        let require = Options { require: "sm_90".parse().ok(), ..Options::default() };
        let debug = DeviceOptions { debug: true, ..DeviceOptions::default() };
        let words = DeviceOptions { ptxas_arguments: vec!["-x".to_owned()], ..DeviceOptions::default() };
        let all = [
            image_fields(&options, &device),
            image_fields(&fast, &device),
            image_fields(&old, &device),
            image_fields(&require, &device),
            image_fields(&options, &debug),
            image_fields(&options, &words),
        ];
        for (place, other) in all.iter().enumerate() {
            assert!(!all[..place].contains(other), "change {place} does not change the key");
        }
    }
}
