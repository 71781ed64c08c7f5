//! Device code for AMD's GPUs, of any kind.

use llvm_passes::amdgpu;
use llvm_passes::bitcode;
use offload_bundle::amdgpu::TargetId;

use crate::cli::amd_options::{self, AmdOptions};
use crate::device::amd_targets::{self, Candidate, Group};
use crate::device::targets::{Code, DeviceImage};
use crate::diag::error::{Errors, both};
use crate::host::embedded_images::FoundImage;
use crate::host::input_files::{InputFiles, Place};
use crate::image::report;
use crate::kinds::error::Error;
use crate::kinds::interface::Setup;
use crate::lto::device_link as lto;
use crate::lto::plan_report;
use crate::lto::result_cache::ResultCache;
use crate::machines::amdgcn::target::{AmdArch, AmdImages, Amdgcn, CodeObject};
use crate::machines::interface::Machine;
use crate::plan::link_context::{LinkContext, Request};
use crate::plan::report::{BackendReport, TargetReport};

/// The target of images that are finished as SPIR-V, which the runtime compiles.
pub const SPIRV: &str = "amdgcnspirv";

/// The targets of a kind that are AMD's GPUs.
#[derive(Default)]
pub struct AmdCode<'a> {
    /// The targets, as bundles order them.
    pub targets: Vec<AmdTarget<'a>>,
    /// Warnings of their options.
    pub warnings: Vec<String>,
}

/// One target.
pub struct AmdTarget<'a> {
    /// Its triple, as the images spell it.
    pub triple: &'a str,
    /// The images.
    pub link: AmdImages<'a>,
}

impl<'a> AmdCode<'a> {
    /// Groups these images by target, and reads the options of each. Prints LLVM's help, if options request it.
    ///
    /// # Errors
    /// Images that cannot be linked, and options that cannot be satisfied.
    pub fn plan(images: &[&'a FoundImage<'a>], setup: &Setup<'a>) -> Result<Self, Errors> {
        let Request { program, options, .. } = setup.request;
        let llvm_options = amd_options::llvm_options(options);
        if !llvm_options.is_empty() && !llvm_passes::parse_llvm_options(program, &llvm_options) {
            return Err(Error::LlvmOptions { options: llvm_options.join(" ") }.into());
        }
        let candidates = images.iter().map(|found| candidate(found, setup.inputs)).collect::<Vec<_>>();
        let mut groups = amd_targets::group(&candidates, &options.should_extract, options.llvm_rules);
        amd_targets::sort(&mut groups);
        let mut errors = Errors::default();
        // A dry run bundles nothing.
        if let Some((one, other)) = amd_targets::conflict(&groups).filter(|_| !setup.request.mode.dry) {
            errors.extend(conflict(&groups[one], &groups[other], images));
        }
        let mut targets = Vec::new();
        for group in &groups {
            match AmdTarget::new(group, images, setup) {
                Ok(target) => {
                    errors.extend(target.refused());
                    targets.push(target);
                }
                Err(error) => errors.extend(error),
            }
        }
        let mut warnings: Vec<String> =
            targets.iter().flat_map(|target| target.link.arch.options.unknown.clone()).collect();
        warnings.sort();
        warnings.dedup();
        let mut warnings: Vec<String> =
            warnings.iter().map(|word| format!("{word} has no effect on this device link")).collect();
        warnings.extend(amd_targets::without_code(&candidates, &options.should_extract).iter().map(|arch| {
            format!("--should-extract={arch}: no device image of the link is for {arch}; compile a file with --offload-arch={arch}")
        }));
        errors.or(AmdCode { targets, warnings })
    }

