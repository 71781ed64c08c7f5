//! The HIP bundles of a file: the file itself, or what its sections `.hip_fatbin` hold.

use std::io;

use super::code::BundledCode;
use crate::FormatError;
use crate::coverage::containers::{ContainerPlace, in_members};
use crate::error::FileError;
use crate::hip_bundle;
use crate::host_object::{self, CarrierKind, FileKind};

/// A bundle and what its entries are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundBundle {
    /// Where it is.
    pub place: ContainerPlace,
    /// Its entries with an image.
    pub codes: Vec<BundledCode>,
    /// Whether it is compressed.
    pub is_compressed: bool,
}

/// The HIP bundles of a bundle's file, or of an object, executable or library, or of an archive of those; none in other files.
///
/// `read_thin` reads the file of a thin archive's member, given the path that the archive records.
///
/// # Errors
/// A damaged bundle, or a thin member that cannot be read.
pub fn hip_bundles(
    data: &[u8],
    read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
) -> Result<Vec<FoundBundle>, FileError> {
    match host_object::file_kind(data) {
        FileKind::Archive | FileKind::ThinArchive => in_members(data, read_thin, of_file, |bundle, member, before| {
            let place = bundle.place.within(&member.name, member.offset, before);
            FoundBundle { place, ..bundle }
        }),
        _ => of_file(data).map_err(FileError::from),
    }
}

fn of_file(data: &[u8]) -> Result<Vec<FoundBundle>, FormatError> {
    let mut found = Vec::new();
    if hip_bundle::is_bundle(data) {
        append(&mut found, data, None, 0)?;
        return Ok(found);
    }
    let carriers = host_object::carriers(data)?;
    for carrier in carriers.iter().filter(|carrier| carrier.kind == CarrierKind::HipBundles) {
        let within = |error: FormatError| error.within(&format!("section {}", carrier.section));
        append(&mut found, carrier.data, Some(&carrier.section), carrier.offset).map_err(within)?;
    }
    Ok(found)
}

/// Reads the bundles of `data`, which starts at `base` of the file.
fn append(found: &mut Vec<FoundBundle>, data: &[u8], section: Option<&str>, base: u64) -> Result<(), FormatError> {
    for bundle in hip_bundle::bundles(data).map_err(|e| e.shifted(base))? {
        let offset = base.saturating_add(bundle.offset);
        let plain = bundle.plain().map_err(|e| e.shifted(base))?;
        let entries = hip_bundle::read_all(&plain).map_err(|e| e.shifted(offset))?;
        let section = section.map(|name| name.to_owned().into());
        let place = ContainerPlace { container: found.len() + 1, member: None, section, offset };
        let codes = BundledCode::of_bundle(&entries);
        found.push(FoundBundle { place, codes, is_compressed: bundle.is_compressed() });
    }
    Ok(())
}
