//! HIP on amdgcn: the device code of every target becomes a code object in one HIP bundle, which the program registers with the HIP
//! runtime.

use llvm_passes::amdgpu;
use llvm_passes::registration::{self, Registration};
use offload_bundle::audit::ReadImages;
use offload_bundle::hip_bundle::{self, BundleId, CompressedMethod, CompressedVersion, HIP_ALIGNMENT};
use offload_bundle::offload_binary::{OffloadImage, OffloadKinds};

use crate::cli::amd_options::{self};
use crate::cli::options::Options;
use crate::cli::values::{KernelFolding, KernelGc, LlvmRules};
use crate::device::compat_checks::ComparedTarget;
use crate::device::device_files::{self, LineTargets};
use crate::device::symbols;
use crate::diag::error::{Errors, both, collect};
use crate::diag::messages::warn;
use crate::host::embedded_images::FoundImage;
use crate::host::registration_object::Blobs;
use crate::image::report;
use crate::kinds::amdgcn_code::{AmdCode, AmdTarget, SPIRV};
use crate::kinds::error::Error;
use crate::kinds::interface::{Bundle, DeviceLink, Kind, Products, Setup};
use crate::lto::device_link as lto;
use crate::lto::llvm_messages;
use crate::lto::products::LinkedTarget;
use crate::lto::result_cache::ResultCache;
use crate::lto::result_cache::images::CachedImage;
use crate::machines::amdgcn::spirv;
use crate::machines::amdgcn::target::{Amdgcn, CodeObject};
use crate::machines::interface::{Fields, Joined, Machine};
use crate::plan::link_context::{LinkContext, Request};
use crate::profile::span;
use crate::sys::cache::Key;
use crate::sys::mapped_file::Mapped;
use crate::sys::process;
use crate::sys::threads;

/// The name of the kind.
const NAME: &str = "hip";

/// Zstandard's level of clang-offload-bundler.
const BUNDLER_LEVEL: i32 = 3;

/// HIP on amdgcn.
pub struct Hip;

impl Kind for Hip {
    fn name(&self) -> &'static str {
        NAME
    }

    fn accepts(&self) -> &'static str {
        "HIP images for amdgcn-amd-amdhsa"
    }

    fn takes(&self, image: &OffloadImage<'_>) -> bool {
        image.offload_kinds.contains(OffloadKinds::HIP) && amd_options::is_amd(image.triple())
    }

    fn line_targets(&self, images: &[FoundImage<'_>], _options: &Options) -> LineTargets {
        device_files::amd_targets_of(images, OffloadKinds::HIP)
    }

    fn plan<'a>(&self, setup: &Setup<'a>) -> Result<Box<dyn DeviceLink + 'a>, Errors> {
        Ok(Box::new(HipLink::plan(setup)?))
    }

    fn finished(&self, file: &str, content: Mapped) -> Result<Box<dyn Products>, Errors> {
        let no_code_object = |reason: String| Error::NotCodeObject { file: file.to_owned(), reason };
        let header = offload_bundle::amdgpu::header(content.bytes());
        let header = header.map_err(|error| no_code_object(error.to_string()))?;
        let target = header.target.filter(|_| !header.relocatable);
        let target =
            target.ok_or_else(|| no_code_object("a relocatable object, or for an unknown processor".into()))?;
        let object = CodeObject { bytes: content.bytes().to_vec(), ..CodeObject::default() };
        let images = vec![(amdgpu::TRIPLE.to_owned(), target.to_string(), object)];
        let (linked, cached, result_cache) = (Vec::new(), None, ResultCache::default());
        Ok(Box::new(HipProducts { targets: &[], images, linked, cached, result_cache }))
    }
}

/// The device links of all targets.
struct HipLink<'a> {
    /// The targets, in the order of the bundle.
    code: AmdCode<'a>,
    /// Whether the host program launches kernels in place of others.
    folds_all: bool,
}