    /// Does `work` with the results of earlier links. Returns also these.
    ///
    /// # Errors
    /// Those of the work, and tools that changed meanwhile.
    pub fn with_cache<'p, T>(
        &self,
        kind: &'static str,
        folds_kernels: bool,
        context: &LinkContext<'p>,
        work: impl FnOnce(&lto::DeviceLink<'_, Amdgcn<'_>>) -> Result<T, Errors>,
    ) -> Result<(T, ResultCache<'p>), Errors> {
        let result_cache = ResultCache::open(context, Vec::new())?;
        let machine = Amdgcn { link: context };
        let (spirv, targets): (Vec<_>, Vec<_>) = self.targets.iter().partition(|target| target.is_spirv());
        let targets: Vec<AmdImages<'_>> = targets.into_iter().map(|target| target.link.clone()).collect();
        let others = lto::Others {
            compared: spirv.iter().map(|target| machine.compared(&target.link)).collect(),
            reports: spirv.iter().map(|target| target.plan_report(kind)).collect(),
        };
        let link = lto::DeviceLink {
            kind,
            folds_kernels,
            machine: &machine,
            targets: &targets,
            others,
            link: context,
            result_cache: &result_cache,
        };
        let done = both(result_cache.check_tools(), work(&link));
        let ((), done) = done.inspect_err(|_| result_cache.finish(context.request))?;
        Ok((done, result_cache))
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

impl<'a> AmdTarget<'a> {
    fn new(group: &Group<'a>, images: &[&'a FoundImage<'a>], setup: &Setup<'a>) -> Result<Self, Errors> {
        let own: Vec<&'a FoundImage<'a>> =
            group.images.iter().filter_map(|index| images.get(*index).copied()).collect();
        let origin = || own.first().map_or_else(String::new, |found| found.origin.to_string());
        let mut amd = AmdOptions::read(setup.request.options, group.triple);
        amd.leave_to_linker(setup.line_code.left_to_lld(group.triple));
        let (processor, features) = match group.arch {
            "generic" | SPIRV => (String::new(), String::new()),
            arch => {
                let id = arch.parse::<TargetId>().map_err(|source| Error::TargetId { name: origin(), source })?;
                if !amdgpu::knows_processor(&id.processor) {
                    let (processor, llvm) = (id.processor, bitcode::our_version());
                    return Err(Error::UnknownProcessor { name: origin(), processor, llvm }.into());
                }
                let features = id.llvm_features();
                (id.processor, features)
            }
        };
        let target = amd.target(processor, features);
        let images = own.iter().map(|found| DeviceImage::from_host(found));
        let arch = AmdArch { name: group.arch.to_owned(), target, options: amd };
        let mut link = AmdImages { arch, images: images.collect() };
        let roots = link.arch.options.roots.clone();
        setup.line_code.add_amd(group.triple, &mut link, &roots)?;
        Ok(AmdTarget { triple: group.triple, link })
    }

    /// The arguments that the link of this target rejects.
    fn refused(&self) -> Errors {
        let AmdArch { target, options, .. } = &self.link.arch;
        let mut errors = Errors::default();
        if self.is_spirv() || self.link.units().is_empty() {
            return errors;
        }
        for (option, why) in &options.refused {
            errors.extend(Error::RefusedLinkerOption { option: option.clone(), gpus: "AMD", why: why.clone() });
        }
        for (option, processor) in options.processors.iter().filter(|(_, named)| *named != target.processor) {
            let (option, processor, target) = (option.clone(), processor.clone(), self.link.arch.name.clone());
            errors.extend(Error::OtherProcessor { option, processor, target });
        }
        errors
    }

    /// Describes the link for `--offload-plan`, if it is not the machine's.
    fn plan_report(&self, kind: &'static str) -> TargetReport {
        plan_report::unplanned(kind, self.link.arch.name.clone(), &self.link)
    }

    /// Whether nothing but the images decides for which GPUs the code is: objects that `--device-linker=` names may have a setting.
    pub fn has_own_code(&self) -> bool {
        let is_named_object = |image: &DeviceImage<'_>| image.code == Code::Object && !image.from_host;
        self.link.arch.options.named_input.is_none() && !self.link.images.iter().any(is_named_object)
    }

    pub fn is_spirv(&self) -> bool {
        self.triple.starts_with("spirv64")
    }

    /// A warning of a code object with another target than the one that the bundle names: objects that `--device-linker=` names may have a setting.
    pub fn other_target(&self, object: &CodeObject) -> Option<String> {
        let name = &self.link.arch.name;
        let own = name.parse::<TargetId>().ok().filter(|_| !self.link.arch.target.processor.is_empty())?;
        let found = offload_bundle::amdgpu::header(&object.bytes).ok()?.target?;
        (found != own).then(|| {
            format!(
                "the code object for {name} is for {found} alone, because of what --device-linker= names: other GPUs of {name} cannot load it; \
                 compile that for {name}, too"
            )
        })
    }

    /// Describes the device link for `--offload-report`.
    pub fn image_report(&self, machine: &Amdgcn<'_>) -> report::TargetReport {
        let backend = machine.backend(&self.link.arch).filter(|_| !self.is_spirv());
        let backend = backend.map(|BackendReport { name, file, reason }| report::BackendReport {
            name,
            file,
            cuda: None,
            reason,
        });
        let images = self.link.images.iter().map(report::input).collect();
        report::TargetReport { target: self.link.arch.name.clone(), images, ptx_flags: Vec::new(), backend }
    }
}
