//! The device link of one target in one piece, in this process: small programs, and those that cannot be cut.

use std::collections::BTreeSet;
use std::ops::Range;

use llvm_passes::pipeline::{self, CodeTarget, NamedBitcode};
use llvm_passes::reference_graph;
use llvm_passes::resolve::{Resolution, UnitSymbols};
use llvm_passes::session::Session;
use llvm_passes::{Module, visible_functions};
use offload_bundle::arch::GpuArch;

use crate::codegen::{Codegen, DeviceObject, PtxSource};
use crate::device::targets::TargetPlan;
use crate::diag::error::{Errors, collect};
use crate::lto::device_link::{self, Libdevice, LinkedTarget, Surroundings};
use crate::lto::worker::{UnitRange, Work};
use crate::lto::{culprit, private_images};
use crate::plan::image_policy::Entry;
use crate::profile::span;
use offload_bundle::ptx::{self, DebugInfo};

/// Links one target.
///
/// # Errors
/// All that is wrong with its images, or what the tools say.
pub fn link(target: &TargetPlan<'_>, around: &Surroundings<'_>) -> Result<LinkedTarget, Errors> {
    let _linking = span::traced("Link device input", || target.arch.to_string());
    // Declared first: modules of the session borrow from it.
    let libdevice = Libdevice::new(around.libdevice.clone());
    let session = Session::new();
    let names: Vec<String> = target.images.iter().map(|image| image.origin.to_string()).collect();
    let units = device_link::units(target, &names);
    device_link::keep_inputs(target, around.temp_files)?;
    let modules = pipeline::read_units(&session, &units).map_err(Errors::all)?;
    pipeline::require_nvptx(&modules, &units).map_err(Errors::all)?;
    let bitcode = |unit: usize| UnitSymbols { symbols: pipeline::symbols_of(&modules[unit]) };
    let symbols = device_link::all_symbols(target, &bitcode)?;
    let users = |image: usize, name: &str| {
        let module = device_link::unit_of(image, target).and_then(|unit| modules.get(unit));
        module.map(|module| reference_graph::users_of(&reference_graph::of_module(module), name)).unwrap_or_default()
    };
    let (resolution, library) = device_link::resolve_names(target, &symbols, &libdevice, &users, around)?;
    promote_prevailing(&resolution, target, &modules);

    let mut keep = device_link::kept_names(target, &symbols, around.registered);
    keep.extend(library.iter().flat_map(|library| library.defines.iter().cloned()));
    let needs = device_link::needs(target, usize::from(!modules.is_empty()), library.is_some(), around.options);
    let mut linked = LinkedTarget::default();
    let mut own = None;
    if !modules.is_empty() {
        let maker = around.backends.choose(&needs)?;
        let job = Job { session: &session, target, around, units: &units, keep: &keep, libdevice: &libdevice, maker };
        if around.diagnosing {
            return job.diagnose().map(|()| LinkedTarget::default());
        }
        (own, linked) = job.assemble(modules, needs.joins)?;
    }
    if device_link::keeps_own(target.arch, around) {
        let own = own.into_iter().collect();
        let joined = device_link::join(target, target.arch, own, library.as_ref(), &needs, around)?;
        linked.sass.insert(0, (target.arch, joined));
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
        around.ptx.iter().filter(|entry| entry.from == target.arch && archs.contains(&entry.arch)).copied().collect();
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
    units: &'j [NamedBitcode<'j>],
    keep: &'j BTreeSet<String>,
    libdevice: &'s Libdevice,
    maker: Codegen<'j>,
}

