//! Selects the archive members that are part of the link: those that the host linker extracts, and those that define device
//! symbols which selected files reference, to a fixed point.
//!
//! In doubt a member is selected, because a superfluous kernel is better than a registered one that no image holds.

use std::collections::{HashMap, HashSet};

use llvm_passes::symbols::Strength;
use offload_bundle::host_object::FileKind;
use offload_bundle::host_object::{self, host_symbols};
use rayon::prelude::*;

use crate::device::device_files::DeviceCode;
use crate::device::stub_aliases;
use crate::device::symbols::CandidateSymbols;
use crate::diag::error::{Errors, collect};
use crate::host::embedded_images::FoundImage;
use crate::host::error::damaged;
use crate::host::input_files::{InputFile, InputFiles, Place};
use crate::host::rdc_image::RdcImage;
use crate::sys::threads;

/// The selected files, by index of the file.
pub struct Selection {
    /// Whether the host linker links the file.
    pub host: Vec<bool>,
    /// Why the file's device images are linked; `None` if they are not.
    pub device: Vec<Option<Reason>>,
}

/// Why the device images of a file are linked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The file is on the line, or in an archive that is linked whole.
    OnLine,
    /// The file is the first member that defines this undefined host symbol.
    HostSymbol(String),
    /// The file is the first member that defines this undefined device symbol.
    DeviceSymbol(String),
    /// The symbols of a unit of nvcc in the link cannot be read, so that this unit of nvcc may be needed.
    UnreadableSymbols,
}

/// Why the host linker links a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostReason<'a> {
    OnLine,
    Defines(&'a [u8]),
}

impl HostReason<'_> {
    fn reason(self) -> Reason {
        match self {
            HostReason::OnLine => Reason::OnLine,
            HostReason::Defines(name) => Reason::HostSymbol(String::from_utf8_lossy(name).into_owned()),
        }
    }
}

/// Selects the files of a link. `roots` are symbols that the line itself references, and `code` is device code that is always
/// linked.
///
/// # Errors
/// Damaged symbol tables.
pub fn select(
    inputs: &InputFiles,
    images: &[FoundImage<'_>],
    roots: &[String],
    code: &DeviceCode<'_>,
) -> Result<Selection, Errors> {
    let files = inputs.files();
    let in_archives = images.iter().any(|found| files[found.input].place != Place::Line);
    let on_line: Vec<bool> = files.iter().map(|file| file.place == Place::Line).collect();
    if !in_archives {
        // No member carries device code, so it does not matter which ones the host linker extracts.
        let device = on_line.iter().map(|on_line| on_line.then_some(Reason::OnLine)).collect();
        return Ok(Selection { host: on_line, device });
    }
    let units = host_units(inputs)?;
    let linked = resolve_host(&units, roots, stub_aliases::are_mixed(images));
    let host = linked.iter().map(Option::is_some).collect();
    let device = linked.into_iter().map(|reason| reason.map(HostReason::reason)).collect();
    let device = add_referenced_devices(images, device, code)?;
    Ok(Selection { host, device })
}

/// Determines the files that the host linker links.
///
/// # Errors
/// Damaged symbol tables.
pub fn host_files(inputs: &InputFiles, roots: &[String]) -> Result<Vec<bool>, Errors> {
    Ok(resolve_host(&host_units(inputs)?, roots, false).iter().map(Option::is_some).collect())
}

fn host_units(inputs: &InputFiles) -> Result<Vec<HostUnit<'_>>, Errors> {
    threads::start()?;
    collect(inputs.files().par_iter().map(|file| host_unit(inputs, file)).collect::<Vec<_>>())
}

/// The visible symbols of one host file.
#[derive(Debug, Default)]
struct HostUnit<'a> {
    archive: Option<usize>,
    defines: Vec<&'a [u8]>,
    references: Vec<&'a [u8]>,
}

fn host_unit<'a>(inputs: &'a InputFiles, file: &'a InputFile) -> Result<HostUnit<'a>, Errors> {
    let mut unit = HostUnit { archive: archive_of(file), ..HostUnit::default() };
    if let Some(bitcode) = &file.bitcode {
        for symbol in &bitcode.symbols {
            let list = match symbol.strength {
                Strength::Undefined => &mut unit.references,
                Strength::WeakUndefined => continue,
                _ => &mut unit.defines,
            };
            list.push(symbol.name.as_bytes());
        }
        return Ok(unit);
    }
    let dynamic = match file.kind {
        FileKind::ElfRelocatable => false,
        FileKind::ElfShared => true,
        _ => return Ok(unit),
    };
    let symbols = host_symbols(inputs.bytes(file), dynamic);
    for symbol in symbols.map_err(|error| damaged(&file.name, file.base(), &error))? {
        if symbol.defined {
            unit.defines.push(symbol.name);
        } else if !symbol.weak {
            unit.references.push(symbol.name);
        }
    }
    Ok(unit)
}

fn archive_of(file: &InputFile) -> Option<usize> {
    match file.place {
        Place::Line => None,
        Place::Archive(archive) => Some(archive),
    }
}

