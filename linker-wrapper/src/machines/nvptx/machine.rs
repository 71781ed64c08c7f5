//! NVIDIA's GPUs as a [`Machine`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use llvm_passes::equal_kernels::Bodies;
use llvm_passes::pipeline::NamedBitcode;
use llvm_passes::program;
use llvm_passes::resolve::UnitSymbols;
use llvm_passes::symbols::SymbolKind;
use offload_bundle::arch::GpuArch;
use offload_bundle::{cubin, ptx};

use crate::cli::values::{Backend, KernelFolding};
use crate::device::compat_checks::ComparedTarget;
use crate::device::symbols;
use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::diag::error::{Errors, collect};
use crate::machines::error::Error as MachineError;
use crate::machines::flaw::Flaw;
use crate::machines::interface::{
    Again, Compiled, Fields, Generated, JobPart, Joined, Machine, NameFacts, NotCached, Planned, Step, Tool,
};
use crate::machines::job_code::{Emitted, JobCode, Made};
use crate::machines::nvptx::backend::BackendDecision;
use crate::machines::nvptx::codegen::{self, Assembler, DeviceObject, Form};
use crate::machines::nvptx::error::Error;
use crate::machines::nvptx::job_code::{NvptxCode, NvptxMade, NvptxText};
use crate::machines::nvptx::outputs::{MachineCode, Relocatable};
use crate::machines::nvptx::plan::{self, NvptxPlan, Resolved};
use crate::machines::nvptx::products::{CompiledCode, LinkedCode, StoredCode};
use crate::machines::nvptx::soundness;
use crate::machines::nvptx::target::Nvptx;
use crate::machines::nvptx::{complete, generate, input_objects, job, join, keys};
use crate::plan::report::{BackendReport, Outputs};
use crate::plan::target_plan::{Names, TargetPlan};
use crate::sys::temp_files;

/// From this GPU on machine code has a second form, in which kernels cannot be copied.
const FIRST_WITH_TWO_FORMS: u32 = 100;

/// Options of ptxas for line tables and debug information.
const PTXAS_DEBUG: [&str; 5] = ["-g", "--device-debug", "-lineinfo", "--generate-line-info", "-device-debug"];

impl<'a> Machine for Nvptx<'a> {
    type Arch = GpuArch;
    type Resolved = Resolved;
    type Plan = NvptxPlan<'a>;
    type Code = CompiledCode;
    type Stored = StoredCode;
    type Linked = LinkedCode;

