//! The device link of one target in one piece, in this process: small programs, and those that cannot be cut.

use std::collections::BTreeSet;

use llvm_passes::Module;
use llvm_passes::pipeline::{self, CodeTarget, Unit};
use llvm_passes::resolve::{Resolution, UnitSymbols};
use llvm_passes::session::Session;
use offload_bundle::arch::GpuArch;

use crate::backend::ptxas::{self, DebugInfo};
use crate::device_link::{self, Assembled, Libdevice, LinkedTarget, Surroundings};
use crate::error::{Errors, collect};
use crate::image_policy::Entry;
use crate::plan::TargetPlan;
use crate::toolchain::Ptxas;
use crate::trace;

/// Links one target.
///
/// # Errors
/// All that is wrong with its images, or what the tools say.
pub fn link(target: &TargetPlan<'_>, around: &Surroundings<'_>) -> Result<LinkedTarget, Errors> {
    let _linking = trace::scope("Link device input", || target.arch.to_string());
    // Declared first: modules of the session borrow from it.
    let libdevice = Libdevice::new(around.toolkit);
    let session = Session::new();
    let names: Vec<String> = target.images.iter().map(|image| image.origin.to_string()).collect();
    let units = device_link::units(target, &names);
    device_link::keep_inputs(target, around.scratch)?;
    let modules = pipeline::read_units(&session, &units).map_err(Errors::all)?;
    pipeline::require_nvptx(&modules, &units).map_err(Errors::all)?;
    let bitcode = |unit: usize| UnitSymbols { symbols: pipeline::symbols_of(&modules[unit]) };
    let symbols = device_link::all_symbols(target, &bitcode)?;
    let users = |image: usize, name: &str| {
        let module = device_link::unit_of(image, target).and_then(|unit| modules.get(unit));
        module.map(|module| pipeline::users_of(module, name)).unwrap_or_default()
    };
    let (resolution, library) = device_link::resolve_names(target, &symbols, &libdevice, &users, around)?;
    promote_prevailing(&resolution, target, &modules);

    let mut keep = device_link::kept_names(target, &symbols, around.registered);
    keep.extend(library.iter().flat_map(|library| library.defines.iter().cloned()));
    let relocatable = device_link::cubins(target).next().is_some() || library.is_some();
    let mut linked = LinkedTarget::default();
    let mut own = None;
    if !modules.is_empty() {
        let job = Job { session: &session, target, around, units: &units, keep: &keep, libdevice: &libdevice };
        (own, linked) = job.assemble(modules, relocatable)?;
    }
    if device_link::keeps_own(target.arch, around) {
        let own = own.into_iter().collect();
        linked.sass.insert(0, (target.arch, device_link::join(target, target.arch, own, library.as_ref(), around)?));
    }
    linked.warnings = session.take_warnings();
    Ok(linked)
}

/// PTX of these targets alone, where that of partitions cannot be joined.
///
/// # Errors
/// As [`link()`].
pub fn ptx(
    target: &TargetPlan<'_>,
    archs: &[GpuArch],
    around: &Surroundings<'_>,
) -> Result<Vec<(GpuArch, Vec<u8>)>, Errors> {
    let wanted: Vec<Entry> =
        around.ptx.iter().filter(|entry| entry.from == target.arch && archs.contains(&entry.arch)).cloned().collect();
    let around = Surroundings { sass: &[], ptx: &wanted, ..around.clone() };
    link(target, &around).map(|linked| linked.ptx)
}

/// A linkonce definition that prevails over a later weak one becomes weak: LLVM's merge would prefer the other.
fn promote_prevailing(resolution: &Resolution, target: &TargetPlan<'_>, modules: &[Module<'_>]) {
    for (name, image) in &resolution.linkonce_over_weak {
        if let Some(module) = device_link::unit_of(*image, target).and_then(|unit| modules.get(unit)) {
            pipeline::make_weak(module, name);
        }
    }
}

/// The work on the code of one target.
struct Job<'j, 's> {
    session: &'s Session,
    target: &'j TargetPlan<'j>,
    around: &'j Surroundings<'j>,
    units: &'j [Unit<'j>],
    keep: &'j BTreeSet<String>,
    libdevice: &'s Libdevice,
}

