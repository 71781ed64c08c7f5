//! Selects the archive members that are part of the link: those that the host linker extracts, and those that define device
//! symbols which selected files reference, to a fixed point.
//!
//! In doubt a member is selected, because a superfluous kernel is better than a registered one that no image holds.

use std::collections::{BTreeSet, HashSet};

use llvm_passes::symbols::Strength;
use offload_bundle::host_object::FileKind;
use offload_bundle::host_object::{self, host_symbols};
use rayon::prelude::*;

use crate::cli::device_options::CUDA_TRIPLE;
use crate::compilers::rdc_image::RdcImage;
use crate::device::device_files::DeviceCode;
use crate::device::host_extraction::{self, Definition, HostUnit};
use crate::device::stub_aliases;
use crate::device::symbols::CandidateSymbols;
use crate::diag::error::{Errors, collect};
use crate::host::embedded_images::FoundImage;
use crate::host::error::damaged;
use crate::host::export_list;
use crate::host::input_files::{InputFile, InputFiles, Place};
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
    /// The symbols of a unit of nvcc in the link cannot be read, so that this unit may be needed.
    UnreadableSymbols,
    /// The host linker has linked the file, for a reason that is not known.
    Linked,
}

/// Why the host linker links a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostReason<'a> {
    OnLine,
    Defines(&'a [u8]),
    Linked,
}

impl HostReason<'_> {
    fn reason(self) -> Reason {
        match self {
            HostReason::OnLine => Reason::OnLine,
            HostReason::Defines(name) => Reason::HostSymbol(String::from_utf8_lossy(name).into_owned()),
            HostReason::Linked => Reason::Linked,
        }
    }
}

/// Selects the files of a link. `roots` are symbols that the line itself references, `added` are files that the host linker is known to link,
/// and `code` is device code that is always linked.
///
/// # Errors
/// Damaged symbol tables.
pub fn select(
    inputs: &InputFiles,
    images: &[FoundImage<'_>],
    (roots, added): (&[String], &BTreeSet<usize>),
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
    let mut units = host_units(inputs)?;
    let roots = [roots, inputs.script_symbols()].concat();
    // An added member is linked as if it were on the line, and what it references, too.
    added.iter().for_each(|file| units[*file].archive = None);
    let mut linked = resolve_host(&units, &roots, stub_aliases::are_mixed(images));
    added.iter().for_each(|file| linked[*file] = Some(HostReason::Linked));
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
    let roots = [roots, inputs.script_symbols()].concat();
    Ok(resolve_host(&host_units(inputs)?, &roots, false).iter().map(Option::is_some).collect())
}

fn host_units(inputs: &InputFiles) -> Result<Vec<HostUnit<'_>>, Errors> {
    threads::start()?;
    collect(inputs.files().par_iter().map(|file| host_unit(inputs, file)).collect::<Vec<_>>())
}

fn host_unit<'a>(inputs: &'a InputFiles, file: &'a InputFile) -> Result<HostUnit<'a>, Errors> {
    let mut unit = HostUnit { archive: archive_of(file), ..HostUnit::default() };
    if let Some(bitcode) = &file.bitcode {
        for symbol in &bitcode.symbols {
            let name = symbol.name.as_bytes();
            match symbol.strength {
                Strength::Undefined => unit.references.push(name),
                Strength::WeakUndefined => {}
                strength => unit.defines.push(Definition { name, weak: strength != Strength::Strong }),
            }
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
        let name = without_version(symbol.name);
        // A member with a definition replaces a common symbol.
        if symbol.common && unit.archive.is_none() {
            unit.references.push(name);
        } else if symbol.defined {
            unit.defines.push(Definition { name, weak: symbol.weak });
        } else if !symbol.weak {
            unit.references.push(name);
        }
    }
    Ok(unit)
}

/// `f` for `f@V1` and `f@@V1`: a reference to a version takes a member with any of the symbol's versions.
fn without_version(name: &[u8]) -> &[u8] {
    name.iter().position(|byte| *byte == b'@').map_or(name, |end| &name[..end])
}

fn archive_of(file: &InputFile) -> Option<usize> {
    match file.place {
        Place::Line => None,
        Place::Archive(archive) => Some(archive),
    }
}

/// Determines the files that the host linker may link. A link whose archives are in the wrong order fails later, in the host linker. If units of
/// nvcc and clang are `mixed`, a kernel is found under the name of either.
fn resolve_host<'a>(units: &[HostUnit<'a>], roots: &'a [String], mixed: bool) -> Vec<Option<HostReason<'a>>> {
    let patterns: Vec<&[u8]> =
        roots.iter().map(String::as_bytes).filter(|name| export_list::is_pattern(name)).collect();
    let mut roots: Vec<&[u8]> = roots.iter().map(String::as_bytes).collect();
    if !patterns.is_empty() {
        let names = units.iter().flat_map(|unit| unit.defines.iter().map(|definition| definition.name));
        roots.extend(names.filter(|name| patterns.iter().any(|pattern| export_list::may_match(pattern, name))));
    }
    loop {
        let extracted = host_extraction::extracted(units, &roots);
        let linked = |(unit, name): (&HostUnit<'a>, Option<&'a [u8]>)| match unit.archive {
            None => Some(HostReason::OnLine),
            Some(_) => name.map(HostReason::Defines),
        };
        let linked: Vec<_> = units.iter().zip(extracted).map(linked).collect();
        let others = if mixed { other_names(units, &linked) } else { Vec::new() };
        let others: Vec<&[u8]> = others.into_iter().filter(|name| !roots.contains(name)).collect();
        if others.is_empty() {
            return linked;
        }
        roots.extend(others);
    }
}