    fn name(&self) -> &'static str {
        "nvptx64"
    }

    fn rules(&self) -> program::Machine {
        program::Machine::Nvptx
    }

    fn stem(&self, arch: &GpuArch) -> String {
        arch.to_string()
    }

    fn whole_job(&self, arch: &GpuArch) -> String {
        format!("{arch}.0")
    }

    fn llvm_options(&self) -> Vec<String> {
        self.options().llvm_options.clone()
    }

    fn compared<'i>(&self, target: &'i TargetImages<'i>) -> ComparedTarget<'i> {
        ComparedTarget::of_cuda(target)
    }

    fn symbols(&self, image: &DeviceImage<'_>, target: &TargetImages<'_>) -> Result<UnitSymbols, Errors> {
        match image.code {
            // Tests of compilers give a dry run objects of the host in place of cubins, which nothing will link.
            Code::Cubin if self.is_dry_run() => {
                Ok(UnitSymbols { symbols: symbols::of_image(None, &image.origin, image.bytes)?.into_owned() })
            }
            Code::Cubin => cubin_symbols(image, target),
            Code::Ptx => Ok(symbols::of_ptx(image.bytes)),
            Code::Bitcode | Code::LtoIr | Code::Object => Ok(UnitSymbols::default()),
        }
    }

    fn resolve(&self, facts: &NameFacts<'_, Self>) -> Result<(Names, Resolved), Errors> {
        plan::resolve(self, facts)
    }

    fn also_visible(&self, _target: &TargetImages<'_>, symbols: &[UnitSymbols]) -> Result<BTreeSet<String>, Errors> {
        let symbols = symbols.iter().flat_map(|unit| &unit.symbols);
        let kernels = symbols.filter(|symbol| symbol.kind == SymbolKind::Kernel);
        Ok(kernels.map(|symbol| symbol.name.clone()).collect())
    }

    fn why_not_folded(&self, target: &TargetImages<'_>, bodies: &[&Bodies]) -> Option<String> {
        let options = self.options();
        if options.relocatable {
            return Some("a later link decides about the kernels of relocatable code".to_owned());
        }
        if self.link.request.options.kernel_folding != KernelFolding::Safe {
            let has_units = target.images.iter().any(|image| image.rdc.is_some());
            return has_units.then(|| "units of nvcc register their kernels themselves".to_owned());
        }
        let sass = self.entries.sass_from(target.arch);
        if let Some(arch) = sass.iter().find(|arch| arch.number >= FIRST_WITH_TWO_FORMS) {
            return Some(format!("kernels in machine code for {arch} cannot be copied"));
        }
        let for_ptxas = |word: &String| PTXAS_DEBUG.contains(&word.as_str());
        let has_tables = options.debug
            || options.ptxas_arguments.iter().any(for_ptxas)
            || bodies.iter().any(|bodies| bodies.has_debug_information());
        has_tables.then(|| "kernels with line tables or debug information cannot be copied".to_owned())
    }

    fn other_code(&self) -> &'static str {
        "machine code or PTX"
    }

    fn plan(
        &self,
        facts: &NameFacts<'_, Self>,
        plan: &TargetPlan,
        resolved: Resolved,
    ) -> Result<NvptxPlan<'a>, Errors> {
        let own = NvptxPlan::new(self, facts, plan, resolved);
        if !plan.partitions.is_empty() || own.needs.joins {
            // Chosen before the long work, and in time for the plan to name it.
            own.codegen(self.backends)?;
        }
        Ok(own)
    }

    fn is_finishable(&self, target: &Planned<'_, Self>) -> Result<bool, Errors> {
        Ok(target.own.is_finishable && target.own.codegen(self.backends)?.can_finish())
    }

    fn job_code(&self, target: &Planned<'_, Self>, part: &JobPart<'_>) -> Result<JobCode, Errors> {
        job::code(self, target, part)
    }

    fn library(&self) -> Option<NamedBitcode<'_>> {
        self.libraries.libdevice()
    }

    fn finish(
        &self,
        target: &Planned<'_, Self>,
        name: &str,
        code: &JobCode,
        emitted: Emitted,
    ) -> Result<Generated<CompiledCode>, Errors> {
        let (JobCode::Nvptx(code), Emitted::Nvptx(texts)) = (code, emitted) else {
            return Err(MachineError::NoCode { name: name.to_owned() }.into());
        };
        code.write_sources(&texts)?;
        let mut texts: Vec<NvptxText> = texts.into_iter().map(NvptxText::of).collect();
        let compiled = with_backend(self, target, name, code, &mut texts)?;
        Ok(generated(compiled, &[], &[]))
    }

    fn read(
        &self,
        target: &Planned<'_, Self>,
        name: &str,
        code: &JobCode,
        made: Made,
        sizes: &[u64],
    ) -> Result<Generated<CompiledCode>, Errors> {
        let (JobCode::Nvptx(code), Made::Nvptx(made)) = (code, made) else {
            return Err(MachineError::NoCode { name: name.to_owned() }.into());
        };
        let compiled = match &code.assembler {
            Some(assembler) => read_files(code, assembler, made)?,
            // The library that is loaded in this process compiles the PTX that the worker has left in files.
            None => {
                let mut texts: Vec<NvptxText> = made.texts.into_iter().map(NvptxText::in_file).collect();
                with_backend(self, target, name, code, &mut texts)?
            }
        };
        Ok(generated(compiled, &code.outputs.machine_code, sizes))
    }

    fn check(&self, arch: &GpuArch, code: &CompiledCode, kernels: &[String]) -> Result<(), Errors> {
        let all = [&code.kernels, kernels].concat();
        let of_cubin = if codegen::keeps_kernels(&self.options().ptxas_arguments) { &all[..] } else { &[] };
        for object in &code.objects {
            let wanted = if object.form == Form::Cubin { of_cubin } else { &all };
            let unusable = |flaw| MachineError::unusable(&self.generator(*arch), object.arch, flaw, &object.path);
            soundness::check(object.form, &object.bytes, object.arch, wanted).map_err(unusable)?;
        }
        for (arch, text) in &code.ptx {
            soundness::check_ptx(text, *arch, &all).map_err(|flaw| self.unusable_ptx(*arch, flaw))?;
        }
        Ok(())
    }

    fn check_linked(&self, arch: &GpuArch, linked: &LinkedCode) -> Result<(), Errors> {
        let LinkedCode { sass, ptx, sass_kernels, ptx_kernels, given, .. } = linked;
        // A damaged list has no kernels for the last cubins.
        let all = sass_kernels.iter().map(Some).chain(std::iter::repeat(None));
        for ((of, cubin), kernels) in sass.iter().zip(all).filter(|((of, _), _)| !given.contains(of)) {
            let file = self.link.temp_files.file(&format!("{of}.linked.cubin"));
            let unusable = |flaw| MachineError::unusable(&self.cubin_linker(*arch), of, flaw, &file);
            let kernels = kernels.ok_or_else(|| unusable(Flaw::Empty))?;
            soundness::check_cubin(cubin, *of, kernels).map_err(unusable)?;
        }
        for (of, text) in ptx {
            soundness::check_ptx(text, *of, ptx_kernels).map_err(|flaw| self.unusable_ptx(*of, flaw))?;
        }
        Ok(())
    }

    fn store(&self, code: &CompiledCode) -> StoredCode {
        StoredCode::of(code)
    }

    fn restore(
        &self,
        name: &str,
        described: &str,
        code: &JobCode,
        stored: StoredCode,
    ) -> Result<Option<CompiledCode>, Errors> {
        let JobCode::Nvptx(code) = code else { return Ok(None) };
        let StoredCode { cubins, ptx, diagnostics } = stored;
        let mut objects = Vec::new();
        for (arch, bytes) in cubins {
            // nvlink reads files.
            let path = self.link.temp_files.write(&format!("{name}.{arch}.cubin"), &bytes)?;
            let is_finished = cubin::parse(&bytes).is_ok_and(|cubin| !cubin.is_relocatable());
            objects.push(DeviceObject::cubin(described.to_owned(), arch, path, bytes, !is_finished));
        }
        // nvlink leaves finished code out without a word.
        let fits = |(object, output): (&DeviceObject, &MachineCode)| {
            object.arch == code.emissions[output.emission].arch
                && (object.unlinked || output.relocatable != Relocatable::Always)
        };
        let expected = &code.outputs.machine_code;
        let all_fit = objects.len() == expected.len() && objects.iter().zip(expected).all(fits);
        let of_ptx = || ptx.first().map(|(_, text)| ptx::outline(text).kernels);
        let kernels = objects.first().map(|object| soundness::kernels_of_cubin(&object.bytes)).or_else(of_ptx);
        Ok(all_fit.then(|| CompiledCode { objects, kernels: kernels.unwrap_or_default(), ptx, diagnostics }))
    }

    fn assemblies(&self, target: &Planned<'_, Self>) -> Vec<usize> {
        input_objects::assemblies(target)
    }

    fn assembly_fields(&self, target: &Planned<'_, Self>, place: usize) -> Result<Fields, NotCached> {
        keys::assembly(self, target, input_objects::text_of(&target.images.images[place]))
    }

    fn assemble(
        &self,
        target: &Planned<'_, Self>,
        place: usize,
        stored: Option<StoredCode>,
    ) -> Result<Generated<CompiledCode>, Errors> {
        input_objects::assemble(self, target, place, stored)
    }

    fn declare(&self, target: &Planned<'_, Self>, place: usize, code: CompiledCode) -> Result<CompiledCode, Errors> {
        input_objects::declare(self, target, place, code)
    }

    fn join(
        &self,
        target: &Planned<'_, Self>,
        parts: Vec<Compiled<CompiledCode>>,
        assembled: Vec<CompiledCode>,
        again: Again<'_, Self>,
    ) -> Result<Joined<LinkedCode>, Errors> {
        join::join(self, target, parts, assembled, again)
    }

    fn diagnostics<'c>(&self, code: &'c CompiledCode) -> &'c [String] {
        &code.diagnostics
    }

    fn code_bytes(&self, code: &CompiledCode) -> u64 {
        code.objects.iter().map(|object| object.bytes.len() as u64).sum()
    }

    fn code_fields(&self, code: &JobCode) -> Result<Fields, NotCached> {
        keys::partition(self, code)
    }

    fn target_fields(&self, target: &TargetImages<'_>) -> Result<Fields, NotCached> {
        keys::target(self, target)
    }

    fn tools(&self, step: Step) -> Result<Vec<Tool<'_>>, String> {
        keys::tools(self, step)
    }

    fn unknown_input(&self, step: Step) -> Option<String> {
        complete::unknown_input(step, self.options())
    }

    fn needed_here(&self) -> Option<String> {
        complete::needed_here(self.options())
    }

    fn choose_tools(&self, target: &TargetImages<'_>) {
        // The key depends on the backend, so choosing it again cannot fail.
        let _ = self.backends.choose(&plan::most_needs(target, self));
    }

    fn backend(&self, arch: &GpuArch) -> Option<BackendReport> {
        let decisions = self.backends.decisions();
        let decision = decisions.into_iter().find(|decision| decision.target == *arch)?;
        let file = decision.path.display().to_string();
        Some(BackendReport { name: decision.backend.option(), file, reason: decision.reason() })
    }

    fn outputs(&self, target: &Planned<'_, Self>) -> Vec<Outputs> {
        let NvptxPlan { sass, ptx, .. } = &target.own;
        let sass = sass.iter().map(ToString::to_string).collect();
        let ptx = ptx.iter().map(|arch| arch.virtual_name()).collect();
        vec![
            Outputs { key: "sass", name: "machine code", targets: sass },
            Outputs { key: "ptx", name: "PTX", targets: ptx },
        ]
    }
}

