//! What the host linker will read, and the device images in it.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use offload_bundle::archive::{self, MemberData};
use offload_bundle::FormatError;
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::{self, OffloadImage};
use rayon::prelude::*;

use crate::error::{Errors, collect};
use crate::mapped::Mapped;
use crate::options::{Input, Options};

/// Where GNU ld and lld look after every `-L`, on Debian and elsewhere.
const SYSTEM_LIBRARY_PATHS: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// All files of the link, mapped.
pub struct Inputs {
    files: Vec<InputFile>,
}

struct InputFile {
    /// As messages call it: a path, or `archive(member)` for a member of a thin archive.
    name: String,
    path: PathBuf,
    content: Mapped,
}

/// Where a device image was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Path, with the archive member in parentheses.
    pub file: String,
    /// Offset of the image in the file (in the archive's file for a member).
    pub offset: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at offset {:#x}", self.file, self.offset)
    }
}

/// A device image and where it came from.
#[derive(Debug, Clone)]
pub struct FoundImage<'a> {
    /// File, member, offset.
    pub origin: Origin,
    /// Target, kind and bytes.
    pub image: OffloadImage<'a>,
}

/// One host object: a file or an archive member.
struct Piece<'a> {
    name: String,
    /// Offset of the piece in its file.
    base: u64,
    data: &'a [u8],
}

impl Inputs {
    /// Maps everything on the line. What does not exist is left for the host linker to complain about.
    ///
    /// # Errors
    /// Files that exist and cannot be read, members of thin archives that are missing.
    pub fn open(options: &Options) -> Result<Self, Errors> {
        let mut files = Vec::new();
        let mut errors = Errors::default();
        let mut archives = HashSet::new();
        for path in options.inputs.iter().filter_map(|input| locate(input, options)) {
            if !path.is_file() {
                continue;
            }
            match Mapped::open(&path) {
                // The host linker takes an archive's members once however often it is named.
                Ok(content) if is_archive(&content) && !archives.insert(path.canonicalize().unwrap_or(path.clone())) => {}
                Ok(content) => files.push(InputFile { name: path.display().to_string(), path, content }),
                Err(error) => errors.push(format_args!("cannot read {}: {error}", path.display())),
            }
        }
        let thin = files.iter().filter(|file| host_object::file_kind(file.content.bytes()) == FileKind::ThinArchive);
        match collect(thin.map(thin_members)) {
            Ok(members) => files.extend(members.into_iter().flatten()),
            Err(found) => errors.extend(found),
        }
        errors.or(Inputs { files })
    }

    /// Every device image, in the order of the line.
    ///
    /// # Errors
    /// Damaged archives, sections and offload binaries, each with file, member and offset.
    pub fn device_images(&self) -> Result<Vec<FoundImage<'_>>, Errors> {
        let pieces = self.pieces()?;
        let images: Vec<Result<Vec<FoundImage<'_>>, Errors>> = if pieces.len() > 64 {
            pieces.par_iter().map(Piece::images).collect()
        } else {
            pieces.iter().map(Piece::images).collect()
        };
        Ok(collect(images)?.into_iter().flatten().collect())
    }

    /// The names of the kernels and variables that host objects with device code register.
    ///
    /// # Errors
    /// Damaged entry tables.
    pub fn registered_names(&self) -> Result<HashSet<String>, Errors> {
        let entries = self.pieces()?.into_iter().map(|piece| {
            host_object::offload_entries(piece.data).map_err(|error| damaged(&piece.name, piece.base, &error))
        });
        Ok(collect(entries)?.into_iter().flatten().map(|entry| entry.name).collect())
    }

    /// Whether a wrapper has already handled this link: it puts its registration object behind the output.
    pub fn already_registered(&self) -> bool {
        self.files.first().is_some_and(|file| {
            let bytes = file.content.bytes();
            host_object::file_kind(bytes) == FileKind::ElfRelocatable && host_object::registration_symbol(bytes).is_some()
        })
    }

    /// All host objects: files, and members of archives.
    fn pieces(&self) -> Result<Vec<Piece<'_>>, Errors> {
        let pieces = self.files.iter().map(|file| match host_object::file_kind(file.content.bytes()) {
            FileKind::Archive => file.members(),
            FileKind::ElfRelocatable | FileKind::ElfExecutable | FileKind::OffloadBinary => {
                Ok(vec![Piece { name: file.name.clone(), base: 0, data: file.content.bytes() }])
            }
            // Shared libraries are finished programs; thin archives were opened member by member.
            _ => Ok(Vec::new()),
        });
        Ok(collect(pieces)?.into_iter().flatten().collect())
    }
}

