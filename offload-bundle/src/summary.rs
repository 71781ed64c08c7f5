//! What kinds of device images there are, and how many bytes of each.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::listing::{self, Row, cell};
use crate::printable;

/// Images that have the same target, kind, section and compression. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The programming models: `cuda`.
    pub kind: String,
    /// The architecture, else the triple, as recorded.
    pub target: String,
    /// What they are: `cubin`, `ptx`.
    pub image: String,
    /// Of cubins: whether they are inputs of a device link.
    pub relocatable: Option<bool>,
    /// The section that holds them.
    pub section: Option<String>,
    /// `none`, `zstd`, `lz4`, `lz4 frame` or `zlib`.
    pub compression: String,
    /// Their number; 0 of kept results, which are no images.
    pub images: u64,
    /// Their sizes in bytes as stored, summed up.
    pub size: u64,
    /// The same before compression.
    pub uncompressed_size: u64,
}

/// Groups of images, those with the most bytes first.
pub fn summarize<'r>(rows: impl IntoIterator<Item = &'r Row>) -> Vec<Group> {
    let mut groups = BTreeMap::new();
    for row in rows {
        let target = row.target_or_triple().unwrap_or_default();
        let key = (&row.kind, target, &row.image, row.relocatable, &row.section, &row.compression);
        let group: &mut Group = groups.entry(key).or_insert_with(|| Group {
            kind: row.kind.clone(),
            target: target.to_owned(),
            image: row.image.clone(),
            relocatable: row.relocatable,
            section: row.section.clone(),
            compression: row.compression.clone(),
            images: 0,
            size: 0,
            uncompressed_size: 0,
        });
        group.images += u64::from(row.is_image());
        group.size = group.size.saturating_add(row.size);
        group.uncompressed_size = group.uncompressed_size.saturating_add(row.uncompressed_size.unwrap_or(row.size));
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.size));
    groups
}

/// Formats groups as aligned columns with their sum in the last line, or a note if there are none.
pub fn table(groups: &[Group]) -> String {
    if groups.is_empty() {
        return "no device images\n".to_owned();
    }
    let headings = ["KIND", "TARGET", "IMAGE", "SECTION", "COMPRESSION", "IMAGES", "SIZE", "UNCOMPRESSED"];
    let mut lines = vec![headings.map(str::to_owned).to_vec()];
    lines.extend(groups.iter().map(cells));
    let sum = |of: fn(&Group) -> u64| groups.iter().map(of).fold(0, u64::saturating_add).to_string();
    let sums = [sum(|group| group.images), sum(|group| group.size), sum(|group| group.uncompressed_size)];
    lines.push(total(5, sums.into_iter()));
    let has_sections = groups.iter().any(|group| group.section.is_some());
    listing::aligned(&lines, |column| column != 3 || has_sections, |column| column >= 5)
}

/// The last line of a table, with sums behind columns of words.
fn total(words: usize, sums: impl Iterator<Item = String>) -> Vec<String> {
    let mut line = vec![String::new(); words];
    "all".clone_into(&mut line[0]);
    line.extend(sums);
    line
}

/// The images of one target, kind and section before and after a change. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupChange {
    /// The architecture, else the triple, as recorded.
    pub target: String,
    /// What they are: `cubin`, `ptx`.
    pub image: String,
    /// The section that holds them.
    pub section: Option<String>,
    /// Their number before.
    pub images_before: u64,
    /// Their sizes in bytes as stored before, summed up.
    pub size_before: u64,
    /// Their number after.
    pub images_after: u64,
    /// Their sizes in bytes as stored after, summed up.
    pub size_after: u64,
}