impl<'s> Job<'_, 's> {
    /// After LLVM failed in this process: does the work in others, to see which function it cannot compile.
    fn diagnose(&self) -> Result<(), Errors> {
        let arch = self.target.arch;
        let version = self.maker.ptx_version(arch)?;
        // Nothing of rayon's here: all its threads may be waiting for this one.
        let bitcode: Vec<&[u8]> = self.units.iter().map(|unit| unit.bitcode).collect();
        let (units, places) = private_images::write(&bitcode, arch, self.around.temp_files)?;
        let range = |(unit, place): (&NamedBitcode<'_>, &Range<usize>)| UnitRange {
            name: unit.name.to_owned(),
            hash: String::new(),
            start: place.start,
            length: place.len(),
        };
        let ranges = self.units.iter().zip(&places).map(range).collect();
        let work = Work {
            arch,
            version,
            level: self.around.options.level,
            llvm_options: self.around.options.llvm_options.clone(),
            units,
            ranges,
            parts: Vec::new(),
            keep: self.keep.clone(),
            libdevice: self.libdevice.path().map(Into::into),
            emissions: Vec::new(),
            keep_stages: None,
        };
        culprit::diagnosed(&work, &arch.to_string(), self.around.temp_files)
    }

    /// From modules to all that the image gets of them: the target's own cubin, still to be joined with others, and
    /// the rest.
    fn assemble(&self, modules: Vec<Module<'s>>, joins: bool) -> Result<(Option<DeviceObject>, LinkedTarget), Errors> {
        let stem = format!("{}.0", self.target.arch);
        let keep = |stage: &str, module: &Module<'_>| {
            self.around.temp_files.keep(&format!("{stem}.{stage}.bc"), || pipeline::bitcode_of(module))
        };
        let merging = span::traced("Merge", || stem.clone());
        let merged = pipeline::merge(self.session, modules, self.units).map_err(Errors::one)?;
        pipeline::internalize(&merged, self.keep);
        if pipeline::needs_libdevice(&merged)
            && let Some(library) = self.libdevice.unit()
        {
            pipeline::add_libdevice(self.session, &merged, library).map_err(Errors::one)?;
            pipeline::internalize(&merged, self.keep);
        }
        drop(merging);
        let ptx = self.maker.ptx_version(self.target.arch)?;
        let code = CodeTarget { arch: self.target.arch, ptx, level: self.around.options.level };
        keep("merged", &merged)?;
        let optimizing = span::traced("Optimize", || stem.clone());
        pipeline::optimize(self.session, &merged, code).map_err(Errors::one)?;
        drop(optimizing);
        keep("opt", &merged)?;
        let ptx = self.ptx_entries(&merged)?;
        let sass = self.sass_entries(&merged)?;
        let own = if device_link::keeps_own(self.target.arch, self.around) {
            // Names of functions could meet those of other pieces.
            if !joins && self.maker.can_finish() {
                visible_functions::expose(&merged, self.target.arch);
            }
            let text = self.emit(&merged, code)?;
            Some(self.piece(self.target.arch, &stem, &text, joins)?)
        } else {
            None
        };
        let said = own.iter().chain(&sass).flat_map(|cubin| cubin.diagnostics.clone()).collect();
        let sass = sass.into_iter().map(|piece| (piece.arch, piece.bytes)).collect();
        Ok((own, LinkedTarget { sass, ptx, said, ..LinkedTarget::default() }))
    }

    fn emit(&self, module: &Module<'_>, code: CodeTarget) -> Result<Vec<u8>, Errors> {
        let _emitting = span::traced("Generate PTX", || code.arch.to_string());
        pipeline::emit_ptx(self.session, module, code).map_err(Errors::one)
    }

    /// Machine code for other targets, each made of a copy of the optimized module.
    fn sass_entries(&self, merged: &Module<'s>) -> Result<Vec<DeviceObject>, Errors> {
        let own = self.target.arch;
        let wanted = self.around.sass.iter().filter(|entry| entry.from == own && entry.arch != own);
        collect(wanted.map(|entry| {
            let ptx = self.maker.ptx_version(entry.arch)?;
            let code = CodeTarget { arch: entry.arch, ptx, level: self.around.options.level };
            let text = self.emit(&merged.clone(), code)?;
            let stem = format!("{}.from.{own}", entry.arch);
            let joins = !self.around.options.nvlink_arguments.is_empty();
            let mut piece = self.piece(entry.arch, &stem, &text, joins)?;
            if piece.unlinked {
                piece.bytes = self.maker.link_all(entry.arch, std::slice::from_ref(&piece), self.around.temp_files)?;
            }
            Ok(piece)
        }))
    }

    /// PTX for the image, each made of a copy of the optimized module: generating code changes it.
    fn ptx_entries(&self, merged: &Module<'s>) -> Result<Vec<(GpuArch, Vec<u8>)>, Errors> {
        let wanted = self.around.ptx.iter().filter(|entry| entry.from == self.target.arch);
        collect(wanted.map(|entry| {
            let own = self.maker.ptx_version(entry.arch)?;
            let stem = self.target.arch.to_string();
            let code = CodeTarget { arch: entry.arch, ptx: own, level: self.around.options.level };
            let text = self.emit(&merged.clone(), code)?;
            let text = match self.around.ptx_version {
                Some(version) => ptx::with_version(&text, version).unwrap_or(text),
                None if self.around.mode.dry => text,
                None => self.maker.lower_version(text, entry.arch, &stem, self.around.temp_files)?,
            };
            self.around.temp_files.keep(&format!("{}.ptx", entry.arch.virtual_name()), || text.clone())?;
            Ok((entry.arch, text))
        }))
    }

    fn piece(&self, arch: GpuArch, stem: &str, text: &[u8], joins: bool) -> Result<DeviceObject, Errors> {
        let input = self.around.temp_files.write(&format!("{stem}.ptx"), text)?;
        let name = format!("the linked code for {arch}");
        // ptxas inlines functions of finished code far more than is good for registers and size: where there are
        // any, code is made as for a larger program, and finished by nvlink, which the other linkers always do.
        let joins = joins || (self.maker.can_finish() && ptx::defines_functions(text));
        let source = PtxSource { arch, input, debug_info: DebugInfo::of(text), relocatable: joins, name };
        device_link::assemble(self.maker, source, self.around)
    }
}
