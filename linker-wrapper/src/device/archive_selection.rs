//! Which archive members are part of the link: those that the host linker takes, and those whose device
//! symbols are wanted, to a fixed point.
//!
//! In doubt a member is taken: a kernel that the host registers and no image holds is worse than one too
//! many.

use std::collections::{HashMap, HashSet};

use llvm_passes::symbols::Strength;
use offload_bundle::host_object::FileKind;
use offload_bundle::host_object::host_symbols;
use rayon::prelude::*;

use crate::device::device_files::DeviceCode;
use crate::device::symbols;
use crate::diag::error::{Errors, collect};
use crate::host::embedded_images::FoundImage;
use crate::host::error::damaged;
use crate::host::input_files::{InputFile, InputFiles, Place};
use crate::sys::threads;

/// The outcome, by index of the file.
pub struct Selection {
    /// Whether the host linker links the file.
    pub host: Vec<bool>,
    /// Why the file's device images are linked; `None`: they are not.
    pub device: Vec<Option<Reason>>,
}

/// Why a file belongs to the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It is on the line, or in an archive that is linked whole.
    OnLine,
    /// It is the first member that defines this host symbol.
    HostSymbol(String),
    /// It is the first member that defines this device symbol.
    DeviceSymbol(String),
}

/// Why the host linker links a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken<'a> {
    OnLine,
    Defines(&'a [u8]),
}

impl Taken<'_> {
    fn reason(self) -> Reason {
        match self {
            Taken::OnLine => Reason::OnLine,
            Taken::Defines(name) => Reason::HostSymbol(String::from_utf8_lossy(name).into_owned()),
        }
    }
}

/// Selects the files of a link. `roots` are symbols that the line itself wants, and `code` is device code that it links in
/// any case.
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
        // No member carries device code: what the host linker takes of them does not matter.
        let device = on_line.iter().map(|on_line| on_line.then_some(Reason::OnLine)).collect();
        return Ok(Selection { host: on_line, device });
    }
    let units = host_units(inputs)?;
    let taken = resolve_host(&units, roots);
    let host = taken.iter().map(Option::is_some).collect();
    let device = taken.into_iter().map(|taken| taken.map(Taken::reason)).collect();
    let device = add_referenced_devices(images, device, code)?;
    Ok(Selection { host, device })
}

/// The files that the host linker links.
///
/// # Errors
/// Damaged symbol tables.
pub fn host_files(inputs: &InputFiles, roots: &[String]) -> Result<Vec<bool>, Errors> {
    Ok(resolve_host(&host_units(inputs)?, roots).iter().map(Option::is_some).collect())
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
    wants: Vec<&'a [u8]>,
}

fn host_unit<'a>(inputs: &'a InputFiles, file: &'a InputFile) -> Result<HostUnit<'a>, Errors> {
    let mut unit = HostUnit { archive: archive_of(file), ..HostUnit::default() };
    if let Some(bitcode) = &file.bitcode {
        for symbol in &bitcode.symbols {
            let list = match symbol.strength {
                Strength::Undefined => &mut unit.wants,
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
            unit.wants.push(symbol.name);
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

/// Walks the line as a linker does, an archive at a time, again and again until nothing more is taken: as
/// if all archives stood in one `--start-group`. A link that needs less order than this fails in the host
/// linker, and one that needs more takes the same members.
fn resolve_host<'a>(units: &[HostUnit<'a>], roots: &'a [String]) -> Vec<Option<Taken<'a>>> {
    let mut state = HostState::default();
    state.wanted.extend(roots.iter().map(String::as_bytes));
    let mut taken: Vec<_> = units.iter().map(|unit| unit.archive.is_none().then_some(Taken::OnLine)).collect();
    units.iter().filter(|unit| unit.archive.is_none()).for_each(|unit| state.take(unit));
    // Who offers a symbol, in the order of the line.
    let mut offers: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (index, unit) in units.iter().enumerate().filter(|(_, unit)| unit.archive.is_some()) {
        unit.defines.iter().for_each(|name| offers.entry(name).or_default().push(index));
    }
    while let Some(name) = state.wanted.pop() {
        if state.defined.contains(name) {
            continue;
        }
        if let Some(index) = offers.get(name).and_then(|members| members.first()).copied()
            && taken[index].is_none()
        {
            taken[index] = Some(Taken::Defines(name));
            state.take(&units[index]);
        }
    }
    taken
}

#[derive(Default)]
struct HostState<'a> {
    defined: HashSet<&'a [u8]>,
    wanted: Vec<&'a [u8]>,
}

impl<'a> HostState<'a> {
    fn take(&mut self, unit: &HostUnit<'a>) {
        self.defined.extend(unit.defines.iter().copied());
        self.wanted.extend(unit.wants.iter().copied());
    }
}

/// Adds members that the host linker leaves out and that define device symbols which the selected ones reference.
fn add_referenced_devices(
    images: &[FoundImage<'_>],
    mut selected: Vec<Option<Reason>>,
    code: &DeviceCode<'_>,
) -> Result<Vec<Option<Reason>>, Errors> {
    let mut symbols = symbols::Cache::new(images, code.symbols()?);
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

    fn unit<'a>(archive: Option<usize>, defines: &[&'a str], wants: &[&'a str]) -> HostUnit<'a> {
        let bytes = |names: &[&'a str]| names.iter().map(|name| name.as_bytes()).collect();
        HostUnit { archive, defines: bytes(defines), wants: bytes(wants) }
    }

    fn taken(units: &[HostUnit<'_>], roots: &[&str]) -> Vec<bool> {
        let roots: Vec<String> = roots.iter().map(|root| (*root).to_owned()).collect();
        resolve_host(units, &roots).iter().map(Option::is_some).collect()
    }

    #[test]
    fn members_are_taken_as_they_are_needed() {
        let units = [
            unit(None, &["_start"], &["main"]),
            unit(Some(1), &["main"], &["helper"]),
            unit(Some(1), &["unused"], &["far"]),
            unit(Some(2), &["far"], &[]),
            // Behind the archive that wants it, and in front of it.
            unit(Some(0), &["helper"], &["main"]),
            unit(Some(3), &["helper"], &[]),
        ];
        assert_eq!(taken(&units, &[]), [true, true, false, false, true, false]);
        assert_eq!(taken(&units, &["unused"]), [true, true, true, true, true, false]);
    }

    #[test]
    fn a_definition_on_the_line_keeps_members_out() {
        let units = [unit(None, &["main"], &["f"]), unit(Some(0), &["f"], &[]), unit(None, &["f"], &[])];
        assert_eq!(taken(&units, &[]), [true, false, true]);
    }
}
