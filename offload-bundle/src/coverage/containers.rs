//! The fatbins of a file that a driver is given: the file itself, or what its sections `.nv_fatbin` and `__nv_relfatbin` hold.

use std::borrow::Cow;
use std::io;

use rayon::prelude::*;
use serde::Serialize;

use super::code::{Code, LinkSymbols, Use, inspect_with_symbols};
use super::equal::{EqualImages, equal_images, is_of_one_target};
use super::links;
use crate::FormatError;
use crate::archive::{self, Member};
use crate::error::FileError;
use crate::fatbin::{self, FatbinEntry};
use crate::host_object::{self, FileKind, Search};

/// Where the fatbins that a program registers are.
const SECTION: &str = ".nv_fatbin";

/// Where the fatbins of objects of relocatable device code are.
const OBJECTS_SECTION: &str = "__nv_relfatbin";

/// Where a fatbin is. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContainerPlace {
    /// Its place among the fatbins of the file, from 1.
    pub container: usize,
    /// The archive member that holds it.
    pub member: Option<String>,
    /// The section that holds it.
    pub section: Option<Cow<'static, str>>,
    /// Where it starts in the file; for a thin archive, in the member's own file.
    pub offset: u64,
}

impl ContainerPlace {
    /// Whether it is in one of these sections; any place is, if there are none.
    pub fn is_in(&self, sections: &[String]) -> bool {
        sections.is_empty() || sections.iter().any(|section| self.section.as_deref() == Some(section))
    }

    /// The same seen from the archive, in which `before` containers stand in front of the member's.
    pub(super) fn within(self, member: &str, base: u64, before: usize) -> Self {
        Self {
            container: self.container + before,
            member: Some(member.to_owned()),
            offset: self.offset.saturating_add(base),
            ..self
        }
    }
}

/// A fatbin and what its entries are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundContainer {
    /// Where it is.
    pub place: ContainerPlace,
    /// What it is for.
    pub role: Role,
    /// Its entries.
    pub codes: Vec<Code>,
    /// Those of them with equal code, if they were compared: see [`compared_containers`].
    pub equal: Vec<EqualImages>,
    /// The symbols that each entry defines and references.
    pub(super) symbols: Vec<LinkSymbols>,
}

/// What a fatbin is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The driver takes one of its entries.
    Whole,
    /// A device link made it. Where none of its entries fits, the driver links these fatbins of the file again, numbered as in
    /// [`ContainerPlace::container`].
    Linked(Vec<usize>),
    /// A part of a device link, with the name of its source file if that is recorded.
    Object(Option<String>),
    /// It is among the data of a program or library, whose code decides what is loaded or linked of it.
    Data,
}

/// The fatbins that a search finds in a fatbin file, an ELF object, executable or library, or an archive of those; none in other files.
/// Those outside of the sections for device code come last, and nothing is known to be linked of them.
///
/// `read_thin` reads the file of a thin archive's member, given the path that the archive records.
///
/// # Errors
/// A damaged container, or a thin member that cannot be read.
pub fn containers(
    data: &[u8],
    read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
    search: Search,
) -> Result<Vec<FoundContainer>, FileError> {
    found_in(data, read_thin, search, Images::Inspected)
}

/// The same with the images of each fatbin compared. Of an object only those that were compiled for one target, as that of the other fatbins
/// of its program is not known ([`droppable`](super::droppable)).
///
/// # Errors
/// Those of [`containers`].
pub fn compared_containers(
    data: &[u8],
    read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
    search: Search,
) -> Result<Vec<FoundContainer>, FileError> {
    found_in(data, read_thin, search, Images::Compared)
}

/// What is done with the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Images {
    Inspected,
    Compared,
}

fn found_in(
    data: &[u8],
    read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
    search: Search,
    images: Images,
) -> Result<Vec<FoundContainer>, FileError> {
    let of_file = |data: &[u8]| of_file(data, search, images);
    match host_object::file_kind(data) {
        FileKind::Archive | FileKind::ThinArchive => {
            in_members(data, read_thin, of_file, |container, member, before| {
                container.within(&member.name, member.offset, before)
            })
        }
        _ => of_file(data).map_err(FileError::from),
    }
}

