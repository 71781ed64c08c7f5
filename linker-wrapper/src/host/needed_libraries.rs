//! The symbols that shared libraries of the link define and use, with those of the libraries that they need in turn. A program exports
//! what such a library uses, and what it defines itself in place of the library.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use offload_bundle::host_object::{self, FileKind, LibraryNeeds, host_symbols};

use crate::cli::options::Options;
use crate::host::input_files::InputFiles;
use crate::host::library_folders::{self, below};
use crate::sys::mapped_file::Mapped;

/// Collects the names, each with the library that has it. `folders` are those of `-rpath` and `-rpath-link`.
///
/// # Errors
/// A library that is damaged or was not found, as a sentence without a full stop.
pub fn symbols(inputs: &InputFiles, options: &Options, folders: &[String]) -> Result<Vec<(Vec<u8>, String)>, String> {
    let mut search = Search { folders: folders_of(options, folders), ..Search::default() };
    for file in inputs.files().iter().filter(|file| file.kind == FileKind::ElfShared) {
        search.seen.extend(Path::new(&file.name).file_name().map(|name| name.to_string_lossy().into_owned()));
        search.add(inputs.bytes(file), &file.name)?;
    }
    while let Some((needed, by, own_folders)) = search.open.pop() {
        if !search.seen.insert(needed.clone()) {
            continue;
        }
        let candidates = || own_folders.iter().chain(&search.folders).map(|folder| folder.join(&needed));
        let found: Vec<PathBuf> = candidates().filter(|path| path.is_file()).collect();
        if found.is_empty() {
            return Err(format!("{needed}, which {by} needs, was not found"));
        }
        // Nobody can say here which of them the linker and the loader will take.
        for path in found {
            let shown = path.display().to_string();
            let content = Mapped::open(&path).map_err(|error| format!("cannot read {shown}: {error}"))?;
            if host_object::file_kind(content.bytes()) == FileKind::ElfShared {
                search.add(content.bytes(), &shown)?;
            }
        }
    }
    Ok(search.names)
}

#[derive(Default)]
struct Search {
    names: Vec<(Vec<u8>, String)>,
    /// Names of libraries that were read.
    seen: HashSet<String>,
    /// Libraries to read: the name, what needs it, and the folders that this one names.
    open: Vec<(String, String, Vec<PathBuf>)>,
    folders: Vec<PathBuf>,
}

impl Search {
    fn add(&mut self, bytes: &[u8], file: &str) -> Result<(), String> {
        let damaged = |error| format!("{file}: {error}");
        let symbols = host_symbols(bytes, true).map_err(damaged)?;
        self.names.extend(symbols.iter().map(|symbol| (symbol.name.to_vec(), file.to_owned())));
        let LibraryNeeds { name, needed, folders } = host_object::library_needs(bytes).map_err(damaged)?;
        self.seen.extend(name.map(str::to_owned));
        let origin = Path::new(file).parent().unwrap_or(Path::new("")).display().to_string();
        let expanded = |folder: &&str| PathBuf::from(folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin));
        let folders: Vec<PathBuf> = folders.iter().map(expanded).collect();
        self.open.extend(needed.iter().map(|needed| ((*needed).to_owned(), file.to_owned(), folders.clone())));
        Ok(())
    }
}

/// The folders that linkers search for libraries of libraries, and more.
fn folders_of(options: &Options, folders: &[String]) -> Vec<PathBuf> {
    let sysroot = options.sysroot.as_deref();
    let of_line = folders.iter().map(Path::new).chain(options.library_paths.iter().map(PathBuf::as_path));
    let of_line = of_line.map(|folder| library_folders::in_sysroot(folder, sysroot));
    let of_variables = options.environment.library_paths.iter().cloned();
    let of_system = library_folders::of_system(options);
    let in_sysroot: Vec<_> = of_system.iter().filter_map(|folder| Some(below(sysroot?, folder))).collect();
    of_line.chain(of_variables).chain(in_sysroot).chain(of_system).collect()
}
