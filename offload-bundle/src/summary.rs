//! What kinds of device images there are, and how many bytes of each.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::listing::{self, Row};
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
    /// Their number.
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
        let target = if row.target.is_empty() { row.triple.as_deref().unwrap_or_default() } else { &row.target };
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
        group.images += 1;
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
    let mut lines = vec![headings.map(str::to_owned)];
    lines.extend(groups.iter().map(cells));
    let sum = |of: fn(&Group) -> u64| groups.iter().map(of).fold(0, u64::saturating_add).to_string();
    let [images, size, uncompressed] =
        [sum(|group| group.images), sum(|group| group.size), sum(|group| group.uncompressed_size)];
    let [none, text] = [String::new(), "all".to_owned()];
    lines.push([text, none.clone(), none.clone(), none.clone(), none, images, size, uncompressed]);
    let mut is_shown = [true; 8];
    is_shown[3] = groups.iter().any(|group| group.section.is_some());
    listing::aligned(&lines, is_shown, &[5, 6, 7])
}

fn cells(group: &Group) -> [String; 8] {
    let target = if group.target.is_empty() { "-" } else { &group.target };
    let relocatable = if group.relocatable == Some(true) { " (relocatable)" } else { "" };
    let compression = if group.compression == "none" { "-" } else { &group.compression };
    [
        printable::name(&group.kind).into_owned(),
        printable::name(target).into_owned(),
        format!("{}{relocatable}", group.image),
        printable::name(group.section.as_deref().unwrap_or("-")).into_owned(),
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