/// Resolves undefined host symbols from the archives until no more members are extracted, as if all archives stood in one
/// `--start-group`. A link whose archives are in the wrong order fails later, in the host linker; with archives in the right order,
/// the host linker extracts the same members. If units of nvcc and clang are `mixed`, a kernel is found under the name of either.
fn resolve_host<'a>(units: &[HostUnit<'a>], roots: &'a [String], mixed: bool) -> Vec<Option<HostReason<'a>>> {
    let mut state = HostState::default();
    state.undefined.extend(roots.iter().map(String::as_bytes));
    let mut linked: Vec<_> = units.iter().map(|unit| unit.archive.is_none().then_some(HostReason::OnLine)).collect();
    units.iter().filter(|unit| unit.archive.is_none()).for_each(|unit| state.add(unit));
    // The members that define each symbol, in the order of the line.
    let mut definitions: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (index, unit) in units.iter().enumerate().filter(|(_, unit)| unit.archive.is_some()) {
        unit.defines.iter().for_each(|name| definitions.entry(name).or_default().push(index));
    }
    let mut missing = HashSet::new();
    while let Some(name) = state.undefined.pop().or_else(|| state.other_name(&definitions, &mut missing)) {
        if state.defined.contains(name) {
            continue;
        }
        if mixed && !definitions.contains_key(name) {
            missing.insert(name);
        }
        if let Some(index) = definitions.get(name).and_then(|members| members.first()).copied()
            && linked[index].is_none()
        {
            linked[index] = Some(HostReason::Defines(name));
            state.add(&units[index]);
        }
    }
    linked
}

#[derive(Default)]
struct HostState<'a> {
    defined: HashSet<&'a [u8]>,
    undefined: Vec<&'a [u8]>,
}

impl<'a> HostState<'a> {
    fn add(&mut self, unit: &HostUnit<'a>) {
        self.defined.extend(unit.defines.iter().copied());
        self.undefined.extend(unit.references.iter().copied());
    }

    /// The name in an archive of a kernel whose own name is `missing`, because the other compiler made the unit that references it.
    fn other_name(
        &self,
        definitions: &HashMap<&'a [u8], Vec<usize>>,
        missing: &mut HashSet<&'a [u8]>,
    ) -> Option<&'a [u8]> {
        if missing.is_empty() {
            return None;
        }
        let text = |name: &&'a [u8]| std::str::from_utf8(name).ok();
        let undefined = missing.iter().filter_map(text).collect();
        let aliases = host_object::stub_aliases(&definitions.keys().filter_map(text).collect(), &undefined);
        let targets = aliases.iter().filter_map(|alias| definitions.get_key_value(alias.target.as_bytes()));
        let found = targets.map(|(name, _)| *name).find(|name| !self.defined.contains(name));
        if found.is_none() {
            missing.clear();
        }
        found
    }
}

/// Adds members that the host linker does not extract but that define device symbols which selected files reference.
fn add_referenced_devices(
    images: &[FoundImage<'_>],
    mut selected: Vec<Option<Reason>>,
    code: &DeviceCode<'_>,
) -> Result<Vec<Option<Reason>>, Errors> {
    // nvlink takes every unit of an archive. Where LTO-IR hides what units define and reference, that is the only sound choice.
    let is_linked = selected.iter().any(Option::is_some);
    if is_linked && images.iter().filter_map(|found| found.rdc.as_ref()).any(RdcImage::has_unreadable_symbols) {
        for found in images.iter().filter(|found| found.rdc.is_some()) {
            selected[found.input].get_or_insert(Reason::UnreadableSymbols);
        }
    }
    let mut symbols = CandidateSymbols::new(images, code.symbols()?);
    while images.iter().any(|found| selected[found.input].is_none()) {
        let is_selected: Vec<bool> = selected.iter().map(Option::is_some).collect();
        let files = symbols.referenced_inputs(&is_selected)?;
        if files.is_empty() {
            break;
        }
        files.into_iter().for_each(|(file, symbol)| selected[file] = Some(Reason::DeviceSymbol(symbol)));
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit<'a>(archive: Option<usize>, defines: &[&'a str], references: &[&'a str]) -> HostUnit<'a> {
        let bytes = |names: &[&'a str]| names.iter().map(|name| name.as_bytes()).collect();
        HostUnit { archive, defines: bytes(defines), references: bytes(references) }
    }

    fn linked(units: &[HostUnit<'_>], roots: &[&str]) -> Vec<bool> {
        let roots: Vec<String> = roots.iter().map(|root| (*root).to_owned()).collect();
        resolve_host(units, &roots, false).iter().map(Option::is_some).collect()
    }

    #[test]
    fn members_that_define_undefined_symbols_are_extracted() {
        let units = [
            unit(None, &["_start"], &["main"]),
            unit(Some(1), &["main"], &["helper"]),
            unit(Some(1), &["unused"], &["far"]),
            unit(Some(2), &["far"], &[]),
            // Defined both behind the archive with the reference and in front of it.
            unit(Some(0), &["helper"], &["main"]),
            unit(Some(3), &["helper"], &[]),
        ];
        assert_eq!(linked(&units, &[]), [true, true, false, false, true, false]);
        assert_eq!(linked(&units, &["unused"]), [true, true, true, true, true, false]);
    }

    #[test]
    fn a_kernel_in_an_archive_is_found_under_the_other_compilers_name() {
        let units = [
            unit(None, &["main"], &["_Z16__device_stub__ki", "_Z1li"]),
            unit(Some(0), &["_Z1ki"], &[]),
            unit(Some(0), &["_Z16__device_stub__li"], &[]),
            unit(Some(0), &["_Z1mi"], &[]),
        ];
        let linked = resolve_host(&units, &[], true).iter().map(Option::is_some).collect::<Vec<_>>();
        assert_eq!(linked, [true, true, true, false]);
        let linked = resolve_host(&units, &[], false).iter().map(Option::is_some).collect::<Vec<_>>();
        assert_eq!(linked, [true, false, false, false]);
    }

    #[test]
    fn a_definition_on_the_line_prevails_over_members() {
        let units = [unit(None, &["main"], &["f"]), unit(Some(0), &["f"], &[]), unit(None, &["f"], &[])];
        assert_eq!(linked(&units, &[]), [true, false, true]);
    }
}
