//! The files that the host linker will read, in its order: objects, members of archives, shared libraries.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use llvm_passes::IrError;
use llvm_passes::embedded::{self, BitcodeHost};
use offload_bundle::FormatError;
use offload_bundle::archive::{self, MemberData};
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::host_object::{former_kind, former_section, host_symbols};
use offload_bundle::offload_binary::OffloadKinds;
use offload_bundle::printable;

use crate::cli::options::{Input, Options};
use crate::compilers;
use crate::diag::error::{Errors, collect};
use crate::host::coff;
use crate::host::error::{Error, damaged};
use crate::host::library_folders::{self, LibraryFolders};
use crate::host::linker_script;
use crate::host::remembered::Remembered;
use crate::sys;
use crate::sys::mapped_file::Mapped;
use crate::sys::stamp::{self, Stamp};

/// Maximum size of a linker script that stands for libraries.
const LONGEST_SCRIPT: usize = 4 * 1024 * 1024;

/// The mapped files of a link, and the input files in them: objects, libraries, and the members of archives.
#[derive(Default)]
pub struct InputFiles {
    mapped: Vec<Mapped>,
    files: Vec<InputFile>,
    warnings: Vec<String>,
    /// What of the link is not known, as sentences without a full stop.
    unread: Vec<String>,
    /// Words of linker scripts with other commands than names of files: among them are symbols, for which members are extracted.
    script_symbols: Vec<String>,
    /// Stamps of all files that were opened, also of those without device code.
    stamps: Vec<Stamp>,
    /// The files whose content the stamps know.
    remembered: Remembered,
    /// Index of the input on the command line that is being opened.
    input: usize,
    /// Real paths of the files seen so far, and how they are linked: a library counts once, however often it is named.
    seen: HashMap<PathBuf, Seen>,
    /// These are inputs of the device link, in which bitcode is device code.
    for_device: bool,
}

/// One host file or archive member.
pub struct InputFile {
    /// The name in messages: `path` or `archive(member)`.
    pub name: String,
    /// Its format.
    pub kind: FileKind,
    /// Why it is part of the link.
    pub place: Place,
    /// It is a member of an archive.
    pub in_archive: bool,
    /// The device code in a host file that is bitcode, which has no sections.
    pub bitcode: Option<BitcodeHost>,
    /// Its offload binaries, decompressed, if they are compressed. Set when its images are read.
    pub inflated: OnceLock<Vec<u8>>,
    /// Index of the input on the command line.
    input: usize,
    mapped: usize,
    /// Its bytes in the mapped file.
    range: Range<usize>,
}

/// The programming models whose offload entries an object registers for the whole program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RegisteredEntries {
    /// Those in today's section.
    pub current: OffloadKinds,
    /// Those in the section of clang 15 to 20.
    pub former: OffloadKinds,
}

impl RegisteredEntries {
    /// Whether there are any.
    pub fn any(self) -> bool {
        self.kinds() != OffloadKinds::default()
    }

    /// The programming models with entries in either section.
    pub fn kinds(self) -> OffloadKinds {
        self.current | self.former
    }
}

/// How a library that was seen before is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// As it is, or whole: naming it again changes nothing.
    Whole,
    /// A script whose archives are not linked whole.
    Script,
    /// The n-th archive, which is not linked whole.
    Archive(usize),
}

/// Why an input file is part of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It is named on the command line, or in an archive that is linked whole.
    Line,
    /// It is a member of the n-th archive, and linked if something references it.
    Archive(usize),
}

impl InputFile {
    /// Offset of the input file in the mapped file: not 0 for a member of an archive.
    pub fn base(&self) -> u64 {
        self.range.start as u64
    }
}

impl InputFiles {
    /// Maps all inputs on the command line. The host linker reports those that do not exist.
    ///
    /// # Errors
    /// Files that exist and cannot be read, damaged archives, unreadable bitcode hosts.
    pub fn open(options: &Options, program: &str) -> Result<Self, Errors> {
        if options.code_object.is_some() {
            return InputFiles::of_device_code(options);
        }
        let folders = &LibraryFolders::new(options, program);
        let mut inputs = InputFiles::default();
        let mut errors = Errors::default();
        for (index, input) in options.inputs.iter().enumerate() {
            inputs.input = index;
            let whole = matches!(input, Input::File { whole: true, .. } | Input::Library { whole: true, .. });
            inputs.add_input(input, whole, folders).unwrap_or_else(|error| errors.extend(error));
        }
        for script in linker_script::of_line(&options.host_line) {
            let input = named_in_script(Path::new(""), &script.to_string_lossy(), false, folders);
            inputs.add_input(&input, false, folders).unwrap_or_else(|error| errors.extend(error));
        }
        if options.host_triple.as_deref().is_some_and(coff::is_host) {
            for path in coff::libraries(&options.host_line, options.environment.device().windows_library_paths.clone())
            {
                inputs.add_file(&path, false, folders).unwrap_or_else(|error| errors.extend(error));
            }
        }
        errors.or(inputs)
    }