impl<'s> Job<'_, 's> {
    /// From modules to all that the image gets of them: the target's own cubin, still to be joined with others, and
    /// the rest.
    fn assemble(
        &self,
        modules: Vec<Module<'s>>,
        relocatable: bool,
    ) -> Result<(Option<Assembled>, LinkedTarget), Errors> {
        let stem = format!("{}.0", self.target.arch);
        let keep = |stage: &str, module: &Module<'_>| {
            self.around.scratch.keep(&format!("{stem}.{stage}.bc"), || pipeline::bitcode_of(module))
        };
        let merging = trace::scope("Merge", || stem.clone());
        let merged = pipeline::merge(self.session, modules, self.units).map_err(Errors::one)?;
        pipeline::internalize(&merged, self.keep);
        if pipeline::wants_libdevice(&merged)
            && let Some(library) = self.libdevice.unit()
        {
            pipeline::add_libdevice(self.session, &merged, library).map_err(Errors::one)?;
            pipeline::internalize(&merged, self.keep);
        }
        drop(merging);
        let ptxas = (self.around.ptxas)()?;
        let ptx = ptxas.ptx_version(self.target.arch)?;
        let code = CodeTarget { arch: self.target.arch, ptx, level: self.around.options.level };
        keep("merged", &merged)?;
        let optimizing = trace::scope("Optimize", || stem.clone());
        pipeline::optimize(self.session, &merged, code).map_err(Errors::one)?;
        drop(optimizing);
        keep("opt", &merged)?;
        let ptx = self.ptx_entries(&merged, &ptxas)?;
        let sass = self.sass_entries(&merged, &ptxas)?;
        let own = if device_link::keeps_own(self.target.arch, self.around) {
            let text = self.emit(&merged, code)?;
            Some(self.run_ptxas(self.target.arch, &stem, &ptxas, &text, relocatable)?)
        } else {
            None
        };
        let said = own.iter().chain(&sass).flat_map(|cubin| cubin.said.clone()).collect();
        let sass = sass.into_iter().map(|cubin| (cubin.arch, cubin.bytes)).collect();
        Ok((own, LinkedTarget { sass, ptx, said, ..LinkedTarget::default() }))
    }

    fn emit(&self, module: &Module<'_>, code: CodeTarget) -> Result<Vec<u8>, Errors> {
        let _emitting = trace::scope("Generate PTX", || code.arch.to_string());
        pipeline::emit_ptx(self.session, module, code).map_err(Errors::one)
    }

    /// Machine code for other targets, each made of a copy of the optimized module.
    fn sass_entries(&self, merged: &Module<'s>, ptxas: &Ptxas) -> Result<Vec<Assembled>, Errors> {
        let own = self.target.arch;
        let wanted = self.around.sass.iter().filter(|entry| entry.from == own && entry.arch != own);
        collect(wanted.map(|entry| {
            let ptx = ptxas.ptx_version(entry.arch)?;
            let code = CodeTarget { arch: entry.arch, ptx, level: self.around.options.level };
            let text = self.emit(&merged.clone(), code)?;
            let stem = format!("{}.from.{own}", entry.arch);
            self.run_ptxas(entry.arch, &stem, ptxas, &text, false)
        }))
    }

    /// PTX for the image, each made of a copy of the optimized module: generating code changes it.
    fn ptx_entries(&self, merged: &Module<'s>, ptxas: &Ptxas) -> Result<Vec<(GpuArch, Vec<u8>)>, Errors> {
        let wanted = self.around.ptx.iter().filter(|entry| entry.from == self.target.arch);
        collect(wanted.map(|entry| {
            let own = ptxas.ptx_version(entry.arch)?;
            let own_stem = self.target.arch.to_string();
            let code = CodeTarget { arch: entry.arch, ptx: own, level: self.around.options.level };
            let text = self.emit(&merged.clone(), code)?;
            let text = match self.around.ptx_version {
                Some(version) => ptxas::with_version(&text, version).unwrap_or(text),
                None if self.around.mode.dry => text,
                None => ptxas::lower_version(&ptxas.path, text, entry.arch, own, &own_stem, self.around.scratch)?,
            };
            self.around.scratch.keep(&format!("{}.ptx", entry.arch.virtual_name()), || text.clone())?;
            Ok((entry.arch, text))
        }))
    }

    fn run_ptxas(
        &self,
        arch: GpuArch,
        stem: &str,
        ptxas: &Ptxas,
        text: &[u8],
        relocatable: bool,
    ) -> Result<Assembled, Errors> {
        let scratch = self.around.scratch;
        let input = scratch.write(&format!("{stem}.ptx"), text)?;
        let output = scratch.file(&format!("{stem}.cubin"));
        let assembly =
            ptxas::Assembly { ptxas: &ptxas.path, arch, input, output, relocatable, debug_info: DebugInfo::of(text) };
        device_link::run_ptxas(assembly, self.around)
    }
}