impl<'a> HipLink<'a> {
    fn plan(setup: &Setup<'a>) -> Result<Self, Errors> {
        let options = setup.request.options;
        let gc = (options.kernel_gc == KernelGc::Host).then_some(Error::GcOfHip);
        let require = options.require.as_ref().map(|_| Error::RequireOther { what: "images of HIP" });
        let refused = Errors::from_iter(gc.into_iter().chain(require)).or(());
        let (code, ()) = both(AmdCode::plan(&setup.images, setup), refused)?;
        Ok(HipLink { code, folds_all: options.kernel_folding == KernelFolding::All })
    }
}

impl DeviceLink for HipLink<'_> {
    fn warnings(&self) -> &[String] {
        &self.code.warnings
    }

    fn triples(&self) -> Vec<&str> {
        self.code.targets.iter().map(|target| target.triple).collect()
    }

    fn has_kernels(&self) -> bool {
        self.code.targets.iter().flat_map(|target| &target.link.images).any(symbols::has_kernels)
    }

    fn early_registration(&self) -> Option<&'static dyn Registration> {
        (!self.folds_all).then_some(&registration::Hip)
    }

    fn link<'p>(&'p self, context: &LinkContext<'p>) -> Result<Box<dyn Products + 'p>, Errors> {
        Ok(Box::new(self.run(context)?))
    }

    fn compare_units(&self, context: &LinkContext<'_>) -> Result<(), Errors> {
        let machine = Amdgcn { link: context };
        let compared: Vec<ComparedTarget<'_>> =
            self.code.targets.iter().map(|target| machine.compared(&target.link)).collect();
        lto::compare_units(&compared.iter().collect::<Vec<_>>(), context.request).map(drop)
    }

    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not general enough in its lifetimes")]
    fn compile_for_later(&self, context: &LinkContext<'_>) -> Result<(), Errors> {
        let ((), result_cache) = self.code.with_cache(NAME, true, context, |link| link.compile_for_later())?;
        result_cache.finish(context.request);
        Ok(())
    }
}

impl HipLink<'_> {
    fn run<'p>(&'p self, context: &LinkContext<'p>) -> Result<HipProducts<'p>, Errors> {
        let ((images, linked, cached), result_cache) = self.code.with_cache(NAME, true, context, |link| {
            let cached = if self.is_plain() { link.cached_image(&image_fields(context.request))? } else { None };
            match cached {
                Some(cached) => Ok((Vec::new(), Vec::new(), Some(cached))),
                None => self.link_targets(link).map(|(images, linked)| (images, linked, None)),
            }
        })?;
        for (target, (_, _, object)) in self.code.targets.iter().zip(&images) {
            target.other_target(object).iter().for_each(|text| warn(context.request.program, text));
        }
        Ok(HipProducts { targets: &self.code.targets, images, linked, cached, result_cache })
    }

    /// Whether the container depends on nothing but the code of the targets and options.
    fn is_plain(&self) -> bool {
        !self.folds_all && self.code.targets.iter().all(|target| !target.is_spirv() && target.has_own_code())
    }

    /// Links all targets. SPIR-V is not compiled, so it needs no jobs.
    fn link_targets(&self, link: &lto::DeviceLink<'_, Amdgcn<'_>>) -> Result<(Vec<BundledImage>, Vec<Linked>), Errors> {
        let context = link.link;
        let spirv = self.code.targets.iter().filter(|target| target.is_spirv());
        let spirv = || collect(spirv.map(|target| spirv::link(&target.link, target.triple, context)));
        let (spirv, linked) = threads::join(spirv, || link.link());
        let (spirv, linked) = both(spirv, linked)?;
        let (mut spirv, mut machine) = (spirv.into_iter(), linked.iter());
        let images = self.code.targets.iter().map(|target| {
            let object = match target.is_spirv() {
                true => spirv.next().map(|joined: Joined<CodeObject>| {
                    let messages = llvm_messages::join(joined.messages);
                    llvm_messages::print(context, &target.link.arch.name, &messages);
                    joined.linked
                }),
                false => machine.next().map(|linked| linked.code.clone()),
            };
            (target.triple.to_owned(), target.link.arch.name.clone(), object.unwrap_or_default())
        });
        Ok((images.collect(), linked))
    }
}