    /// Maps the inputs of a link of device code alone.
    fn of_device_code(options: &Options) -> Result<Self, Errors> {
        let files = options.inputs.iter().map(|input| match input {
            Input::File { path, whole } => Ok((path.clone(), *whole)),
            Input::Library { name, .. } => Err(Error::LibraryOfTarget { name: name.clone() }.into()),
        });
        InputFiles::of_device_link(&collect(files)?)
    }

    /// The inputs of a link with a finished image, whose device code is not read.
    pub fn of_image(stamp: Stamp) -> Self {
        InputFiles { stamps: vec![stamp], ..InputFiles::default() }
    }

    /// Maps the inputs of the device link itself: files, and archives that are linked whole or not.
    ///
    /// # Errors
    /// Files that cannot be read, damaged archives.
    pub fn of_device_link(files: &[(PathBuf, bool)]) -> Result<Self, Errors> {
        let mut inputs = InputFiles { for_device: true, ..InputFiles::default() };
        let mut errors = Errors::default();
        for (path, whole) in files {
            let added = match inputs.map(path) {
                Ok(content) => inputs.add_device_file(path, content, *whole),
                Err(error) => Err(cannot_read(path, error)),
            };
            added.unwrap_or_else(|error| errors.extend(error));
        }
        errors.or(inputs)
    }

    fn add_device_file(&mut self, path: &Path, content: Mapped, whole: bool) -> Result<(), Errors> {
        if matches!(host_object::file_kind(content.bytes()), FileKind::Archive | FileKind::ThinArchive) {
            let is_new = self.see(path, if whole { Seen::Whole } else { Seen::Archive(self.mapped.len()) });
            return if is_new { self.add_archive(path, content, whole) } else { Ok(()) };
        }
        let range = 0..content.bytes().len();
        self.mapped.push(content);
        self.add_input_file(path.display().to_string(), self.mapped.len() - 1, range, Place::Line)
    }

    /// Warnings about files that could not be read.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What of the host link is not known here although the host linker may read it, as sentences without a full stop.
    pub fn unread(&self) -> &[String] {
        &self.unread
    }

    /// Checks that no file has changed since it was opened, except the link's own `output`.
    ///
    /// # Errors
    /// One for each file that has changed.
    pub fn check_unchanged(&self, output: &Path) -> Result<(), Errors> {
        let output = output.metadata().ok();
        let is_output = |stamp: &&Stamp| output.as_ref().is_some_and(|output| stamp.is_of(output));
        stamp::check(self.stamps.iter().filter(|stamp| !is_output(stamp)))
    }

    /// The input that the output would overwrite. GNU ld rejects such a link; other linkers destroy the input.
    pub fn overwritten_by(&self, output: &Path) -> Option<&Path> {
        stamp::named(&self.stamps, output)
    }

    /// Names that linker scripts among the inputs may reference.
    pub fn script_symbols(&self) -> &[String] {
        &self.script_symbols
    }

    /// All files, in link order.
    pub fn files(&self) -> &[InputFile] {
        &self.files
    }

    /// The size of all mapped files.
    pub fn size(&self) -> u64 {
        self.mapped.iter().map(|content| content.bytes().len() as u64).sum()
    }

    /// The bytes of the first host object.
    pub fn first_object(&self) -> Option<&[u8]> {
        self.files.iter().find(|file| file.kind == FileKind::ElfRelocatable).map(|file| self.bytes(file))
    }

    /// The bytes of a file.
    pub fn bytes(&self, file: &InputFile) -> &[u8] {
        &self.mapped[file.mapped].bytes()[file.range.clone()]
    }

    /// Whether a wrapper has already handled this link: its registration object is directly behind the output.
    pub fn already_registered(&self, options: &Options) -> bool {
        let behind_output = self.files.iter().find(|file| file.input >= options.inputs_before_output);
        behind_output.is_some_and(|file| self.registered_by(file).any())
    }

