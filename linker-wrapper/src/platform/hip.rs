//! HIP on amdgcn: the device code of every target becomes a code object in one HIP bundle, which the program registers with the HIP
//! runtime.

use std::path::PathBuf;

use llvm_passes::amdgpu;
use llvm_passes::bitcode;
use llvm_passes::registration::{self, Registration};
use offload_bundle::amdgpu::TargetId;
use offload_bundle::hip_bundle::{self, BundleId, CompressedMethod, CompressedVersion, HIP_ALIGNMENT};
use offload_bundle::offload_binary::{OffloadImage, OffloadKinds};

use crate::cli::amd_options::{self, AmdOptions};
use crate::cli::options::Options;
use crate::cli::values::LlvmRules;
use crate::device::amd_targets::{self, Candidate, Group};
use crate::device::compat_checks::{self, ComparedImage, ComparedTarget, Source};
use crate::diag::error::{Errors, both, collect};
use crate::diag::messages::warn;
use crate::host::embedded_images::FoundImage;
use crate::host::input_files::{InputFiles, Place};
use crate::host::registration_object::Blobs;
use crate::image::report;
use crate::lto::amd_link;
use crate::lto::amd_target::PlannedTarget;
use crate::lto::code_object::{self, AmdImage, AmdImages, CodeObject};
use crate::lto::distribution::Distribution;
use crate::lto::job_run::Resources;
use crate::lto::llvm_messages;
use crate::lto::result_cache::ResultCache;
use crate::plan::link_context::{LinkContext, Request};
use crate::plan::report::{BackendReport, ImageReport, TargetReport};
use crate::platform::error::Error;
use crate::platform::interface::{Bundle, DeviceLink, Platform, Products, Setup};
use crate::profile::span;
use crate::sys::mapped_file::Mapped;
use crate::sys::memory::estimates::Estimates;
use crate::sys::process;

/// The target of images that are finished as SPIR-V, which the runtime compiles.
const SPIRV: &str = "amdgcnspirv";

/// What links code objects, in plans and reports, and why.
const LLD: &str = "ld.lld";
const WHY_LLD: &str = "LLVM generates the code, and ld.lld links it";

/// Zstandard's level of clang-offload-bundler.
const BUNDLER_LEVEL: i32 = 3;

/// HIP on amdgcn.
pub struct Hip;

impl Platform for Hip {
    fn kind(&self) -> &'static str {
        "hip"
    }

    fn accepts(&self) -> &'static str {
        "HIP images for amdgcn-amd-amdhsa"
    }

    fn takes(&self, image: &OffloadImage<'_>) -> bool {
        image.offload_kinds.contains(OffloadKinds::HIP) && amd_options::is_amd(image.triple())
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
        let object = CodeObject { bytes: content.bytes().to_vec(), messages: Vec::new() };
        let images = vec![(amdgpu::TRIPLE.to_owned(), target.to_string(), object)];
        Ok(Box::new(HipProducts { targets: &[], images, cached: None }))
    }
}

/// The device links of all targets.
struct HipLink<'a> {
    /// In the order of the bundle.
    targets: Vec<HipTarget<'a>>,
    warnings: Vec<String>,
}

/// One target.
struct HipTarget<'a> {
    triple: &'a str,
    link: AmdImages<'a>,
    /// The same images, as the compatibility checks see them.
    compared: ComparedTarget<'a>,
}

impl<'a> HipLink<'a> {
    fn plan(setup: &Setup<'a>) -> Result<Self, Errors> {
        let Request { program, options, .. } = setup.request;
        let llvm_options = amd_options::llvm_options(options);
        if !llvm_options.is_empty() && !llvm_passes::parse_llvm_options(program, &llvm_options) {
            return Err(Error::LlvmOptions { options: llvm_options.join(" ") }.into());
        }
        let candidates = setup.images.iter().map(|found| candidate(found, setup.inputs)).collect::<Vec<_>>();
        let mut groups = amd_targets::group(&candidates, &options.should_extract, options.llvm_rules);
        amd_targets::sort(&mut groups);
        let mut errors = Errors::default();
        // A dry run bundles nothing.
        if let Some((one, other)) = amd_targets::conflict(&groups).filter(|_| !setup.request.mode.dry) {
            errors.extend(conflict(&groups[one], &groups[other], &setup.images));
        }
        let mut targets = Vec::new();
        for group in &groups {
            match HipTarget::new(group, &setup.images, options) {
                Ok(target) => {
                    errors.extend(target.refused());
                    targets.push(target);
                }
                Err(error) => errors.extend(error),
            }
        }
        let mut warnings: Vec<String> = targets.iter().flat_map(|target| target.link.options.unknown.clone()).collect();
        warnings.sort();
        warnings.dedup();
        let mut warnings: Vec<String> =
            warnings.iter().map(|word| format!("{word} has no effect on this device link")).collect();
        warnings.extend(amd_targets::without_code(&candidates, &options.should_extract).iter().map(|arch| {
            format!("--should-extract={arch}: no device image of the link is for {arch}; compile a file with --offload-arch={arch}")
        }));
        errors.or(HipLink { targets, warnings })
    }
}

