//! Lists kept results, which are no images: nothing extracts, drops or compares them.

use super::{Found, Row, plain_row};
use crate::FormatError;
use crate::host_object::{self, FileKind};
use crate::kept_results::{KeptResults, SECTION};
use crate::offload_binary::OffloadKinds;

/// The sections with kept results of a file; none of files that are not ELF. Their entries are checked.
pub(super) fn sections(data: &[u8]) -> Result<Vec<Found<'_>>, FormatError> {
    let mut found = Vec::new();
    let is_elf = matches!(
        host_object::file_kind(data),
        FileKind::ElfRelocatable | FileKind::ElfShared | FileKind::ElfExecutable
    );
    if !is_elf {
        return Ok(found);
    }
    let sections = host_object::sections(data)?;
    for section in sections.iter().filter(|section| section.name == SECTION.as_bytes()) {
        let place = format!("section {SECTION}");
        let bytes = section.data(data).map_err(|e| e.within(&place))?;
        let damaged = |error: FormatError| error.shifted(section.offset).within(&place);
        let results = KeptResults::parse(bytes).map_err(damaged)?;
        results.check().map_err(damaged)?;
        let row = Row {
            section: Some(SECTION.to_owned()),
            entries: Some(results.len() as u64),
            ..plain_row("kept results", bytes.len(), section.offset, OffloadKinds::default())
        };
        found.push(Found::plain(row, bytes));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::archive::reject_thin_members;
    use crate::host_object::{self, Search};
    use crate::kept_results::{SECTION, write};
    use crate::listing::{self, Row};
    use crate::samples;

    fn block(numbers: &[u8]) -> Vec<u8> {
        write(&numbers.iter().map(|number| ([*number; 32], vec![*number; 100])).collect::<BTreeMap<_, _>>())
    }

    fn listed(data: &[u8]) -> Vec<Row> {
        listing::list_with_results(data, reject_thin_members, Search::Sections).expect("a sound file")
    }

    #[test]
    fn results_come_behind_all_images() {
        let results = [block(&[1, 2, 3]), vec![0; 16], block(&[3, 4])].concat();
        let object = samples::object_with_results(&samples::offload_binaries(), &results);
        let plain = samples::host_object(&samples::offload_binaries());
        let archive = samples::archive(&[("kept.o", &object), ("plain.o", &plain)]);
        let rows = listed(&archive);
        let (images, [row]) = rows.split_at(4) else { panic!("{} rows", rows.len()) };
        assert_eq!(images, listing::list(&archive, reject_thin_members).expect("a sound file"));
        assert!(images.iter().all(Row::is_image) && !row.is_image());
        assert_eq!((row.member.as_deref(), row.section.as_deref()), (Some("kept.o"), Some(SECTION)));
        assert_eq!((row.image.as_str(), row.entries, row.size), ("kept results", Some(4), results.len() as u64));
        let at = usize::try_from(row.offset).expect("a small file");
        assert_eq!(archive[at..at + results.len()], results);
        assert_eq!(listed(&samples::object_with_results(&[], &results)).len(), 1);
    }

    #[test]
    fn damage_is_an_error_of_the_list_with_them_alone() {
        let mut results = block(&[1, 2]);
        // Behind the header and a table of two entries, the first of which has a few bytes.
        results[24 + 2 * 88 + 1] ^= 1;
        let object = samples::object_with_results(&samples::offload_binaries(), &results);
        let (offset, _) = host_object::section(&object, SECTION.as_bytes()).expect("the section");
        let archive = samples::archive(&[("kept.o", &object)]);
        let error = listing::list_with_results(&archive, reject_thin_members, Search::Sections).expect_err("damage");
        assert_eq!(error.member(), Some("kept.o"));
        let member = (archive.len() - object.len()) as u64;
        let place = member + offset + 24 + 2 * 88;
        let expected =
            format!("section .fatlink.results: a kept result does not have its checksum at offset {place:#x}");
        assert_eq!(error.to_string(), expected);
        assert_eq!(listing::list(&archive, reject_thin_members).expect("sound images").len(), 2);
    }
}