/// What the container depends on besides the code.
fn image_fields(request: Request<'_>) -> Fields {
    let options = request.options;
    vec![
        ("options", format!("{:?}", options.keyed().hip_bundle).into_bytes()),
        ("host", host_id(options).into_bytes()),
        ("code object", vec![u8::from(options.code_object.is_some())]),
    ]
}

/// The linked code of a target.
type Linked = LinkedTarget<CodeObject>;

/// Triple, target id and code object of a target.
type BundledImage = (String, String, CodeObject);

/// The linked code of all targets.
struct HipProducts<'p> {
    /// The device links; none of a finished image.
    targets: &'p [AmdTarget<'p>],
    /// The images, in the order of the bundle.
    images: Vec<BundledImage>,
    /// The targets that ld.lld linked.
    linked: Vec<Linked>,
    /// The container of an earlier link, in place of the images.
    cached: Option<CachedImage>,
    result_cache: ResultCache<'p>,
}

impl HipProducts<'_> {
    /// What `--offload-report` prints about a bundle of this size.
    fn report(&self, bytes: usize, context: &LinkContext<'_>) -> report::ImageReport {
        let Request { options, output, .. } = context.request;
        let entry = |(triple, arch, object): &BundledImage| report::EntryReport {
            name: format!("{} {arch}", if triple.starts_with("spirv") { "spirv" } else { "code object" }),
            bytes: object.bytes.len() as u64,
            compression: if options.compress_hip { "zstd" } else { "none" }.to_owned(),
            uncompressed_bytes: None,
            made_of: self.targets.iter().any(|target| target.link.arch.name == *arch).then(|| arch.clone()),
        };
        report::ImageReport {
            targets: self.targets.iter().map(|target| target.image_report(&Amdgcn { link: context })).collect(),
            bytes: bytes as u64,
            entries: self.images.iter().map(entry).collect(),
            ..report::ImageReport::empty(output, options)
        }
    }
}

impl Products for HipProducts<'_> {
    fn bundle<'p>(&'p self, context: &LinkContext<'_>) -> Result<Bundle<'p>, Errors> {
        let _bundling = span::traced("Bundle linked output", || "hip".to_owned());
        let options = context.request.options;
        let (image, size) = match &self.cached {
            Some(CachedImage { container, .. }) => (Blobs::borrowed(std::slice::from_ref(container)), container.len()),
            None => {
                let container = self.container(context)?;
                let container = self.keep(container, context.request);
                let size = container.len();
                (Blobs::owned(vec![container]), size)
            }
        };
        self.result_cache.finish(context.request);
        Ok(Bundle {
            report: options.report.is_some().then(|| self.report(size, context)),
            image: Box::new(image),
            registration: match self.linked.iter().map(|target| &target.folded).find(|folded| !folded.is_empty()) {
                // Equal for all targets.
                Some(folded) => Box::new(registration::HipFolded { folded }),
                None => Box::new(registration::Hip),
            },
            section: Some(options.image_section),
            read: ReadImages::default(),
            saved_as: Some("hipfb"),
        })
    }

    fn cache_counts(&self) -> Option<(u64, u64)> {
        self.result_cache.counts()
    }
}

impl HipProducts<'_> {
    /// Bundles the images.
    fn container(&self, context: &LinkContext<'_>) -> Result<Vec<u8>, Errors> {
        let options = context.request.options;
        if options.code_object.is_some() {
            return Ok(self.images.iter().flat_map(|(_, _, object)| object.bytes.clone()).collect());
        }
        let mut entries = vec![(host_id(options), &[][..])];
        let images = self.images.iter();
        entries
            .extend(images.map(|(triple, arch, object)| (image_id(triple, arch, options.llvm_rules), &*object.bytes)));
        let entries: Vec<(&str, &[u8])> = entries.iter().map(|(id, image)| (&**id, *image)).collect();
        if !self.targets.is_empty() {
            self.show(&entries, context);
        }
        let bundle = hip_bundle::write(&entries, HIP_ALIGNMENT);
        Ok(if options.compress_hip { compressed(&bundle, options)? } else { bundle })
    }

    /// Keeps the container and the linked targets for later links. Returns the container.
    fn keep(&self, container: Vec<u8>, request: Request<'_>) -> Vec<u8> {
        let keys: Option<Vec<Key>> = self.linked.iter().map(|target| target.key).collect();
        let keys = keys.filter(|keys| !keys.is_empty() && keys.len() == self.targets.len());
        let keys = keys.filter(|_| request.may_use_cached_image());
        let key = keys.and_then(|keys| self.result_cache.image_key(&keys, &image_fields(request)));
        self.result_cache.store_targets(&self.linked, key.is_some());
        let Some(key) = key else { return container };
        let messages = self.linked.iter().map(|target| target.messages.clone()).collect();
        let image = CachedImage { container, messages };
        self.result_cache.store_image(&key, &image);
        image.container
    }
}

