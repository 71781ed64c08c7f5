//! The tables of images and of findings.

use std::collections::BTreeMap;

use offload_bundle::coverage::{Finding, Severity};

use crate::contents::FileContents;
use crate::table::CellKind::{Bytes, Number, Text};
use crate::table::{Cell, Column, Table, Texts};

/// The images of files, as `offload-bundle list` prints them.
pub(crate) fn table(files: &[FileContents], texts: &mut Texts) -> Table {
    let columns = vec![
        Column::new("line", "Line", Number, "The line of offload-bundle list"),
        Column::new("target", "Target", Text, "What it is compiled for"),
        Column::new("image", "Image", Text, "What it is"),
        Column::new("size", "Stored", Bytes, "Bytes in the file"),
        Column::new("uncompressed", "Uncompressed", Bytes, "Bytes before compression"),
        Column::new("compression", "Compression", Text, "How it is compressed"),
        Column::new("kind", "Kind", Text, "The programming model"),
        Column::new("version", "Version", Text, "The version of PTX or LTO-IR"),
        Column::new("section", "Section", Text, "The section that holds it"),
        Column::new("offset", "Offset", Number, "Where its bytes start"),
        Column::new("file", "File", Text, "The file, with the archive member in parentheses"),
        Column::new("name", "Source", Text, "The name of the source file, where recorded"),
    ];
    let mut rows = Vec::new();
    for file in files {
        for (index, image) in file.images.iter().enumerate() {
            let row = &image.row;
            let mut optional = |text: &Option<String>| text.as_ref().map_or(Cell::None, |text| texts.text(text));
            let (version, section, name) = (optional(&row.version), optional(&row.section), optional(&row.name));
            let name_of_file = if files.len() == 1 { file.short_name() } else { &file.name };
            let place = row.member.as_ref().map_or_else(|| name_of_file.to_owned(), |m| format!("{name_of_file}({m})"));
            rows.push(vec![
                Cell::Number(index as u64 + 1),
                texts.text(image.target()),
                texts.text(&image.form()),
                row.size.into(),
                image.uncompressed().into(),
                texts.text(&row.compression),
                texts.text(&row.kind),
                version,
                section,
                row.offset.into(),
                texts.text(&place),
                name,
            ]);
        }
    }
    Table { id: "images", title: "Images", note: String::new(), columns, rows, sorted_by: Some(3) }
}

/// The findings of `offload-bundle check`, each once with its number.
pub(crate) fn findings(files: &[FileContents], texts: &mut Texts) -> Table {
    let columns = vec![
        Column::new(
            "severity",
            "Severity",
            Text,
            "error: fails on some GPU; warning: works, but perhaps not as intended",
        ),
        Column::new("code", "Code", Text, "The stable code of the finding"),
        Column::new("times", "Times", Number, "In how many containers"),
        Column::new("message", "Finding", Text, "What was found"),
        Column::new("advice", "Advice", Text, "What to do"),
        Column::new("first", "First in", Text, "The first container"),
    ];
    /// Severity, code and message.
    type Key<'f> = (std::cmp::Reverse<Severity>, &'f str, &'f str);
    let mut found: BTreeMap<Key<'_>, (u64, &Finding, String)> = BTreeMap::new();
    for file in files {
        let of_containers = file.checked.containers.iter().flat_map(|container| {
            let place = format!("{}, container {}", file.short_name(), container.place.container);
            container.findings.iter().map(move |finding| (finding, place.clone()))
        });
        let of_file = file.checked.findings.iter().map(|finding| (finding, file.name.clone()));
        for (finding, place) in of_containers.chain(of_file) {
            let key = (std::cmp::Reverse(finding.severity), finding.code.name(), finding.message.as_str());
            found.entry(key).or_insert((0, finding, place)).0 += 1;
        }
    }
    let rows = found.into_values().map(|(times, finding, place)| {
        vec![
            texts.text(&finding.severity.to_string()),
            texts.text(finding.code.name()),
            times.into(),
            texts.text(&finding.message),
            texts.text(finding.advice),
            texts.text(&place),
        ]
    });
    let rows = rows.collect();
    Table { id: "findings", title: "Findings", note: String::new(), columns, rows, sorted_by: None }
}