/// What `of_file` finds in the members of an archive. `within` turns what was found in a member into what the archive has, given how many
/// stand in front of the member's.
pub(super) fn in_members<T>(
    data: &[u8],
    mut read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
    of_file: impl Fn(&[u8]) -> Result<Vec<T>, FormatError>,
    within: impl Fn(T, &Member<'_>, usize) -> T,
) -> Result<Vec<T>, FileError> {
    let mut found = Vec::new();
    let members = archive::members(data).map_err(FileError::from)?;
    for member in members {
        let bytes = member.bytes(&mut read_thin)?;
        let of_member = of_file(&bytes).map_err(|error| member.error(error))?;
        let before = found.len();
        found.extend(of_member.into_iter().map(|container| within(container, &member, before)));
    }
    Ok(found)
}

impl FoundContainer {
    /// A fatbin that is a file of its own.
    pub fn whole(codes: Vec<Code>) -> Self {
        let place = ContainerPlace { container: 1, member: None, section: None, offset: 0 };
        Self { place, role: Role::Whole, codes, equal: Vec::new(), symbols: Vec::new() }
    }

    /// A fatbin that a device link makes, with the fatbins that it is linked of behind it: what [`containers`] will find in the program.
    ///
    /// # Errors
    /// A damaged fatbin.
    pub fn linked(entries: &[FatbinEntry<'_>], objects: &[&[u8]]) -> Result<Vec<Self>, FormatError> {
        let place = |container| ContainerPlace { container, member: None, section: None, offset: 0 };
        let of = |(index, (role, entries)): (usize, (Role, Vec<FatbinEntry<'_>>))| {
            let used = if index == 0 { Use::Loaded } else { Use::Linked };
            let (codes, symbols) = inspect_with_symbols(&entries, used);
            let equal = if index == 0 { equal_images(&entries, &codes) } else { Vec::new() };
            Self { place: place(index + 1), role, codes, equal, symbols }
        };
        let whole = Ok((Role::Linked((2..objects.len() + 2).collect()), entries.to_vec()));
        let objects = objects.iter().map(|object| Ok((Role::Object(None), fatbin::read(object)?)));
        let read = std::iter::once(whole).chain(objects).collect::<Result<Vec<_>, FormatError>>()?;
        Ok(read.into_iter().enumerate().map(of).collect())
    }

    /// The same seen from the archive, in which `before` fatbins stand in front of the member's.
    fn within(self, member: &str, base: u64, before: usize) -> Self {
        let place = self.place.within(member, base, before);
        let role = match self.role {
            Role::Linked(objects) => Role::Linked(objects.into_iter().map(|number| number + before).collect()),
            role => role,
        };
        Self {
            place,
            role,
            equal: self.equal,
            symbols: self.symbols,
            codes: self.codes.into_iter().map(|code| code.shifted(base)).collect(),
        }
    }
}

fn of_file(data: &[u8], search: Search, images: Images) -> Result<Vec<FoundContainer>, FormatError> {
    let mut found = match host_object::file_kind(data) {
        FileKind::Fatbin => of_bytes(data, None, 0, images)?,
        FileKind::ElfRelocatable | FileKind::ElfShared | FileKind::ElfExecutable => of_elf(data, images)?,
        _ => Vec::new(),
    };
    if search == Search::AllBytes && host_object::file_kind(data) != FileKind::Fatbin {
        for scattered in host_object::scattered_fatbins(data)? {
            let section = Some(scattered.section).filter(|section| !section.is_empty()).map(Cow::Owned);
            let containers = of_bytes(scattered.data, section, scattered.offset, Images::Inspected)?;
            found.extend(containers.into_iter().map(|container| FoundContainer { role: Role::Data, ..container }));
        }
    }
    for (index, container) in found.iter_mut().enumerate() {
        container.place.container = index + 1;
        if host_object::file_kind(data) == FileKind::ElfRelocatable {
            let FoundContainer { codes, equal, .. } = container;
            equal.retain(|equal| is_of_one_target(equal, codes));
        }
    }
    links::assign(data, &mut found);
    Ok(found)
}

/// What is registered comes before what was linked into it.
fn of_elf(data: &[u8], images: Images) -> Result<Vec<FoundContainer>, FormatError> {
    let sections = host_object::sections(data)?;
    let mut found = Vec::new();
    for name in [SECTION, OBJECTS_SECTION] {
        for section in sections.iter().filter(|section| section.name == name.as_bytes()) {
            let place = format!("section {name}");
            let contents = section.data(data).map_err(|e| e.within(&place))?;
            found.extend(
                of_bytes(contents, Some(Cow::Borrowed(name)), section.offset, images).map_err(|e| e.within(&place))?,
            );
        }
    }
    Ok(found)
}

/// Reads the fatbins of `data`, which starts at `base` of the file.
fn of_bytes(
    data: &[u8],
    section: Option<Cow<'static, str>>,
    base: u64,
    images: Images,
) -> Result<Vec<FoundContainer>, FormatError> {
    let read = fatbin::read_containers(data).map_err(|e| e.shifted(base))?;
    // Each image is decompressed, of libraries with gigabytes of them.
    let found = read.into_par_iter().map(|container| {
        let place = ContainerPlace {
            container: 0,
            member: None,
            section: section.clone(),
            offset: base.saturating_add(container.offset),
        };
        let (role, used) = match section.as_deref() {
            Some(OBJECTS_SECTION) => (Role::Object(None), Use::Linked),
            _ => (Role::Whole, Use::Loaded),
        };
        let (codes, symbols) = inspect_with_symbols(&container.entries, used);
        // The driver does not load an object's by itself.
        let is_compared = images == Images::Compared && role == Role::Whole;
        let equal = if is_compared { equal_images(&container.entries, &codes) } else { Vec::new() };
        FoundContainer {
            place,
            role,
            equal,
            codes: codes.into_iter().map(|code| code.shifted(base)).collect(),
            symbols,
        }
    });
    Ok(found.collect())
}