impl HipProducts<'_> {
    /// Shows the command by which LLVM's own tool bundles.
    fn show(&self, entries: &[(&str, &[u8])], context: &LinkContext<'_>) {
        let Request { options, mode, .. } = context.request;
        let file = |name: &str| context.temp_files.file(name).display().to_string();
        let mut line = vec!["-type=o".to_owned(), format!("-bundle-align={HIP_ALIGNMENT}")];
        if options.compress_hip {
            line.push("-compress".to_owned());
            line.extend(options.compression_level.map(|level| format!("-compression-level={level}")));
        }
        let ids: Vec<&str> = entries.iter().map(|(id, _)| id.trim_end_matches('-')).collect();
        line.push(format!("-targets={}", ids.join(",")));
        line.push("-input=/dev/null".to_owned());
        line.extend(self.images.iter().map(|(_, arch, _)| format!("-input={}", file(&format!("amdgcn.{arch}.img")))));
        let output = if options.emit_image_only { context.request.output.display().to_string() } else { file("hipfb") };
        line.push(format!("-output={output}"));
        process::show_equivalent(mode, "clang-offload-bundler", &line);
    }
}

/// The id of the host's entry, which has no image. LLVM 22 writes the same for every host.
fn host_id(options: &Options) -> String {
    let triple = match options.llvm_rules {
        LlvmRules::Llvm22 => "x86_64-unknown-linux-gnu",
        LlvmRules::Llvm23 => options.host_triple.as_deref().unwrap_or("x86_64-pc-linux-gnu"),
    };
    bundle_id("host", triple, "")
}

fn image_id(triple: &str, arch: &str, rules: LlvmRules) -> String {
    let triple = match rules {
        // SPIR-V alone has another triple than the rest.
        LlvmRules::Llvm22 if arch == SPIRV => "spirv64-amd-amdhsa",
        LlvmRules::Llvm22 => amdgpu::TRIPLE,
        LlvmRules::Llvm23 => triple,
    };
    bundle_id("hip", triple, arch)
}

fn bundle_id(kind: &str, triple: &str, target: &str) -> String {
    let mut parts = triple.splitn(4, '-');
    let mut next = || parts.next().unwrap_or_default();
    let (arch, vendor, os, environment) = (next(), next(), next(), next());
    BundleId { kind, arch, vendor, os, environment, target }.to_string()
}

fn compressed(bundle: &[u8], options: &Options) -> Result<Vec<u8>, Error> {
    let level = options.compression_level.unwrap_or(BUNDLER_LEVEL);
    let packed = hip_bundle::compress(bundle, CompressedVersion::V3, CompressedMethod::Zstd(level));
    packed.map_err(|source| Error::CompressBundle { source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_bundler() {
        assert_eq!(host_id(&Options::default()), "host-x86_64-unknown-linux-gnu-");
        let id = |triple, arch| image_id(triple, arch, LlvmRules::Llvm22);
        assert_eq!(id("amdgcn-amd-amdhsa", "gfx90a:xnack+"), "hip-amdgcn-amd-amdhsa--gfx90a:xnack+");
        assert_eq!(id("spirv64-amd-amdhsa", "amdgcnspirv"), "hip-spirv64-amd-amdhsa--amdgcnspirv");
    }
}