/// Compares the images of files before and after a change; those of which most bytes went come first.
pub fn changes<'r>(
    before: impl IntoIterator<Item = &'r Row>,
    after: impl IntoIterator<Item = &'r Row>,
) -> Vec<GroupChange> {
    /// Target, kind and section.
    type Key<'r> = (&'r str, &'r str, Option<&'r str>);
    /// Number and bytes, before and after.
    type Sums = [(u64, u64); 2];
    let mut groups: BTreeMap<Key<'r>, Sums> = BTreeMap::new();
    let mut add = |row: &'r Row, at: usize| {
        let target = row.target_or_triple().unwrap_or_default();
        let sums = groups.entry((target, &row.image, row.section.as_deref())).or_default();
        let (images, size) = sums[at];
        sums[at] = (images + 1, size.saturating_add(row.size));
    };
    before.into_iter().for_each(|row| add(row, 0));
    after.into_iter().for_each(|row| add(row, 1));
    let change = |((target, image, section), [before, after]): (Key<'r>, Sums)| GroupChange {
        target: target.to_owned(),
        image: image.to_owned(),
        section: section.map(str::to_owned),
        images_before: before.0,
        size_before: before.1,
        images_after: after.0,
        size_after: after.1,
    };
    let mut changes: Vec<GroupChange> = groups.into_iter().map(change).collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.size_before.saturating_sub(change.size_after)));
    changes
}

/// Formats changes as aligned columns with their sum in the last line.
pub fn changes_table(changes: &[GroupChange]) -> String {
    let headings = ["TARGET", "IMAGE", "SECTION", "IMAGES", "BYTES", "IMAGES AFTER", "BYTES AFTER"];
    let mut lines = vec![headings.map(str::to_owned).to_vec()];
    lines.extend(changes.iter().map(|change| {
        let words = [cell(Some(&change.target)), change.image.clone(), cell(change.section.as_deref())];
        words.into_iter().chain(numbers(change).map(|number| number.to_string())).collect()
    }));
    let sum = |at: usize| changes.iter().map(|change| numbers(change)[at]).fold(0, u64::saturating_add);
    lines.push(total(3, (0..4).map(|at| sum(at).to_string())));
    let has_sections = changes.iter().any(|change| change.section.is_some());
    listing::aligned(&lines, |column| column != 2 || has_sections, |column| column >= 3)
}

fn numbers(change: &GroupChange) -> [u64; 4] {
    [change.images_before, change.size_before, change.images_after, change.size_after]
}

fn cells(group: &Group) -> Vec<String> {
    let relocatable = if group.relocatable == Some(true) { " (relocatable)" } else { "" };
    let compression = if group.compression == "none" { "-" } else { &group.compression };
    vec![
        printable::name(&group.kind).into_owned(),
        cell(Some(&group.target)),
        format!("{}{relocatable}", group.image),
        cell(group.section.as_deref()),
        compression.to_owned(),
        group.images.to_string(),
        group.size.to_string(),
        group.uncompressed_size.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: &str, size: u64, uncompressed_size: Option<u64>) -> Row {
        Row {
            member: None,
            section: None,
            offset: 0,
            kind: "cuda".to_owned(),
            triple: None,
            target: target.to_owned(),
            image: "ptx".to_owned(),
            relocatable: None,
            version: None,
            name: None,
            size,
            compression: if uncompressed_size.is_some() { "zstd" } else { "none" }.to_owned(),
            uncompressed_size,
            entries: None,
        }
    }

    #[test]
    fn equal_images_are_one_line_and_the_largest_comes_first() {
        let rows = [row("sm_80", 10, None), row("sm_90", 100, Some(1000)), row("sm_80", 20, None)];
        let groups = summarize(&rows);
        let figures: Vec<_> = groups.iter().map(|group| (group.images, group.size, group.uncompressed_size)).collect();
        assert_eq!(figures, [(1, 100, 1000), (2, 30, 30)]);
        assert_eq!(
            table(&groups),
            "KIND  TARGET  IMAGE  COMPRESSION  IMAGES  SIZE  UNCOMPRESSED\n\
             cuda  sm_90   ptx    zstd              1   100          1000\n\
             cuda  sm_80   ptx    -                 2    30            30\n\
             all                                    3   130          1030\n"
        );
        assert_eq!(table(&[]), "no device images\n");
    }
}
