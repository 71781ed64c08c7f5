//! The files that the host linker reads because inputs name them: libraries of `-l`, members of thin archives, the files of linker scripts,
//! and libraries that shared libraries need.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use offload_bundle::archive::{self, MemberData};
use offload_bundle::host_object::{self, FileKind};

use crate::cli::options::{Input, Options};
use crate::host::library_folders::{self, LibraryFolders};
use crate::host::linker_script;
use crate::reproduce::files::{self, Files};
use crate::sys::mapped_file::Mapped;

/// What the new command line needs in addition to the files.
#[derive(Default)]
pub struct Folders {
    /// Folders without `-L` in which libraries were found.
    pub libraries: BTreeSet<PathBuf>,
    /// Folders in which libraries of libraries were found.
    pub needed: BTreeSet<PathBuf>,
}

/// Adds the inputs of the host link. `run_paths` are the folders that the line names for libraries of libraries.
pub fn add(options: &Options, program: &str, run_paths: &[String], archive: &mut Files) -> Folders {
    let run_paths = run_paths.iter().map(PathBuf::from).chain(options.library_paths.iter().cloned());
    let run_paths = run_paths.map(|folder| library_folders::in_sysroot(&folder, options.sysroot.as_deref()));
    let searched = LibraryFolders::new(options, program);
    let (run_paths, folders) = (run_paths.collect(), Folders::default());
    let mut inputs = Inputs { options, searched, run_paths, archive, folders, seen: BTreeSet::new() };
    options.inputs.iter().for_each(|input| inputs.add_input(input));
    inputs.folders
}

struct Inputs<'a> {
    options: &'a Options,
    searched: LibraryFolders<'a>,
    run_paths: Vec<PathBuf>,
    archive: &'a mut Files,
    folders: Folders,
    /// Names in the archive.
    seen: BTreeSet<PathBuf>,
}

impl Inputs<'_> {
    fn add_input(&mut self, input: &Input) {
        let found = self.searched.locate(input).or_else(|| self.in_sysroot(input));
        match (found, input) {
            (Some(path), Input::Library { .. }) => {
                let folder = path.parent().unwrap_or(Path::new("")).to_owned();
                let is_named =
                    |named: &PathBuf| library_folders::in_sysroot(named, self.options.sysroot.as_deref()) == folder;
                if !self.options.library_paths.iter().any(is_named) {
                    self.folders.libraries.insert(files::name_of(&folder));
                }
                self.add_file(&path);
            }
            (Some(path), Input::File { .. }) => self.add_file(&path),
            (None, Input::Library { name, .. }) => self.archive.note(format!("the library -l{name} was not found")),
            (None, Input::File { .. }) => {}
        }
    }

    /// Finds a library in the system's folders below the sysroot, as host linkers do.
    fn in_sysroot(&self, input: &Input) -> Option<PathBuf> {
        let root = self.options.sysroot.as_ref()?;
        let folders = library_folders::of_system(self.options);
        let folders = folders.iter().map(|folder| library_folders::below(root, folder));
        let below = Options { library_paths: folders.collect(), ..Options::default() };
        library_folders::locate(input, &below, &Vec::new).filter(|path| path.starts_with(root))
    }

    fn add_file(&mut self, path: &Path) {
        if !path.is_file() {
            self.archive.note(format!("{} was not found, or is no regular file", path.display()));
            return;
        }
        if !self.seen.insert(files::name_of(path)) {
            return;
        }
        self.archive.add(path);
        // A file that cannot be read is an error of the archive.
        let Ok(content) = Mapped::open(path) else { return };
        match host_object::file_kind(content.bytes()) {
            FileKind::ThinArchive => self.add_members(path, content.bytes()),
            FileKind::ElfShared => self.add_needed(path, content.bytes()),
            FileKind::Unknown => self.add_script(path, content.bytes()),
            _ => {}
        }
    }

    fn add_members(&mut self, path: &Path, bytes: &[u8]) {
        let folder = path.parent().unwrap_or(Path::new(""));
        // Damage is reported by the link.
        for member in archive::members(bytes).unwrap_or_default() {
            let MemberData::Thin { path: member, .. } = member.data else { continue };
            if Path::new(&member).is_absolute() {
                self.archive.note(format!(
                    "{} is a thin archive and names {member} by its whole path, where the linkers will look for it",
                    path.display()
                ));
            }
            self.add_file(&folder.join(member));
        }
    }

    /// Adds the libraries that a shared library needs, where the command line names their folders. Those of the system are not needed: a
    /// linker takes the system's own.
    fn add_needed(&mut self, path: &Path, bytes: &[u8]) {
        let Ok(needs) = host_object::library_needs(bytes) else { return };
        if needs.name.is_none() {
            self.archive.note(format!(
                "{} has no name of its own (DT_SONAME); unless -l found it, programs record the path by which it was linked",
                path.display()
            ));
        }
        for needed in needs.needed {
            let mut candidates = self.run_paths.iter().map(|folder| folder.join(needed));
            let Some(found) = candidates.find(|candidate| candidate.is_file() && candidate != path) else { continue };
            self.folders.needed.insert(files::name_of(found.parent().unwrap_or(Path::new(""))));
            self.add_file(&found);
        }
    }

    /// Adds the files that a linker script names. The script's copy names those of the archive.
    fn add_script(&mut self, path: &Path, bytes: &[u8]) {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if !linker_script::only_names_inputs(text) {
            return;
        }
        for name in linker_script::inputs(text) {
            let input = match name.strip_prefix("-l") {
                Some(library) => library_input(library),
                None => match library_folders::in_script(path, &name, self.options.sysroot.as_deref()) {
                    Some(path) => Input::File { path, whole: false },
                    None => library_input(&format!(":{name}")),
                },
            };
            self.add_input(&input);
        }
        let in_archive = |name: &str| {
            let sysroot = self.options.sysroot.as_deref();
            let file = library_folders::in_script(path, name, sysroot).filter(|_| !name.starts_with("-l"))?;
            Some(files::name_of(&file).display().to_string())
        };
        let changed = linker_script::with_names(text, in_archive);
        if changed != text {
            self.archive.add_changed(path, changed.into_bytes());
        }
    }
}

fn library_input(name: &str) -> Input {
    Input::Library { name: name.to_owned(), archive_only: false, whole: false }
}