impl InputFile {
    fn members(&self) -> Result<Vec<Piece<'_>>, Errors> {
        let members = archive::members(self.content.bytes()).map_err(|error| damaged(&self.name, 0, &error))?;
        let pieces = members.into_iter().filter_map(|member| match member.data {
            MemberData::Inline(data) => {
                Some(Piece { name: format!("{}({})", self.name, member.name), base: member.offset, data })
            }
            MemberData::Thin { .. } => None,
        });
        Ok(pieces.collect())
    }
}

impl<'a> Piece<'a> {
    fn images(&self) -> Result<Vec<FoundImage<'a>>, Errors> {
        let damaged = |error| damaged(&self.name, self.base, &error);
        let found = |offset: u64, image| FoundImage {
            origin: Origin { file: self.name.clone(), offset: self.base + offset },
            image,
        };
        match host_object::file_kind(self.data) {
            FileKind::OffloadBinary => {
                let images = offload_binary::read_all(self.data).map_err(damaged)?;
                Ok(images.into_iter().map(|image| found(image.image_offset, image)).collect())
            }
            FileKind::ElfRelocatable | FileKind::ElfExecutable => {
                let images = host_object::device_images(self.data).map_err(damaged)?;
                Ok(images.into_iter().map(|device| found(device.offset, device.image)).collect())
            }
            _ => Ok(Vec::new()),
        }
    }
}

fn damaged(name: &str, base: u64, error: &FormatError) -> Errors {
    let offset = base.saturating_add(error.offset);
    Errors::one(format_args!("{name} at offset {offset:#x}: {}; recompile the file", error.what))
}

fn is_archive(content: &Mapped) -> bool {
    matches!(host_object::file_kind(content.bytes()), FileKind::Archive | FileKind::ThinArchive)
}

/// Maps the files that a thin archive names.
fn thin_members(archive: &InputFile) -> Result<Vec<InputFile>, Errors> {
    let members = archive::members(archive.content.bytes()).map_err(|error| damaged(&archive.name, 0, &error))?;
    let folder = archive.path.parent().unwrap_or(Path::new(""));
    collect(members.into_iter().filter_map(|member| {
        let MemberData::Thin { path, .. } = member.data else { return None };
        let path = folder.join(path);
        let name = format!("{}({})", archive.name, member.name);
        Some(match Mapped::open(&path) {
            Ok(content) => Ok(InputFile { name, path, content }),
            Err(error) => Err(Errors::one(format_args!(
                "cannot read {}, a member of the thin archive {}: {error}",
                path.display(),
                archive.name
            ))),
        })
    }))
}

/// The file that an input means. `None`: not found, which is for the host linker to say.
fn locate(input: &Input, options: &Options) -> Option<PathBuf> {
    let (name, archive_only) = match input {
        Input::File(path) => return Some(path.clone()),
        Input::Library { name, archive_only } => (name, *archive_only),
    };
    let candidates: Vec<String> = match (name.strip_prefix(':'), archive_only) {
        (Some(exact), _) => vec![exact.to_owned()],
        (None, true) => vec![format!("lib{name}.a")],
        (None, false) => vec![format!("lib{name}.so"), format!("lib{name}.a")],
    };
    let given = options.library_paths.iter().map(|folder| in_sysroot(folder, options.sysroot.as_deref()));
    let system = SYSTEM_LIBRARY_PATHS.iter().map(PathBuf::from);
    given.chain(system).flat_map(|folder| candidates.iter().map(move |file| folder.join(file))).find(|path| path.is_file())
}

/// `-L=dir` and `-L$SYSROOT/dir` mean a folder in the sysroot.
fn in_sysroot(folder: &Path, sysroot: Option<&Path>) -> PathBuf {
    let text = folder.to_string_lossy();
    match (text.strip_prefix('=').or_else(|| text.strip_prefix("$SYSROOT")), sysroot) {
        (Some(rest), Some(root)) => root.join(rest.trim_start_matches('/')),
        (Some(rest), None) => PathBuf::from(rest),
        (None, _) => folder.to_owned(),
    }
}
