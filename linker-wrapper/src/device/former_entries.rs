//! Finds host objects of clang 15 to 20, whose offload entries are in other sections than those of today, and rejects those that this link
//! cannot register.

use std::collections::BTreeMap;

use llvm_passes::registration::EntryTables;
use offload_bundle::host_object::{self, EntryForm, FileKind, HostEntry, IncompleteEntry};
use offload_bundle::offload_binary::OffloadKinds;

use crate::device::archive_selection;
use crate::device::error::Error;
use crate::diag::error::Errors;
use crate::host::error::damaged;
use crate::host::input_files::{InputFile, InputFiles, Place};

/// The section of OpenMP's entries. libomptarget reads them itself, in the layout of its own release.
const READ_BY_RUNTIME: &str = "omp_offloading_entries";

/// Returns which tables the files have that the host linker links. `is_program`: the libraries on the line are those of the program.
///
/// # Errors
/// Entries that no link can register: one for each compiler and kind of entries. Damaged symbol tables.
pub fn tables(inputs: &InputFiles, roots: &[String], is_program: bool) -> Result<EntryTables, Errors> {
    let files = inputs.files();
    let of_file = |(index, file)| Some((index, former_entries(inputs, file)?));
    let mut found: Vec<_> = files.iter().enumerate().filter_map(of_file).collect();
    if found.iter().any(|(index, _)| files[*index].place != Place::Line) {
        let linked = archive_selection::host_files(inputs, roots)?;
        found.retain(|(index, _)| linked[*index]);
    }
    // Other objects of the line, made by the linker wrapper of that clang, may register all of a programming model.
    let registered = if found.is_empty() { OffloadKinds::default() } else { inputs.registered().former };
    found.retain(|(index, (section, _))| {
        former_kinds(inputs, &files[*index], section).into_iter().any(|kind| !registered.contains(kind))
    });
    if found.is_empty() {
        return Ok(EntryTables::Current);
    }
    let mut unreadable: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    let mut errors = Errors::default();
    let reader = is_program.then(|| Runtime::find(inputs)).flatten();
    let mut tables = EntryTables::WithFormer;
    for (index, (section, compiler)) in found {
        let file = &files[index];
        // `ld -r` may have put them beside others.
        let kinds = former_kinds(inputs, file, section);
        if kinds.contains(&OffloadKinds::OPENMP) && !registered.contains(OffloadKinds::OPENMP) {
            if reader.as_ref().is_some_and(|runtime| runtime.reads(inputs, file, &compiler)) {
                tables = EntryTables::WithFormerOfOpenMp;
            } else {
                unreadable.entry((compiler, READ_BY_RUNTIME)).or_default().push(&file.name);
            }
        } else if let Some((what, variable)) = incomplete_entry(inputs, file, registered)? {
            let file = file.name.clone();
            errors.extend(match what {
                IncompleteEntry::ManagedVariable => Error::FormerManaged { file, compiler, variable },
                IncompleteEntry::Texture => Error::FormerTexture { file, compiler, variable },
            });
        }
    }
    for ((compiler, section), names) in unreadable {
        let file = names[0].to_owned();
        errors.extend(Error::FormerEntries { file, section, compiler, others: names.len() - 1 });
    }
    errors.or(tables)
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

/// The programming models of a file's former entries, the first of which are in `section`; `ld -r` may have put others beside them.
fn former_kinds(inputs: &InputFiles, file: &InputFile, section: &str) -> Vec<OffloadKinds> {
    let has = |section: &&&str| {
        let found = || host_object::section(inputs.bytes(file), section.as_bytes());
        file.bitcode.is_none() && found().is_some_and(|(_, entries)| !entries.is_empty())
    };
    let beside = host_object::ENTRY_SECTIONS.iter().filter(has).copied();
    beside.chain([section]).filter_map(host_object::former_kind).collect()
}

/// A variable of HIP whose former entry lacks what registration code needs. CUDA has no such variables: its runtime registers no textures any
/// more, and clang ignores `managed`.
fn incomplete_entry(
    inputs: &InputFiles,
    file: &InputFile,
    registered: OffloadKinds,
) -> Result<Option<(IncompleteEntry, String)>, Errors> {
    if registered.contains(OffloadKinds::HIP) {
        return Ok(None);
    }
    if let Some(host) = &file.bitcode {
        return Ok(host.incomplete_entry.clone());
    }
    let entries = host_object::offload_entries(inputs.bytes(file));
    let mut entries = entries.map_err(|error| damaged(&file.name, file.base(), &error))?.into_iter();
    Ok(entries.find_map(|entry| {
        let incomplete = entry.incomplete().filter(|_| entry.kinds.contains(OffloadKinds::HIP))?;
        Some((incomplete, entry.name))
    }))
}

/// The libomptarget of the program, if it reads former entries and the program has no later ones of OpenMP.
struct Runtime {
    form: EntryForm,
}

impl Runtime {
    fn find(inputs: &InputFiles) -> Option<Self> {
        let release = inputs.files().iter().find_map(|file| release_of_runtime(inputs, file))?;
        let form = match release {
            ..=19 => EntryForm::Former,
            20 => EntryForm::Current,
            _ => return None,
        };
        let has_current = inputs.files().iter().any(|file| has_current_entries(inputs, file));
        (!has_current).then_some(Runtime { form })
    }

    /// Whether all entries of a file have the layout that it reads. Bitcode has that of its compiler.
    fn reads(&self, inputs: &InputFiles, file: &InputFile, compiler: &str) -> bool {
        if file.bitcode.is_some() {
            let major = compiler.strip_prefix("clang ").and_then(|version| version.split('.').next()?.parse().ok());
            return major.is_some_and(|major: u32| (major <= 19) == (self.form == EntryForm::Former));
        }
        let entries = host_object::offload_entries(inputs.bytes(file)).unwrap_or_default();
        let mut of_openmp = entries.iter().filter(|entry| entry.kinds.contains(OffloadKinds::OPENMP)).peekable();
        of_openmp.peek().is_some() && of_openmp.all(|entry| entry.form == self.form)
    }
}

/// The release of LLVM in the name of libomptarget: 19 of `libomptarget.so.19.1`.
fn release_of_runtime(inputs: &InputFiles, file: &InputFile) -> Option<u32> {
    if file.kind != FileKind::ElfShared {
        return None;
    }
    let name = host_object::library_needs(inputs.bytes(file)).ok()?.name?;
    name.strip_prefix("libomptarget.so.")?.split('.').next()?.parse().ok()
}

/// Whether a file has OpenMP entries in today's section.
fn has_current_entries(inputs: &InputFiles, file: &InputFile) -> bool {
    let data = inputs.bytes(file);
    let is_object = file.kind == FileKind::ElfRelocatable && host_object::former_entries(data).is_none();
    let is_of_openmp = |entry: &HostEntry| entry.kinds.contains(OffloadKinds::OPENMP);
    is_object && host_object::offload_entries(data).unwrap_or_default().iter().any(is_of_openmp)
}
