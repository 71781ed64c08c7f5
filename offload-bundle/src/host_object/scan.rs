//! Finds fatbins by their bytes: libraries of NVIDIA's keep thousands of them among their data, and load each when it is needed.

use std::ops::Range;

use memchr::memmem;

use super::carriers::{Carrier, CarrierKind, carriers};
use super::sections;
use crate::FormatError;
use crate::fatbin;
use crate::file_kind::FATBIN_MAGIC;

/// Where device code is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Search {
    /// In the sections and containers in which compilers and linkers put it.
    #[default]
    Sections,
    /// There, and fatbins anywhere else in a file that is no container itself.
    AllBytes,
}

/// The fatbins of a file that are in none of the sections for device code, in the order of the file. Each is one carrier, and `section` the
/// section that holds it, if any does.
///
/// Only whole fatbins with entries count: the magic alone is also in code that looks for it.
///
/// # Errors
/// A damaged file; the offset is one in the file.
pub fn scattered_fatbins(data: &[u8]) -> Result<Vec<Carrier<'_>>, FormatError> {
    let known: Vec<Range<u64>> = carriers(data)?
        .iter()
        .map(|found| found.offset..found.offset.saturating_add(found.data.len() as u64))
        .collect();
    let sections = sections(data).unwrap_or_default();
    let mut found = Vec::new();
    let mut behind = 0;
    for at in memmem::find_iter(data, &FATBIN_MAGIC) {
        let offset = at as u64;
        if offset < behind || known.iter().any(|range| range.contains(&offset)) {
            continue;
        }
        let Some(bytes) = fatbin_at(data, offset) else { continue };
        behind = offset.saturating_add(bytes.len() as u64);
        let holder = sections
            .iter()
            .find(|section| section.offset <= offset && offset < section.offset.saturating_add(section.in_file()));
        let section = holder.map(|section| String::from_utf8_lossy(section.name).into_owned()).unwrap_or_default();
        found.push(Carrier { kind: CarrierKind::Fatbins, section, data: bytes, offset });
    }
    Ok(found)
}

/// The bytes of a fatbin with entries, if there is one.
fn fatbin_at(data: &[u8], offset: u64) -> Option<&[u8]> {
    let bytes = fatbin::container_at(data, offset).ok()?;
    let entries = fatbin::read(bytes).ok()?;
    (!entries.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn fatbins_between_other_bytes() {
        let fatbin = samples::fatbin(true);
        let mut data = b"text".to_vec();
        data.extend(&fatbin);
        // The magic alone, and a fatbin without entries, are none.
        data.extend(FATBIN_MAGIC);
        data.extend(&fatbin[..8]);
        data.extend([0; 8]);
        let second = data.len() as u64;
        data.extend(&fatbin);
        let found = scattered_fatbins(&data).expect("no object");
        assert_eq!(found.iter().map(|found| found.offset).collect::<Vec<_>>(), [4, second]);
        assert!(found.iter().all(|found| found.data == fatbin && found.section.is_empty()));
        assert_eq!(scattered_fatbins(&data[..fatbin.len()]).expect("no object"), []);
    }

    #[test]
    fn those_in_sections_are_known() {
        let object = samples::rdc_object(&["_1_a"], &[&samples::fatbin(true)]);
        assert_eq!(scattered_fatbins(&object).expect("a sound object"), []);
    }
}