fn conflict(one: &Group<'_>, other: &Group<'_>, images: &[&FoundImage<'_>]) -> Error {
    // The image that opened the group is one of its own.
    let file = |group: &Group<'_>| {
        let own = group.images.iter().filter_map(|index| images.get(*index));
        own.filter(|found| found.image.arch() == group.arch).map(|found| found.origin.to_string()).next()
    };
    Error::ConflictingTargets {
        first: one.arch.to_owned(),
        first_file: file(one).unwrap_or_default(),
        second: other.arch.to_owned(),
        second_file: file(other).unwrap_or_default(),
    }
}

fn candidate<'a>(found: &'a FoundImage<'a>, inputs: &InputFiles) -> Candidate<'a> {
    let in_archive = inputs.files().get(found.input).is_some_and(|file| file.place != Place::Line);
    let arch = if found.image.arch().is_empty() { "generic" } else { found.image.arch() };
    Candidate { triple: found.image.triple(), arch, in_archive }
}

impl<'a> HipTarget<'a> {
    fn new(group: &Group<'a>, images: &[&'a FoundImage<'a>], options: &Options) -> Result<Self, Error> {
        let own: Vec<&'a FoundImage<'a>> =
            group.images.iter().filter_map(|index| images.get(*index).copied()).collect();
        let origin = || own.first().map_or_else(String::new, |found| found.origin.to_string());
        let amd = AmdOptions::read(options, group.triple);
        let (processor, features) = match group.arch {
            "generic" | SPIRV => (String::new(), String::new()),
            arch => {
                let id = arch.parse::<TargetId>().map_err(|source| Error::TargetId { name: origin(), source })?;
                if !amdgpu::knows_processor(&id.processor) {
                    let (processor, llvm) = (id.processor, bitcode::our_version());
                    return Err(Error::UnknownProcessor { name: origin(), processor, llvm });
                }
                let features = id.llvm_features();
                (id.processor, features)
            }
        };
        let target = amd.target(processor, features);
        let compared = own.iter().map(|found| ComparedImage {
            file: &found.origin.file,
            from_host: true,
            source: found.unit.as_ref().map_or(Source::AmdObject(found.image.image), Source::Unit),
        });
        let compared = ComparedTarget { name: group.arch.to_owned(), is_amd: true, images: compared.collect() };
        let image = |found: &&'a FoundImage<'a>| AmdImage {
            origin: &found.origin,
            bytes: found.image.image,
            unit: found.unit.as_ref(),
        };
        let images = own.iter().map(image);
        let is_partial = options.merges_device_code();
        let link =
            AmdImages { name: group.arch.to_owned(), target, options: amd, is_partial, images: images.collect() };
        Ok(HipTarget { triple: group.triple, link, compared })
    }

    /// The arguments that the link of this target rejects.
    fn refused(&self) -> Errors {
        let AmdImages { target, options, .. } = &self.link;
        let mut errors = Errors::default();
        if self.is_spirv() || self.link.units().is_empty() {
            return errors;
        }
        for (option, why) in &options.refused {
            errors.extend(Error::RefusedLinkerOption { option: option.clone(), gpus: "AMD", why: why.clone() });
        }
        for (option, processor) in options.processors.iter().filter(|(_, named)| *named != target.processor) {
            let (option, processor, target) = (option.clone(), processor.clone(), self.link.name.clone());
            errors.extend(Error::OtherProcessor { option, processor, target });
        }
        errors
    }

    fn is_spirv(&self) -> bool {
        self.triple.starts_with("spirv64")
    }

    /// A warning of a code object with another target than the one that the bundle names: inputs of ld.lld's own may have a setting.
    fn other_target(&self, object: &CodeObject) -> Option<String> {
        let name = &self.link.name;
        let own = name.parse::<TargetId>().ok().filter(|_| !self.link.target.processor.is_empty())?;
        let found = offload_bundle::amdgpu::header(&object.bytes).ok()?.target?;
        (found != own).then(|| {
            format!(
                "the code object for {name} is for {found} alone, because of what --device-linker= names: other GPUs of {name} cannot load it; \
                 compile that for {name}, too"
            )
        })
    }