impl Nvptx<'_> {
    /// What makes machine code of PTX for a target: ptxas or a library.
    fn generator(&self, arch: GpuArch) -> PathBuf {
        let decision = self.backends.decisions().into_iter().find(|decision| decision.target == arch);
        decision.map_or_else(|| PathBuf::from("ptxas"), |decision| decision.path)
    }

    /// What links the machine code of a target: nvlink or a library.
    fn cubin_linker(&self, arch: GpuArch) -> PathBuf {
        let decision = self.backends.decisions().into_iter().find(|decision| decision.target == arch);
        match decision {
            Some(BackendDecision { backend: Backend::NvJitLink | Backend::Driver, path, .. }) => path,
            _ => {
                self.backends.toolkit_files().and_then(|(_, nvlink)| nvlink).unwrap_or_else(|| PathBuf::from("nvlink"))
            }
        }
    }

    /// The error for PTX, which LLVM emits and, of LTO-IR, nvlink.
    fn unusable_ptx(&self, arch: GpuArch, flaw: Flaw) -> MachineError {
        let (program, name) = (self.link.request.program, arch.virtual_name());
        MachineError::unusable(Path::new(program), &name, flaw, &self.link.temp_files.file(&format!("{name}.ptx")))
    }
}

/// Reads what a worker has left in files.
fn read_files(code: &NvptxCode, assembler: &Assembler, made: NvptxMade) -> Result<CompiledCode, Errors> {
    let kernels = made.kernels().to_vec();
    let objects = made.objects.into_iter().map(|object| assembler.read(object)).collect::<Result<_, _>>()?;
    let ptx = code.outputs.ptx.iter();
    let ptx = ptx.map(|ptx| Ok((code.emissions[ptx.emission].arch, temp_files::read_file(&ptx.path)?)));
    Ok(CompiledCode::new(objects, collect(ptx)?, kernels))
}

