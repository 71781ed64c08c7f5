//! Decides for which targets units of nvcc are linked, and takes the code of each unit for each of them.
//!
//! A unit comes with several entries; like nvlink, a target takes one of them: see [`RdcImage::entry_for`].

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::path::Path;

use llvm_passes::symbols::Strength;
use offload_bundle::arch::GpuArch;
use offload_bundle::host_object::WRAPPER_PREFIX;
use rayon::prelude::*;

use crate::cli::values::{LtoIrRule, SassPolicy};
use crate::compilers::rdc_image::{RdcEntry, RdcForm, RdcImage};
use crate::device::archive_selection::Selection;
use crate::device::cudadevrt;
use crate::device::error::Error;
use crate::device::symbols;
use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::diag::error::{Errors, collect};
use crate::host::embedded_images::FoundImage;
use crate::host::error::damaged;
use crate::host::input_files::InputFiles;

/// A unit of nvcc with its place in the link.
type Unit<'a> = (&'a FoundImage<'a>, &'a RdcImage<'a>);

/// The units of nvcc among the images, in link order.
pub fn units<'a>(images: &[&'a FoundImage<'a>]) -> Vec<Unit<'a>> {
    images.iter().filter_map(|found| Some((*found, found.foreign.as_ref()?))).collect()
}

/// The targets that units of nvcc may be linked for.
pub fn archs_of(images: &[FoundImage<'_>], policy: &SassPolicy) -> BTreeSet<GpuArch> {
    let units = images.iter().filter_map(|found| found.foreign.as_ref());
    let own: BTreeSet<GpuArch> = units.flat_map(|rdc| rdc.entries().iter().map(RdcEntry::arch)).collect();
    match policy {
        SassPolicy::List(list) if !own.is_empty() => own.into_iter().chain(list.iter().copied()).collect(),
        _ => own,
    }
}

/// The units whose code is linked. An object that holds the result of a relocatable device link (`nvcc -r`) also holds the units that it was
/// made of, for their registration; nvlink ignores the code of these, too. A unit with anything of its own is linked.
///
/// # Errors
/// Unreadable code.
pub fn with_code<'a>(units: &[Unit<'a>]) -> Result<Vec<Unit<'a>>, Errors> {
    let prelinked = units.iter().filter(|(_, rdc)| rdc.is_prelinked);
    let prelinked = prelinked.map(|(found, rdc)| Ok((found.input, defined_by(found, rdc)?)));
    let prelinked: HashMap<usize, HashSet<String>> = collect(prelinked)?.into_iter().collect();
    let is_linked = |(found, rdc): &Unit<'a>| match prelinked.get(&found.input) {
        Some(names) if !rdc.is_prelinked => Ok(!defined_by(found, rdc)?.is_subset(names)),
        _ => Ok(true),
    };
    let linked = collect(units.iter().map(is_linked))?;
    Ok(units.iter().zip(linked).filter(|(_, linked)| *linked).map(|(unit, _)| *unit).collect())
}

/// The visible names that a unit defines.
fn defined_by(found: &FoundImage<'_>, rdc: &RdcImage<'_>) -> Result<HashSet<String>, Errors> {
    let symbols = symbols::of_rdc(&found.origin, rdc)?.into_iter();
    Ok(symbols.filter(|symbol| symbol.strength.is_definition()).map(|symbol| symbol.name).collect())
}

