//! Finds host objects of clang 15 to 20, whose offload entries are in other sections than those of today, and rejects those that this link
//! cannot register.

use std::collections::BTreeMap;

use llvm_passes::registration::EntryTables;
use offload_bundle::host_object::{self, EntryForm, FileKind, HostEntry};

use crate::device::archive_selection;
use crate::device::error::Error;
use crate::diag::error::Errors;
use crate::host::error::damaged;
use crate::host::input_files::{InputFile, InputFiles, Place};

/// The section of OpenMP's entries. libomptarget reads them itself, in the layout of its own release.
const READ_BY_RUNTIME: &str = "omp_offloading_entries";

/// Returns which tables the files have that the host linker links.
///
/// # Errors
/// Entries that no link can register: one for each compiler and kind of entries. Damaged symbol tables.
pub fn tables(inputs: &InputFiles, roots: &[String]) -> Result<EntryTables, Errors> {
    let files = inputs.files();
    let of_file = |(index, file)| Some((index, former_entries(inputs, file)?));
    let mut found: Vec<_> = files.iter().enumerate().filter_map(of_file).collect();
    if found.iter().any(|(index, _)| files[*index].place != Place::Line) {
        let linked = archive_selection::host_files(inputs, roots)?;
        found.retain(|(index, _)| linked[*index]);
    }
    // Another object of the line, made by the linker wrapper of that clang, may register all.
    if found.is_empty() || files.iter().any(|file| inputs.registers_all_entries(file)) {
        return Ok(EntryTables::Current);
    }
    let mut unreadable: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    let mut errors = Errors::default();
    for (index, (section, compiler)) in found {
        let file = &files[index];
        // `ld -r` may have put them beside others.
        let beside = || host_object::section(inputs.bytes(file), READ_BY_RUNTIME.as_bytes());
        if section == READ_BY_RUNTIME || beside().is_some_and(|(_, entries)| !entries.is_empty()) {
            unreadable.entry((compiler, READ_BY_RUNTIME)).or_default().push(&file.name);
        } else if let Some(variable) = managed_variable(inputs, file)? {
            errors.extend(Error::FormerManaged { file: file.name.clone(), compiler, variable });
        }
    }
    for ((compiler, section), names) in unreadable {
        let file = names[0].to_owned();
        errors.extend(Error::FormerEntries { file, section, compiler, others: names.len() - 1 });
    }
    errors.or(EntryTables::WithFormer)
}

/// The section of a file's former entries, and the compiler.
fn former_entries(inputs: &InputFiles, file: &InputFile) -> Option<(&'static str, String)> {
    match (&file.bitcode, file.kind) {
        (Some(host), _) => host.former_entries.clone(),
        (None, FileKind::ElfRelocatable) => {
            host_object::former_entries(inputs.bytes(file)).map(|found| (found.section, found.compiler))
        }
        _ => None,
    }
}

/// A managed variable among entries of 32 bytes: they name its contents, and not the pointer that the host code reads.
fn managed_variable(inputs: &InputFiles, file: &InputFile) -> Result<Option<String>, Errors> {
    if let Some(host) = &file.bitcode {
        return Ok(host.former_managed.clone());
    }
    let entries = host_object::offload_entries(inputs.bytes(file));
    let entries = entries.map_err(|error| damaged(&file.name, file.base(), &error))?;
    let is_lost = |entry: &HostEntry| entry.form == EntryForm::Former && entry.is_managed();
    Ok(entries.into_iter().find(is_lost).map(|entry| entry.name))
}