/// Returns the symbols of a cubin, which must be relocatable unless it is the only image.
fn cubin_symbols(image: &DeviceImage<'_>, target: &TargetImages<'_>) -> Result<UnitSymbols, Errors> {
    let symbols = symbols::of_cubin(&image.origin, image.bytes)?;
    let relocatable = cubin::parse(image.bytes).is_ok_and(|cubin| cubin.is_relocatable());
    if !relocatable && target.images.len() > 1 {
        return Err(Error::FinishedCubin { name: image.origin.to_string(), arch: target.arch }.into());
    }
    Ok(symbols)
}

/// Generates the outputs with the backend of the link.
fn with_backend<'a>(
    machine: &Nvptx<'a>,
    target: &Planned<'_, Nvptx<'a>>,
    name: &str,
    code: &NvptxCode,
    texts: &mut [NvptxText],
) -> Result<CompiledCode, Errors> {
    generate::generate(name, code, texts, &target.own.codegen(machine.backends)?)
}

/// Code that tools generated, with what was learned of their memory from texts of these sizes.
fn generated(code: CompiledCode, outputs: &[MachineCode], sizes: &[u64]) -> Generated<CompiledCode> {
    let pairs = outputs.iter().zip(&code.objects);
    let learned = pairs.filter_map(|(output, object)| Some((*sizes.get(output.emission)?, object.peak))).collect();
    Generated { tools_peak: code.peak(), learned, code }
}