/// Adds the code of the units to the targets of clang's code, or to targets of their own if there is none of clang's. By default, these
/// are the targets of the objects on the line for which every unit has code; warnings name the others.
///
/// # Errors
/// No target for which all units have code. A unit without code for a target that the user requests. Damaged code.
pub fn add_to<'a>(
    targets: Vec<TargetImages<'a>>,
    units: &[Unit<'a>],
    inputs: &InputFiles,
    policy: &SassPolicy,
    rule: LtoIrRule,
) -> Result<(Vec<TargetImages<'a>>, Vec<String>), Errors> {
    if units.is_empty() {
        return Ok((targets, Vec::new()));
    }
    let (archs, warnings) = choose(&targets, units, inputs, policy, rule != LtoIrRule::Never)?;
    let mut targets: Vec<_> = targets.into_iter().filter(|target| archs.contains(&target.arch)).collect();
    for arch in &archs {
        if !targets.iter().any(|target| target.arch == *arch) {
            targets.push(TargetImages { arch: *arch, images: Vec::new() });
        }
    }
    targets.sort_by_key(|target| std::cmp::Reverse(target.arch));
    for target in &mut targets {
        let lto = match rule {
            LtoIrRule::First => true,
            LtoIrRule::IfNeeded => lacking(units, target.arch, false).next().is_some(),
            LtoIrRule::Never => false,
        };
        let images = units.par_iter().map(|unit| image(unit, target.arch, lto));
        target.images.extend(collect(images.collect::<Vec<_>>())?);
    }
    Ok((targets, warnings))
}