    /// Describes the device link for `--offload-plan`.
    fn plan_report(
        &self,
        planned: Option<&PlannedTarget<'_>>,
        context: &LinkContext<'_>,
    ) -> Result<TargetReport, Errors> {
        let image = |image: &AmdImage<'_>| ImageReport {
            file: image.origin.file.clone(),
            offset: image.origin.offset,
            code: if image.is_bitcode() { "LLVM bitcode" } else { "machine code" },
        };
        let backend = self.linker(context).map(|linker| BackendReport {
            name: LLD,
            file: linker.display().to_string(),
            reason: WHY_LLD.to_owned(),
        });
        Ok(TargetReport {
            platform: "hip",
            target: self.link.name.clone(),
            images: self.link.images.iter().map(image).collect(),
            symbols: planned.map(PlannedTarget::symbol_reports).transpose()?.unwrap_or_default(),
            not_cut: planned.and_then(PlannedTarget::not_cut).map(str::to_owned),
            jobs: planned.map(PlannedTarget::job_reports).unwrap_or_default(),
            backend,
            ..TargetReport::default()
        })
    }

    /// Describes the device link for `--offload-report`.
    fn image_report(&self, context: &LinkContext<'_>) -> report::TargetReport {
        let image = |image: &AmdImage<'_>| report::InputReport {
            file: image.origin.file.clone(),
            offset: image.origin.offset,
            code: if image.is_bitcode() { "bitcode" } else { "object" },
        };
        let backend = self.linker(context).map(|linker| report::BackendReport {
            name: LLD,
            file: linker.display().to_string(),
            cuda: None,
            reason: WHY_LLD.to_owned(),
        });
        let images = self.link.images.iter().map(image).collect();
        report::TargetReport { target: self.link.name.clone(), images, ptx_flags: Vec::new(), backend }
    }

    /// Finds ld.lld, if it links this target.
    fn linker(&self, context: &LinkContext<'_>) -> Option<PathBuf> {
        code_object::linker(context).filter(|_| !self.is_spirv())
    }
}

impl HipLink<'_> {
    /// Runs the compatibility checks and prints their warnings.
    fn check(&self, context: &LinkContext<'_>) -> Result<(), Errors> {
        let _checking = span::traced("Compare translation units", String::new);
        let Request { program, options, .. } = context.request;
        let compared: Vec<&ComparedTarget<'_>> = self.targets.iter().map(|target| &target.compared).collect();
        let warnings = compat_checks::compare(&compared, &options.checks)?;
        warnings.iter().for_each(|text| warn(program, text));
        Ok(())
    }
}

impl DeviceLink for HipLink<'_> {
    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn triples(&self) -> Vec<&str> {
        self.targets.iter().map(|target| target.triple).collect()
    }

    fn early_registration(&self) -> Option<&'static dyn Registration> {
        Some(&registration::Hip)
    }

    fn link<'p>(&'p self, context: &LinkContext<'p>) -> Result<Box<dyn Products + 'p>, Errors> {
        Ok(Box::new(self.run(context)?))
    }

    fn compare_units(&self, context: &LinkContext<'_>) -> Result<(), Errors> {
        self.check(context)
    }

    fn compile_for_later(&self, context: &LinkContext<'_>) -> Result<(), Errors> {
        let result_cache = ResultCache::open(context, Vec::new())?;
        let (estimates, distribution) = (&Estimates::default(), &Distribution::default());
        let resources = Resources { link: context, result_cache: &result_cache, estimates, distribution };
        let machine = self.targets.iter().filter(|target| !target.is_spirv()).map(|target| &target.link);
        let reports = |planned: &[PlannedTarget<'_>]| self.plan_reports(planned, context);
        let compiled = amd_link::compile_partitions(&machine.collect::<Vec<_>>(), resources, &reports);
        result_cache.finish(context.request);
        compiled
    }

    fn diagnose(&self, context: &LinkContext<'_>) -> Result<(), Errors> {
        self.run(context).map(drop)
    }
}