    /// The entries of the whole program that a file registers. The output of a relocatable link registers its own entries only, under names
    /// of their own.
    pub fn registered_by(&self, file: &InputFile) -> RegisteredEntries {
        if file.kind != FileKind::ElfRelocatable {
            return RegisteredEntries::default();
        }
        let bytes = self.bytes(file);
        let kinds = host_object::registered_kinds(bytes);
        if kinds == OffloadKinds::default() {
            return RegisteredEntries::default();
        }
        let symbols = host_symbols(bytes, false).unwrap_or_default();
        let open_tables = symbols.iter().filter(|symbol| !symbol.defined);
        let open_tables = open_tables.filter_map(|symbol| symbol.name.strip_prefix(b"__start_"));
        let without_table = compilers::registered_without_table(kinds);
        let mut registered = RegisteredEntries { current: without_table, ..RegisteredEntries::default() };
        for table in open_tables {
            if table == b"llvm_offload_entries" {
                registered.current = registered.current | kinds;
            } else if let Some(kind) = former_section(table).and_then(former_kind) {
                registered.former = registered.former | kind;
            }
        }
        registered
    }

    /// The entries of the whole program that any of the files registers.
    pub fn registered(&self) -> RegisteredEntries {
        let all = self.files.iter().map(|file| self.registered_by(file));
        all.fold(RegisteredEntries::default(), |all, one| RegisteredEntries {
            current: all.current | one.current,
            former: all.former | one.former,
        })
    }

    fn add_input(&mut self, input: &Input, whole: bool, folders: &LibraryFolders<'_>) -> Result<(), Errors> {
        match (folders.locate(input), input) {
            (Some(path), _) => self.add_file(&path, whole, folders),
            (None, Input::Library { name, .. }) => {
                self.unread.push(format!("the library -l{name} was not found"));
                Ok(())
            }
            (None, Input::File { .. }) => Ok(()),
        }
    }

    fn add_file(&mut self, path: &Path, whole: bool, folders: &LibraryFolders<'_>) -> Result<(), Errors> {
        if !path.is_file() {
            self.unread.push(format!("{} was not found", path.display()));
            // Where no host linker runs, nothing else reports a missing file.
            let missing = path.metadata().err().filter(|_| folders.options().dlink);
            return missing.map_or(Ok(()), |error| Err(cannot_read(path, error)));
        }
        let content = self.map(path).map_err(|error| cannot_read(path, error))?;
        let kind = host_object::file_kind(content.bytes());
        let seen = match kind {
            FileKind::Archive | FileKind::ThinArchive if !whole => Some(Seen::Archive(self.mapped.len())),
            FileKind::Unknown if !whole => Some(Seen::Script),
            FileKind::Archive | FileKind::ThinArchive | FileKind::ElfShared | FileKind::Unknown => Some(Seen::Whole),
            _ => None,
        };
        if seen.is_some_and(|seen| !self.see(path, seen)) {
            return Ok(());
        }
        match kind {
            FileKind::Archive | FileKind::ThinArchive => self.add_archive(path, content, whole),
            FileKind::Unknown => self.add_script(path, &content, whole, folders),
            _ => {
                let range = 0..content.bytes().len();
                self.mapped.push(content);
                self.add_input_file(path.display().to_string(), self.mapped.len() - 1, range, Place::Line)
            }
        }
    }