/// The host linker's options that extract the archive members whose units are linked for their device code alone: the driver can only link
/// the program again from units that are in it.
pub fn words_for_members(images: &[FoundImage<'_>], selection: &Selection) -> Vec<OsString> {
    let only_device = |input: usize| selection.device[input].is_some() && !selection.host[input];
    let units = images.iter().filter(|found| only_device(found.input)).filter_map(|found| found.foreign.as_ref());
    let words = units
        .filter(|rdc| rdc.is_registered && rdc.has_ptx())
        .flat_map(|rdc| ["-u".to_owned(), format!("{WRAPPER_PREFIX}{}", rdc.id)]);
    words.map(OsString::from).collect()
}

/// Whether units of LTO-IR call NVIDIA's device runtime in code that the driver can link again: that of their other entries. What the
/// LTO-IR itself calls, only linkers know.
///
/// # Errors
/// Unreadable code.
pub fn lto_ir_calls_device_runtime(targets: &[TargetImages<'_>], library: Option<&Path>) -> Result<bool, Errors> {
    let (Some(library), Some(target)) = (library, targets.first()) else { return Ok(false) };
    let units = target.of_code(Code::LtoIr).filter_map(|(_, image)| Some((&image.origin, image.rdc?)));
    let symbols = collect(units.map(|(origin, rdc)| symbols::of_rdc(origin, rdc)))?;
    let names = |is_wanted: &dyn Fn(Strength) -> bool| -> HashSet<&str> {
        let wanted = symbols.iter().flatten().filter(|symbol| is_wanted(symbol.strength));
        wanted.map(|symbol| symbol.name.as_str()).collect()
    };
    let undefined = &names(&|strength| strength == Strength::Undefined) - &names(&Strength::is_definition);
    if undefined.is_empty() {
        return Ok(false);
    }
    let runtime = cudadevrt::read(library, target.arch);
    Ok(runtime.is_some_and(|runtime| runtime.defines.iter().any(|name| undefined.contains(name.as_str()))))
}

/// Chooses the targets. `lto` is whether LTO-IR may be linked.
fn choose(
    targets: &[TargetImages<'_>],
    units: &[Unit<'_>],
    inputs: &InputFiles,
    policy: &SassPolicy,
    lto: bool,
) -> Result<(BTreeSet<GpuArch>, Vec<String>), Errors> {
    let of_clang: BTreeSet<GpuArch> = targets.iter().map(|target| target.arch).collect();
    if let SassPolicy::List(list) = policy {
        let requested: BTreeSet<GpuArch> = list.iter().copied().collect();
        let lacking =
            requested.iter().flat_map(|arch| lacking(units, *arch, lto).map(|unit| no_code(unit, *arch, lto)));
        let other = requested.iter().filter(|arch| !of_clang.is_empty() && !of_clang.contains(arch));
        let other = other.map(|arch| Error::NotOfClang { arch: *arch, linked: of_clang.iter().copied().collect() });
        return lacking.chain(other).collect::<Errors>().or((requested, Vec::new()));
    }
    let leading = leading(units, inputs);
    let candidates = if of_clang.is_empty() { candidates(&leading, lto) } else { of_clang };
    let (common, dropped): (BTreeSet<_>, BTreeSet<_>) =
        candidates.into_iter().partition(|arch| lacking(units, *arch, lto).next().is_none());
    let explained = |arch: &GpuArch| lacking(units, *arch, lto).next().map(|unit| no_code(unit, *arch, lto));
    if common.is_empty() {
        let errors: Errors = dropped.iter().filter_map(explained).collect();
        return Err(errors.or(()).err().unwrap_or_else(|| leading.iter().map(no_code_at_all).collect()));
    }
    let linked: Vec<String> = common.iter().map(ToString::to_string).collect();
    let left_out = |arch: &GpuArch| {
        let why = explained(arch)?;
        Some(format!("{arch} is left out, the link is for {}: {why}", linked.join(", ")))
    };
    Ok((common, dropped.iter().filter_map(left_out).collect()))
}

/// The units that decide on the targets. An archive adds none: libraries come for many more GPUs than a program. Without an object on the line,
/// its units decide.
fn leading<'a>(units: &[Unit<'a>], inputs: &InputFiles) -> Vec<Unit<'a>> {
    let of_objects = units.iter().filter(|(found, _)| !inputs.files()[found.input].in_archive);
    let of_objects: Vec<Unit<'a>> = of_objects.copied().collect();
    if of_objects.is_empty() { units.to_vec() } else { of_objects }
}

/// The targets that the units were compiled for: of machine code and LTO-IR, or of PTX if there is nothing else.
fn candidates(units: &[Unit<'_>], lto: bool) -> BTreeSet<GpuArch> {
    let entries = || units.iter().flat_map(|(_, rdc)| rdc.entries());
    let archs = |forms: &[RdcForm]| -> BTreeSet<GpuArch> {
        entries().filter(|entry| forms.contains(&entry.form())).map(RdcEntry::arch).collect()
    };
    let code = archs(if lto { &[RdcForm::Cubin, RdcForm::LtoIr] } else { &[RdcForm::Cubin] });
    if code.is_empty() { archs(&[RdcForm::Ptx]) } else { code }
}

/// The units without code for a target.
fn lacking<'u, 'a>(units: &'u [Unit<'a>], arch: GpuArch, lto: bool) -> impl Iterator<Item = &'u Unit<'a>> {
    units.iter().filter(move |(_, rdc)| rdc.entry_for(arch, lto).is_none())
}

/// The error for a unit of a link without any target to choose from: it has nothing but LTO-IR, which may not be linked, or nothing.
fn no_code_at_all((found, rdc): &Unit<'_>) -> Error {
    let file = found.origin.file.clone();
    match rdc.entries().iter().map(RdcEntry::arch).max() {
        Some(arch) => Error::LtoOff { file, arch },
        None => Error::NoRdcCode { file, has: rdc.described() },
    }
}

fn no_code((found, rdc): &Unit<'_>, arch: GpuArch, lto: bool) -> Error {
    let (file, has) = (found.origin.file.clone(), rdc.described());
    if !lto && rdc.entry_for(arch, true).is_some() {
        Error::LtoOff { file, arch }
    } else {
        Error::NoCodeFor { file, arch, has }
    }
}

/// Takes the code of a unit for a target.
fn image<'a>((found, rdc): &Unit<'a>, arch: GpuArch, lto: bool) -> Result<DeviceImage<'a>, Errors> {
    let entry = rdc.entry_for(arch, lto).ok_or_else(|| no_code(&(found, rdc), arch, lto))?;
    let offset = found.origin.offset.unwrap_or_default();
    let bytes = entry.code().map_err(|error| damaged(&found.origin.file, offset, &error))?;
    let code = match entry.form() {
        RdcForm::LtoIr => Code::LtoIr,
        RdcForm::Cubin => Code::Cubin,
        RdcForm::Ptx => Code::Ptx,
    };
    Ok(DeviceImage { origin: found.origin.clone(), from_host: true, code, bytes, unit: None, rdc: Some(rdc) })
}
