//! AMD's GPUs as a [`Machine`].

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use llvm_passes::amdgpu::PartitionCode;
use llvm_passes::equal_kernels::Bodies;
use llvm_passes::program;
use llvm_passes::reference_graph;
use llvm_passes::resolve;
use llvm_passes::resolve::UnitSymbols;
use llvm_passes::symbols::{Symbol, SymbolKind};
use llvm_passes::unit::Unit;

use crate::cli::amd_options;
use crate::cli::values::KernelFolding;
use crate::device::compat_checks::{ComparedImage, ComparedTarget, Source};
use crate::device::symbol_errors::{self, SourceCompiler};
use crate::device::symbols;
use crate::device::targets::DeviceImage;
use crate::diag::error::Errors;
use crate::machines::amdgcn::images;
use crate::machines::amdgcn::job_code::{AmdCode, AmdMade, Hides};
use crate::machines::amdgcn::join;
use crate::machines::amdgcn::soundness;
use crate::machines::amdgcn::target::{AmdArch, AmdImages, AmdObject, Amdgcn, CodeObject};
use crate::machines::error::Error;
use crate::machines::interface::{
    Again, Compiled, Fields, Generated, JobPart, Joined, Machine, NameFacts, NotCached, OnePiece, Planned, Step, Tool,
};
use crate::machines::job_code::{Emitted, JobCode, Made};
use crate::machines::unknown_input;
use crate::plan::report::BackendReport;
use crate::plan::target_plan::{Names, TargetPlan};
use crate::sys::temp_files;
use crate::toolchain::llvm_tools;
use crate::toolchain::ptxas::version_text;

/// What links code objects, in plans and reports, and why.
const LLD: &str = "ld.lld";
const WHY_LLD: &str = "LLVM generates the code, and ld.lld links it";

impl<'a> Machine for Amdgcn<'a> {
    type Arch = AmdArch;
    type Resolved = ();
    type Plan = ();
    type Code = AmdObject;
    type Stored = AmdObject;
    type Linked = CodeObject;

