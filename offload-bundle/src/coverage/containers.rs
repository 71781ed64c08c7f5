//! The fatbins of a file that a driver is given: the file itself, or what its section `.nv_fatbin` holds.

use std::borrow::Cow;

use serde::Serialize;

use super::code::{Code, inspect};
use crate::FormatError;
use crate::archive::{self, MemberData};
use crate::fatbin;
use crate::host_object::{self, FileKind};
use crate::listing::ListError;

/// Fatbins of RDC objects are in `__nv_relfatbin` instead, and are linked before they are loaded.
const SECTION: &str = ".nv_fatbin";

/// Where a fatbin is. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Its place among the fatbins of the file, from 1.
    pub container: usize,
    /// The archive member that holds it.
    pub member: Option<String>,
    /// The section that holds it.
    pub section: Option<&'static str>,
    /// Where it starts in the file; for a thin archive, in the member's own file.
    pub offset: u64,
}

/// A fatbin and what its entries are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundContainer {
    /// Where it is.
    pub place: Place,
    /// Its entries.
    pub codes: Vec<Code>,
}

/// The fatbins of a fatbin file, or of an ELF object, executable or library, or of an archive of those; none in other files.
///
/// `read_thin` reads the file of a thin archive's member, given the path that the archive records.
///
/// # Errors
/// A damaged container, or a thin member that cannot be read.
pub fn containers(
    data: &[u8],
    read_thin: impl FnMut(&str) -> Result<Vec<u8>, String>,
) -> Result<Vec<FoundContainer>, ListError> {
    let mut found = match host_object::file_kind(data) {
        FileKind::Archive | FileKind::ThinArchive => of_archive(data, read_thin)?,
        _ => of_file(data).map_err(|error| ListError::Format { member: None, error })?,
    };
    for (index, container) in found.iter_mut().enumerate() {
        container.place.container = index + 1;
    }
    Ok(found)
}

fn of_archive(
    data: &[u8],
    mut read_thin: impl FnMut(&str) -> Result<Vec<u8>, String>,
) -> Result<Vec<FoundContainer>, ListError> {
    let mut found = Vec::new();
    let members = archive::members(data).map_err(|error| ListError::Format { member: None, error })?;
    for member in members {
        let bytes = match &member.data {
            MemberData::Inline(bytes) => Cow::Borrowed(*bytes),
            MemberData::Thin { path, .. } => {
                Cow::Owned(read_thin(path).map_err(|what| ListError::Thin { member: path.clone(), what })?)
            }
        };
        let damaged = |error: FormatError| ListError::Format {
            member: Some(member.name.clone()),
            error: error.shifted(member.offset),
        };
        let of_member = of_file(&bytes).map_err(damaged)?;
        found.extend(of_member.into_iter().map(|container| container.within(&member.name, member.offset)));
    }
    Ok(found)
}

impl FoundContainer {
    /// The same seen from the archive.
    fn within(self, member: &str, base: u64) -> Self {
        let offset = self.place.offset.saturating_add(base);
        Self {
            place: Place { member: Some(member.to_owned()), offset, ..self.place },
            codes: self.codes.into_iter().map(|code| code.shifted(base)).collect(),
        }
    }
}

fn of_file(data: &[u8]) -> Result<Vec<FoundContainer>, FormatError> {
    match host_object::file_kind(data) {
        FileKind::Fatbin => of_bytes(data, None, 0),
        FileKind::ElfRelocatable | FileKind::ElfShared | FileKind::ElfExecutable => of_elf(data),
        _ => Ok(Vec::new()),
    }
}

fn of_elf(data: &[u8]) -> Result<Vec<FoundContainer>, FormatError> {
    let mut found = Vec::new();
    for section in host_object::sections(data)? {
        if section.name == SECTION.as_bytes() {
            let place = format!("section {SECTION}");
            let contents = section.data(data).map_err(|e| e.within(&place))?;
            found.extend(of_bytes(contents, Some(SECTION), section.offset).map_err(|e| e.within(&place))?);
        }
    }
    Ok(found)
}

/// The fatbins of `data`, which starts at `base` of the file.
fn of_bytes(data: &[u8], section: Option<&'static str>, base: u64) -> Result<Vec<FoundContainer>, FormatError> {
    let read = fatbin::read_containers(data).map_err(|e| e.shifted(base))?;
    let found = read.into_iter().map(|container| FoundContainer {
        place: Place { container: 0, member: None, section, offset: base.saturating_add(container.offset) },
        codes: inspect(&container.entries).into_iter().map(|code| code.shifted(base)).collect(),
    });
    Ok(found.collect())
}
