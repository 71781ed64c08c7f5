//! The page of files.

use std::collections::BTreeSet;

use offload_bundle::printable;

use crate::contents::{FileContents, Image};
use crate::gpus::GpuMatrix;
use crate::page::{Fact, Page, PageKind};
use crate::table::{Demangle, Table};
use crate::{images, kernels, tree};

/// A page of files. `producer` is the program that writes it.
pub fn page(files: &[FileContents], producer: &str, demangle: Demangle<'_>) -> Page {
    let mut page = Page::new(PageKind::Files, title(files), producer);
    add(&mut page, files, demangle);
    page
}

/// Adds to a page what it says of files.
pub fn add(page: &mut Page, files: &[FileContents], demangle: Demangle<'_>) {
    page.facts.extend(facts(files));
    page.tree = Some(tree::of_files(&title(files), files, &mut page.texts, demangle));
    page.gpus.extend(Some(GpuMatrix::new("What each GPU runs", files)).filter(|matrix| !matrix.is_empty()));
    page.tables.push(kernels::table(files, &mut page.texts, demangle));
    page.tables.push(images::table(files, &mut page.texts));
    page.tables.push(images::findings(files, &mut page.texts));
    page.tables.retain(|table: &Table| !table.rows.is_empty());
}

/// The names of the files.
pub(crate) fn title(files: &[FileContents]) -> String {
    let name = |file: &FileContents| printable::name(file.short_name()).into_owned();
    match files {
        [] => String::new(),
        [one] => name(one),
        [one, other] => format!("{} and {}", name(one), name(other)),
        [one, others @ ..] => format!("{} and {} others", name(one), others.len()),
    }
}

fn facts(files: &[FileContents]) -> Vec<Fact> {
    let images = || files.iter().flat_map(|file| &file.images);
    let number =
        |target: &str| target.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0_u64);
    let targets: BTreeSet<(u64, &str)> = images().map(|image| (number(image.target()), image.target())).collect();
    let functions = images().filter_map(|image| image.usage.as_ref()).flat_map(|usage| &usage.functions);
    let kernels: Vec<&str> = functions.filter(|function| function.kernel).map(|function| &*function.name).collect();
    let distinct = kernels.iter().collect::<BTreeSet<_>>().len();
    let stored: u64 = images().map(|image| image.row.size).fold(0, u64::saturating_add);
    let uncompressed: u64 = images().map(Image::uncompressed).fold(0, u64::saturating_add);
    let bytes: u64 = files.iter().map(|file| file.size).fold(0, u64::saturating_add);
    let waste = |of: fn(&FileContents) -> u64| files.iter().map(of).fold(0, u64::saturating_add);
    let waste = [
        ("bytes of equal machine code", waste(|file| file.waste.equal)),
        ("bytes of PTX that no GPU takes", waste(|file| file.waste.unused_ptx)),
    ];
    let mut facts = Vec::new();
    if files.len() > 1 {
        facts.push(Fact::new("files", files.len().to_string()));
    }
    facts.extend([
        Fact::new(if files.len() > 1 { "bytes" } else { "bytes of the file" }, bytes.to_string()),
        Fact::new("bytes of device images", stored.to_string()),
        Fact::new("bytes before compression", uncompressed.to_string()),
        Fact::new("images", images().count().to_string()),
        Fact::new("kernels", kernels.len().to_string()),
        Fact::new("names of kernels", distinct.to_string()),
        Fact::new(
            "targets",
            targets.into_iter().map(|(_, target)| printable::name(target).into_owned()).collect::<Vec<_>>().join(" "),
        ),
    ]);
    facts.extend(waste.into_iter().filter(|(_, bytes)| *bytes > 0).map(|(label, bytes)| {
        Fact::new(label, format!("{bytes} ({:.1} % of the device images)", 100.0 * bytes as f64 / stored.max(1) as f64))
    }));
    facts
}