    /// Notes that a library is named, and returns whether its files have to be added. An archive that is named again, this time to be linked
    /// whole, has its members already: from now on all of them are linked.
    fn see(&mut self, path: &Path, now: Seen) -> bool {
        let known = self.seen.entry(path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        let before = match known {
            Entry::Vacant(place) => {
                place.insert(now);
                return true;
            }
            Entry::Occupied(mut known) if now == Seen::Whole => known.insert(now),
            Entry::Occupied(_) => return false,
        };
        if let Seen::Archive(archive) = before {
            let members = self.files.iter_mut().filter(|file| file.place == Place::Archive(archive));
            members.for_each(|member| member.place = Place::Line);
        }
        before == Seen::Script
    }

    fn map(&mut self, path: &Path) -> std::io::Result<Mapped> {
        let (content, stamp) = Mapped::open_stamped(path)?;
        let stamp = self.remembered.remember(stamp, content.bytes());
        self.stamps.push(stamp);
        Ok(content)
    }

    fn add_archive(&mut self, path: &Path, content: Mapped, whole: bool) -> Result<(), Errors> {
        let archive = self.mapped.len();
        let place = if whole { Place::Line } else { Place::Archive(archive) };
        self.mapped.push(content);
        let shown = path.display().to_string();
        let first = self.files.len();
        let mut errors = Errors::default();
        for (name, place_in) in self.members(archive, path).map_err(|error| damaged(&shown, 0, &error))? {
            // A line break in the name must not split a message.
            let name = [&shown, "(", &printable::name(&name), ")"].concat();
            let added = match place_in {
                MemberPlace::Inside(range) => self.add_input_file(name, archive, range, place),
                MemberPlace::File(member) => match self.map(&member) {
                    Ok(content) => {
                        let range = 0..content.bytes().len();
                        self.mapped.push(content);
                        self.add_input_file(name, self.mapped.len() - 1, range, place)
                    }
                    Err(source) => Err(Error::ThinMember { archive: shown.clone(), member, source }.into()),
                },
            };
            added.unwrap_or_else(|error| errors.extend(error));
        }
        self.files[first..].iter_mut().for_each(|file| file.in_archive = true);
        errors.or(())
    }

    fn members(&self, archive: usize, path: &Path) -> Result<Vec<(String, MemberPlace)>, FormatError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let members = archive::members(self.mapped[archive].bytes())?.into_iter();
        Ok(members
            .map(|member| match member.data {
                MemberData::Inline(data) => {
                    let start = usize::try_from(member.offset).unwrap_or(0);
                    (member.name, MemberPlace::Inside(start..start + data.len()))
                }
                MemberData::Thin { path, .. } => (member.name, MemberPlace::File(folder.join(path))),
            })
            .collect())
    }

    fn add_script(
        &mut self,
        path: &Path,
        content: &Mapped,
        whole: bool,
        folders: &LibraryFolders<'_>,
    ) -> Result<(), Errors> {
        let bytes = content.bytes();
        let text = (bytes.len() <= LONGEST_SCRIPT).then(|| std::str::from_utf8(bytes).ok()).flatten();
        if !text.is_some_and(linker_script::only_names_inputs) {
            self.unread.push(format!("{} is a linker script with other commands than names of files", path.display()));
            self.script_symbols.extend(text.into_iter().flat_map(linker_script::symbols));
        }
        let Some(text) = text else { return Ok(()) };
        let mut errors = Errors::default();
        for name in linker_script::inputs(text) {
            let input = match name.strip_prefix("-l") {
                Some(library) => Input::Library { name: library.to_owned(), archive_only: false, whole },
                None => named_in_script(path, &name, whole, folders),
            };
            self.add_input(&input, whole, folders).unwrap_or_else(|error| errors.extend(error));
        }
        for name in linker_script::included(text) {
            let input = named_in_script(path, &name, whole, folders);
            self.add_input(&input, whole, folders).unwrap_or_else(|error| errors.extend(error));
        }
        errors.or(())
    }

    fn add_input_file(&mut self, name: String, mapped: usize, range: Range<usize>, place: Place) -> Result<(), Errors> {
        let bytes = &self.mapped[mapped].bytes()[range.clone()];
        let kind = host_object::file_kind(bytes);
        let bitcode = match kind {
            FileKind::Bitcode if !self.for_device => match embedded::read(&name, bytes) {
                Ok(host) => Some(host),
                // The host linker may be newer, and a link without device code must succeed.
                Err(IrError::NewerBitcode { theirs, .. }) => {
                    self.warnings.push(format!(
                        "{name} is bitcode of LLVM {theirs}, too new to look into: device code in it, if any, is not linked"
                    ));
                    None
                }
                Err(error) => return Err(error.into()),
            },
            _ => None,
        };
        let (inflated, input) = (OnceLock::new(), self.input);
        self.files.push(InputFile { name, kind, place, in_archive: false, bitcode, inflated, input, mapped, range });
        Ok(())
    }
}

/// A file that a linker script names.
fn named_in_script(script: &Path, name: &str, whole: bool, folders: &LibraryFolders<'_>) -> Input {
    match library_folders::in_script(script, name, folders.options().sysroot.as_deref()) {
        Some(path) => Input::File { path, whole },
        None => Input::Library { name: format!(":{name}"), archive_only: false, whole },
    }
}

/// Where the contents of an archive member are.
enum MemberPlace {
    Inside(Range<usize>),
    File(PathBuf),
}

fn cannot_read(path: &Path, source: std::io::Error) -> Errors {
    sys::error::Error::Read { path: path.to_owned(), source }.into()
}