impl HipLink<'_> {
    fn run(&self, context: &LinkContext<'_>) -> Result<HipProducts<'_>, Errors> {
        let result_cache = ResultCache::open(context, Vec::new())?;
        let (estimates, distribution) = (&Estimates::default(), &Distribution::default());
        let resources = Resources { link: context, result_cache: &result_cache, estimates, distribution };
        let linked = self.link_targets(resources);
        result_cache.finish(context.request);
        let cached = result_cache.counts();
        let linked = linked?;
        for (target, object) in self.targets.iter().zip(&linked) {
            llvm_messages::print(context, &target.link.name, &object.messages);
            target.other_target(object).iter().for_each(|text| warn(context.request.program, text));
        }
        let images = self.targets.iter().zip(linked);
        let images = images.map(|(target, object)| (target.triple.to_owned(), target.link.name.clone(), object));
        Ok(HipProducts { targets: &self.targets, images: images.collect(), cached })
    }

    /// Links all targets. SPIR-V is not compiled, so it needs no jobs.
    fn link_targets(&self, resources: Resources<'_>) -> Result<Vec<CodeObject>, Errors> {
        let context = resources.link;
        let (spirv, machine): (Vec<_>, Vec<_>) = self.targets.iter().partition(|target| target.is_spirv());
        let machine: Vec<_> = machine.iter().map(|target| &target.link).collect();
        let reports = |planned: &[PlannedTarget<'_>]| self.plan_reports(planned, context);
        let spirv = || spirv.iter().map(|target| target.link.link_spirv(target.triple, context)).collect::<Vec<_>>();
        let machine = || amd_link::link(&machine, resources, &reports);
        let ((spirv, machine), checked) = rayon::join(|| rayon::join(spirv, machine), || self.check(context));
        let ((spirv, machine), ()) = both(both(collect(spirv), machine), checked)?;
        let (mut spirv, mut machine) = (spirv.into_iter(), machine.into_iter());
        let next = |target: &HipTarget<'_>| if target.is_spirv() { spirv.next() } else { machine.next() };
        Ok(self.targets.iter().map(next).map(Option::unwrap_or_default).collect())
    }

    /// Describes the device links for `--offload-plan`. `planned` are those that are not for SPIR-V, in order.
    fn plan_reports(
        &self,
        planned: &[PlannedTarget<'_>],
        context: &LinkContext<'_>,
    ) -> Result<Vec<TargetReport>, Errors> {
        let mut planned = planned.iter();
        let mut next = |target: &HipTarget<'_>| if target.is_spirv() { None } else { planned.next() };
        self.targets.iter().map(|target| target.plan_report(next(target), context)).collect()
    }
}

/// The linked code of all targets.
struct HipProducts<'p> {
    /// The device links; none of a finished image.
    targets: &'p [HipTarget<'p>],
    /// Triple, target id and code object of each target, in the order of the bundle.
    images: Vec<(String, String, CodeObject)>,
    /// Numbers of cache hits and misses.
    cached: Option<(u64, u64)>,
}

impl HipProducts<'_> {
    /// What `--offload-report` prints about a bundle of this size.
    fn report(&self, bytes: usize, context: &LinkContext<'_>) -> report::ImageReport {
        let Request { options, output, .. } = context.request;
        let entry = |(triple, arch, object): &(String, String, CodeObject)| report::EntryReport {
            name: format!("{} {arch}", if triple.starts_with("spirv") { "spirv" } else { "code object" }),
            bytes: object.bytes.len() as u64,
            compression: if options.compress_hip { "zstd" } else { "none" }.to_owned(),
            uncompressed_bytes: None,
            made_of: self.targets.iter().any(|target| target.link.name == *arch).then(|| arch.clone()),
        };
        report::ImageReport {
            targets: self.targets.iter().map(|target| target.image_report(context)).collect(),
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
        let mut entries = vec![(host_id(options), &[][..])];
        let images = self.images.iter();
        entries
            .extend(images.map(|(triple, arch, object)| (image_id(triple, arch, options.llvm_rules), &*object.bytes)));
        let entries: Vec<(&str, &[u8])> = entries.iter().map(|(id, image)| (&**id, *image)).collect();
        if !self.targets.is_empty() {
            self.show(&entries, context);
        }
        let bundle = hip_bundle::write(&entries, HIP_ALIGNMENT);
        let bundle = if options.compress_hip { compressed(&bundle, options)? } else { bundle };
        Ok(Bundle {
            report: options.report.is_some().then(|| self.report(bundle.len(), context)),
            image: Box::new(Blobs::owned(vec![bundle])),
            registration: Box::new(registration::Hip),
            section: Some(options.fatbin_section),
            kept_as: Some("hipfb"),
        })
    }

    fn cache_counts(&self) -> Option<(u64, u64)> {
        self.cached
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
        let output =
            if options.emit_fatbin_only { context.request.output.display().to_string() } else { file("hipfb") };
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