/// The names in archives of kernels that linked files reference and nothing defines, because the other compiler made those files.
fn other_names<'a>(units: &[HostUnit<'a>], linked: &[Option<HostReason<'a>>]) -> Vec<&'a [u8]> {
    let names = |unit: &HostUnit<'a>| unit.defines.iter().map(|definition| definition.name).collect::<Vec<_>>();
    let defined: HashSet<&[u8]> = units.iter().flat_map(names).collect();
    let of_linked = units.iter().zip(linked).filter(|(_, reason)| reason.is_some());
    let missing = of_linked.flat_map(|(unit, _)| &unit.references).copied().filter(|name| !defined.contains(name));
    let text = |name: &'a [u8]| std::str::from_utf8(name).ok();
    let undefined = missing.filter_map(text).collect();
    let aliases = host_object::stub_aliases(&defined.iter().copied().filter_map(text).collect(), &undefined);
    aliases.iter().filter_map(|alias| defined.get(alias.target.as_bytes()).copied()).collect()
}

/// Adds members that the host linker does not extract but that define device symbols which selected files reference.
fn add_referenced_devices(
    images: &[FoundImage<'_>],
    mut selected: Vec<Option<Reason>>,
    code: &DeviceCode<'_>,
) -> Result<Vec<Option<Reason>>, Errors> {
    // nvlink takes every unit of an archive. Where LTO-IR hides what units define and reference, that is the only sound choice.
    let is_linked = selected.iter().any(Option::is_some);
    if is_linked && images.iter().filter_map(|found| found.foreign.as_ref()).any(RdcImage::has_unreadable_symbols) {
        for found in images.iter().filter(|found| found.image.triple() == CUDA_TRIPLE) {
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
        let definition = |name: &&'a str| Definition { name: name.as_bytes(), weak: false };
        let references = references.iter().map(|name| name.as_bytes()).collect();
        HostUnit { archive, defines: defines.iter().map(definition).collect(), references }
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
    fn roots_may_be_patterns() {
        let units = [unit(None, &["main"], &[]), unit(Some(0), &["launch_a"], &[]), unit(Some(0), &["other"], &[])];
        assert_eq!(linked(&units, &["launch_*"]), [true, true, false]);
        assert_eq!(linked(&units, &["launch*b"]), [true, false, false]);
    }

    #[test]
    fn versions_of_a_symbol_are_one_name() {
        let names: [(&[u8], &[u8]); 3] = [(b"f", b"f"), (b"f@V1", b"f"), (b"f@@V1", b"f")];
        for (name, expected) in names {
            assert_eq!(without_version(name), expected);
        }
    }

    #[test]
    fn a_definition_in_front_of_an_archive_prevails_over_its_members() {
        let units = [unit(None, &["main"], &["f"]), unit(None, &["f"], &[]), unit(Some(0), &["f"], &[])];
        assert_eq!(linked(&units, &[]), [true, true, false]);
    }
}
