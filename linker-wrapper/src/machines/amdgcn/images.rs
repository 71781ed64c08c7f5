//! The images of a target for AMD's GPUs: what can be linked together.

use std::collections::BTreeSet;

use llvm_passes::reference_graph;
use llvm_passes::resolve::UnitSymbols;
use offload_bundle::amdgpu::{FeatureSetting, TargetId};

use crate::device::symbols;
use crate::device::targets::{Code, DeviceImage};
use crate::diag::error::{Errors, collect};
use crate::diag::messages;
use crate::machines::amdgcn::error::Error;
use crate::machines::amdgcn::target::{AmdArch, AmdImages, Amdgcn};

/// Whether any image is machine code.
pub fn has_objects(target: &AmdImages<'_>) -> bool {
    objects(target).next().is_some()
}

/// The images that are machine code.
pub fn objects<'t, 'a>(target: &'t AmdImages<'a>) -> impl Iterator<Item = &'t DeviceImage<'a>> {
    target.of_code(Code::Object).map(|(_, image)| image)
}

/// Checks that every image that is no bitcode is an object for this target.
///
/// # Errors
/// One for each that is not.
pub fn require_objects(target: &AmdImages<'_>) -> Result<(), Errors> {
    collect(objects(target).map(|image| Ok(require_object(&target.arch, image)?))).map(|_| ())
}

fn require_object(arch: &AmdArch, image: &DeviceImage<'_>) -> Result<(), Error> {
    let (name, target) = (image.origin.to_string(), arch.name.clone());
    let Ok(header) = offload_bundle::amdgpu::header(image.bytes) else {
        return Err(Error::NoAmdCode { name, target });
    };
    if !header.relocatable {
        return Err(Error::FinishedCodeObject { name, target });
    }
    match header.target {
        // A library has no other name than that of its header: ld.lld compares the processors, and the link warns of settings.
        Some(found) if image.from_host && !takes(arch, &found) => {
            Err(Error::OtherTarget { name, target, found: found.to_string() })
        }
        _ => Ok(()),
    }
}

/// Whether an object for that target can be linked: one with a setting would give it to the whole code object.
fn takes(arch: &AmdArch, found: &TargetId) -> bool {
    let own = arch.name.parse::<TargetId>().ok().filter(|_| !arch.target.processor.is_empty());
    let fits = |own, found| found == FeatureSetting::Any || found == own;
    own.is_none_or(|own| {
        found.processor == own.processor && fits(own.sramecc, found.sramecc) && fits(own.xnack, found.xnack)
    })
}

/// Rejects objects of another version than the code that was compiled, or than each other.
///
/// # Errors
/// One for each of them.
pub fn require_version(target: &AmdImages<'_>, compiled: &[Vec<u8>]) -> Result<(), Errors> {
    let unit = target.images.iter().find_map(|image| image.unit);
    let compiled = compiled.first().and_then(|object| Some((unit?.name().to_owned(), object.as_slice())));
    let all = compiled.into_iter().chain(objects(target).map(|image| (image.origin.to_string(), image.bytes)));
    let version = |bytes| offload_bundle::amdgpu::header(bytes).ok().map(|header| u64::from(header.version) * 100);
    let (names, versions): (Vec<String>, Vec<Option<u64>>) = all.map(|(name, bytes)| (name, version(bytes))).unzip();
    same_version(&versions, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Prints who defines and who references the symbols of `--trace-symbol=`, as ld.lld does, which sees the compiled code alone.
///
/// # Errors
/// Unreadable bitcode, or a damaged object.
pub fn trace(machine: &Amdgcn<'_>, target: &AmdImages<'_>) -> Result<(), Errors> {
    let traced = &target.arch.options.traced;
    if traced.is_empty() {
        return Ok(());
    }
    let mut text = String::new();
    for image in &target.images {
        let symbols = match image.unit {
            Some(unit) => reference_graph::symbols(&unit.amd_facts()?.graph),
            None => symbols::of_image(None, &image.origin, image.bytes)?.into_owned(),
        };
        for symbol in symbols.iter().filter(|symbol| traced.contains(&symbol.name)) {
            let what = if symbol.strength.is_definition() { "definition of" } else { "reference to" };
            text.push_str(&format!("{}: {what} {}\n", image.origin, symbol.name));
        }
    }
    messages::report(machine.link.request.program, &text);
    Ok(())
}

/// The names that objects define or reference: these stay visible.
pub fn names_of_objects(target: &AmdImages<'_>, symbols: &[UnitSymbols]) -> BTreeSet<String> {
    let objects = target.images.iter().zip(symbols).filter(|(image, _)| image.code == Code::Object);
    objects.flat_map(|(_, unit)| unit.symbols.iter().map(|symbol| symbol.name.clone())).collect()
}

/// Rejects units that were compiled for different versions of the code object: LLVM's merge would name neither file.
///
/// # Errors
/// One for every unit that differs from the first.
pub fn same_version(versions: &[Option<u64>], names: &[&str]) -> Result<(), Errors> {
    let mut versions = versions.iter().zip(names).filter_map(|(version, name)| Some((*name, (*version)?)));
    let Some((first, first_version)) = versions.next() else { return Ok(()) };
    let others = versions.filter(|(_, version)| *version != first_version);
    let errors = others.map(|(unit, version)| Error::MixedVersions {
        unit: unit.to_owned(),
        version: version / 100,
        first: first.to_owned(),
        first_version: first_version / 100,
    });
    errors.collect::<Errors>().or(())
}
