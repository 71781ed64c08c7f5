//! Rejects host objects of clang 15 to 20: their offload entries have another form, which registration code does not see, so none of their
//! kernels could be launched.

use std::collections::BTreeMap;

use offload_bundle::host_object::{self, FileKind};

use crate::device::archive_selection;
use crate::device::error::Error;
use crate::diag::error::Errors;
use crate::host::input_files::{InputFile, InputFiles, Place};

/// Checks the files that the host linker links.
///
/// # Errors
/// One for each compiler and kind of entries. Damaged symbol tables.
pub fn check(inputs: &InputFiles, roots: &[String]) -> Result<(), Errors> {
    let files = inputs.files();
    let of_file = |(index, file)| Some((index, former_entries(inputs, file)?));
    let mut found: Vec<_> = files.iter().enumerate().filter_map(of_file).collect();
    if found.iter().any(|(index, _)| files[*index].place != Place::Line) {
        let linked = archive_selection::host_files(inputs, roots)?;
        found.retain(|(index, _)| linked[*index]);
    }
    // Another object of the line, made by the linker wrapper of that clang, may register all.
    if found.is_empty() || files.iter().any(|file| inputs.registers_all_entries(file)) {
        return Ok(());
    }
    let mut by_compiler: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for (index, (section, compiler)) in found {
        by_compiler.entry((compiler, section)).or_default().push(&files[index].name);
    }
    let mut errors = Errors::default();
    for ((compiler, section), names) in by_compiler {
        let file = names[0].to_owned();
        errors.extend(Error::FormerEntries { file, section, compiler, others: names.len() - 1 });
    }
    errors.or(())
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