    fn name(&self) -> &'static str {
        "amdgcn"
    }

    fn rules(&self) -> program::Machine {
        program::Machine::Amdgpu
    }

    fn stem(&self, arch: &AmdArch) -> String {
        arch.stem()
    }

    fn whole_job(&self, arch: &AmdArch) -> String {
        arch.stem()
    }

    fn llvm_options(&self) -> Vec<String> {
        amd_options::all_llvm_options(self.link.request.options, self.link.request.device)
    }

    fn require_tools(&self) -> Result<(), Errors> {
        llvm_tools::lld(&self.link.request.options.parts).map(drop)
    }

    fn check_images(&self, target: &AmdImages<'_>) -> Result<(), Errors> {
        // A dry run links nothing.
        if !self.link.request.mode.dry {
            images::require_objects(target)?;
        }
        images::trace(self, target)
    }

    fn one_piece(&self, target: &AmdImages<'_>) -> Option<OnePiece> {
        let options = &target.arch.options;
        let named = target.images.iter().find(|image| !image.from_host);
        let is_one = options.is_one_piece() || images::has_objects(target) || named.is_some();
        let why_named =
            || named.map(|image| format!("{}, which --device-linker= names, is part of the program", image.origin));
        is_one.then(|| OnePiece { reason: options.why_one_piece().or_else(why_named) })
    }

    fn cost(&self, instructions: u64, largest: u64) -> u64 {
        // LLVM takes more than linear time for large functions of AMD GPUs: a kernel of 7,000 instructions took five times as long as 200
        // kernels together that have as many.
        const LINEAR_UP_TO: u64 = 1500;
        instructions.saturating_add(largest.saturating_mul(largest) / LINEAR_UP_TO)
    }

    fn compared<'i>(&self, target: &'i AmdImages<'i>) -> ComparedTarget<'i> {
        let images = target.images.iter().map(|image| ComparedImage {
            file: &image.origin.file,
            from_host: image.from_host,
            source: image.unit.map_or(Source::AmdObject(image.bytes), Source::Unit),
        });
        ComparedTarget { name: target.arch.name.clone(), is_amd: true, images: images.collect() }
    }

    fn check_units(&self, units: &[&Unit<'_>]) -> Result<(), Errors> {
        let versions: Vec<Option<u64>> =
            units.iter().map(|unit| Ok(unit.amd_facts()?.version)).collect::<Result<_, Errors>>()?;
        images::same_version(&versions, &units.iter().map(|unit| unit.name()).collect::<Vec<_>>())
    }

    fn resolves(&self, target: &AmdImages<'_>) -> bool {
        // ld.lld resolves the names of objects alone.
        !target.units().is_empty()
    }

    fn symbols(&self, image: &DeviceImage<'_>, _target: &AmdImages<'_>) -> Result<UnitSymbols, Errors> {
        Ok(UnitSymbols { symbols: symbols::of_image(None, &image.origin, image.bytes)?.into_owned() })
    }

    fn resolve(&self, facts: &NameFacts<'_, Self>) -> Result<(Names, ()), Errors> {
        let NameFacts { target, symbols, may_be_cut, users } = facts;
        let mut resolution = resolve::resolve(symbols, &|_| false);
        let options = &target.arch.options;
        if options.named_input.is_some() || self.link.request.options.merges_device_code() {
            // ld.lld reports what these files do not define, either. The link of the program defines what a relocatable object does not.
            resolution.undefined.clear();
        }
        // A library may reference what it does not need here: ld.lld reports what is left of that after the optimization.
        let is_of_host = |unit: &usize| target.images.get(*unit).is_some_and(|image| image.from_host);
        resolution.undefined.retain(|undefined| undefined.referenced_by.iter().any(is_of_host));
        let origins: Vec<_> = target.images.iter().map(|image| (&image.origin, SourceCompiler::Clang)).collect();
        symbol_errors::unresolved(&resolution, &target.arch, &origins, users)?;
        let used: BTreeSet<String> = images::names_of_objects(target, symbols);
        let visible = match may_be_cut {
            true => exported(target)?,
            false => used.iter().chain(&options.roots).cloned().collect(),
        };
        Ok((Names { resolution, visible, used: used.into_iter().collect() }, ()))
    }

    fn also_visible(&self, target: &AmdImages<'_>, _symbols: &[UnitSymbols]) -> Result<BTreeSet<String>, Errors> {
        exported(target)
    }

    fn why_not_folded(&self, _target: &AmdImages<'_>, _bodies: &[&Bodies]) -> Option<String> {
        let is_safe = self.link.request.options.kernel_folding == KernelFolding::Safe;
        is_safe.then(|| "kernels in code objects cannot be copied".to_owned())
    }

    fn other_code(&self) -> &'static str {
        "an object"
    }

    fn plan(&self, _facts: &NameFacts<'_, Self>, _plan: &TargetPlan, _resolved: ()) -> Result<(), Errors> {
        Ok(())
    }

    fn job_code(&self, target: &Planned<'_, Self>, part: &JobPart<'_>) -> Result<JobCode, Errors> {
        let arch = &target.images.arch;
        Ok(JobCode::Amdgpu(AmdCode {
            target: arch.target.clone(),
            hides: match arch.options.named_input {
                Some(_) => Hides::Nothing,
                None if arch.options.hides_functions => Hides::Functions,
                None => Hides::Unexported,
            },
            object: self.link.temp_files.file(&format!("{}.o", part.name)),
        }))
    }

    fn finish(
        &self,
        _target: &Planned<'_, Self>,
        name: &str,
        _code: &JobCode,
        emitted: Emitted,
    ) -> Result<Generated<AmdObject>, Errors> {
        let Emitted::Amdgpu(PartitionCode::Object(object, pointer_calls)) = emitted else {
            return Err(Error::NoCode { name: name.to_owned() }.into());
        };
        let code = AmdObject { object: Some(object), calls: Vec::new(), pointer_calls };
        Ok(Generated { code, ..Generated::default() })
    }

    fn read(
        &self,
        _target: &Planned<'_, Self>,
        name: &str,
        code: &JobCode,
        made: Made,
        _sizes: &[u64],
    ) -> Result<Generated<AmdObject>, Errors> {
        let (JobCode::Amdgpu(code), Made::Amdgpu(made)) = (code, made) else {
            return Err(Error::NoCode { name: name.to_owned() }.into());
        };
        let AmdMade { calls, pointer_calls } = made;
        let object = calls.is_empty().then(|| temp_files::read_file(&code.object)).transpose()?;
        Ok(Generated { code: AmdObject { object, calls, pointer_calls }, ..Generated::default() })
    }

    fn check(&self, arch: &AmdArch, code: &AmdObject, kernels: &[String]) -> Result<(), Errors> {
        let AmdObject { object, calls, .. } = code;
        if object.is_none() && !calls.is_empty() {
            // It needs functions of other partitions, so that it is compiled with these instead.
            return Ok(());
        }
        let file = self.link.temp_files.file(&format!("{}.o", arch.stem()));
        let unusable = |flaw| Error::unusable(Path::new(self.link.request.program), arch, flaw, &file);
        let object = object.as_deref().unwrap_or_default();
        Ok(soundness::check(object, &arch.target.processor, false, kernels).map_err(unusable)?)
    }

    fn check_linked(&self, arch: &AmdArch, linked: &CodeObject) -> Result<(), Errors> {
        let CodeObject { bytes, kernels } = linked;
        let unusable = |flaw| {
            let lld = llvm_tools::lld(&self.link.request.options.parts).map_or_else(|_| LLD.into(), |tool| tool.path);
            Error::unusable(&lld, arch, flaw, &self.link.temp_files.file(&format!("{}.img", arch.stem())))
        };
        Ok(soundness::check(bytes, &arch.target.processor, true, kernels).map_err(unusable)?)
    }

    fn store(&self, code: &AmdObject) -> AmdObject {
        code.clone()
    }

    fn restore(
        &self,
        _name: &str,
        _described: &str,
        _code: &JobCode,
        stored: AmdObject,
    ) -> Result<Option<AmdObject>, Errors> {
        // A damaged entry may have neither the object nor the reason why there is none.
        Ok(Some(stored).filter(|stored| stored.object.is_some() || !stored.calls.is_empty()))
    }

    fn join(
        &self,
        target: &Planned<'_, Self>,
        parts: Vec<Compiled<AmdObject>>,
        _assembled: Vec<AmdObject>,
        again: Again<'_, Self>,
    ) -> Result<Joined<CodeObject>, Errors> {
        join::join(self, target, parts, again)
    }

    fn code_bytes(&self, code: &AmdObject) -> u64 {
        code.object.as_ref().map_or(0, |object| object.len() as u64)
    }

    fn code_fields(&self, code: &JobCode) -> Result<Fields, NotCached> {
        let JobCode::Amdgpu(AmdCode { target, hides, object: _ }) = code else { return Err(None) };
        if target.prints_passes {
            return Err(Some("LLVM prints its passes".to_owned()));
        }
        Ok(vec![("target", format!("{target:?}").into_bytes()), ("hides", format!("{hides:?}").into_bytes())])
    }

    fn target_fields(&self, target: &AmdImages<'_>) -> Result<Fields, NotCached> {
        let AmdArch { target, options, .. } = &target.arch;
        if target.prints_passes {
            return Err(Some("LLVM prints its passes".to_owned()));
        }
        if !options.traced.is_empty() {
            return Err(Some("--trace-symbol= prints what an earlier link would have".to_owned()));
        }
        if let Some(argument) = options.linker_arguments.first() {
            return Err(Some(format!("ld.lld may read or write files for {argument}")));
        }
        Ok(vec![("target", format!("{target:?}").into_bytes()), ("options", format!("{options:?}").into_bytes())])
    }

    fn tools(&self, step: Step) -> Result<Vec<Tool<'_>>, String> {
        if step == Step::Compile {
            return Ok(Vec::new());
        }
        let path = llvm_tools::lld(&self.link.request.options.parts).map_err(|errors| errors.to_string())?.path;
        let program = path.clone();
        Ok(vec![Tool {
            name: LLD,
            path,
            version: Some(Box::new(move || Ok(version_text(&program).unwrap_or_default()))),
        }])
    }

    fn unknown_input(&self, _step: Step) -> Option<String> {
        unknown_input::of_llvm(&self.llvm_options(), &unknown_input::variables())
    }

    fn backend(&self, _arch: &AmdArch) -> Option<BackendReport> {
        let linker = llvm_tools::lld(&self.link.request.options.parts).ok()?.path;
        Some(BackendReport { name: LLD, file: linker.display().to_string(), reason: WHY_LLD.to_owned() })
    }
}

/// The names that the code object exports.
fn exported(target: &AmdImages<'_>) -> Result<BTreeSet<String>, Errors> {
    let (mut exported, mut functions) = (BTreeSet::new(), HashSet::new());
    let is_function = |symbol: &Symbol| symbol.kind == SymbolKind::Function;
    for unit in target.units() {
        let facts = unit.amd_facts()?;
        exported.extend(facts.exported.iter().cloned());
        if target.arch.options.hides_functions {
            functions.extend(
                reference_graph::symbols(&facts.graph).into_iter().filter(is_function).map(|symbol| symbol.name),
            );
        }
    }
    exported.retain(|name| !functions.contains(name));
    Ok(exported)
}
