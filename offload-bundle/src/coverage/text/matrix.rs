//! What many containers run on each GPU, in few lines.

use super::super::groups::grouped;
use super::super::report::{ContainerReport, GpuReport, Platform};
use super::super::select::Verdict;
use super::explain::Explained;
use super::{count, places_by_file};
use crate::listing::aligned;
use crate::printable;

/// How many of the fatbins run on each GPU, and from what.
pub(super) fn counts(all: &[Explained<'_>]) -> String {
    let loaded: Vec<&ContainerReport> = loaded(all).map(|found| found.container).collect();
    let gpus = gpus(&loaded);
    if gpus.is_empty() {
        return String::new();
    }
    let number = |of: &dyn Fn(&GpuReport) -> bool| {
        let on = |gpu: &&str| loaded.iter().filter(|container| row(container, gpu).is_some_and(of)).count();
        gpus.iter().map(on).collect::<Vec<usize>>()
    };
    let is_code = |row: &GpuReport| row.runs && row.outcome.starts_with("sass");
    let mut columns = vec![
        ("MACHINE CODE", number(&is_code)),
        ("PTX", number(&|row| row.runs && !is_code(row))),
        ("UNKNOWN", number(&is_unknown)),
        ("NOTHING", number(&|row| !row.runs && !is_unknown(row))),
    ];
    columns.retain(|(title, figures)| *title != "UNKNOWN" || figures.iter().any(|figure| *figure > 0));
    let headings = columns.iter().map(|(title, _)| (*title).to_owned());
    let mut lines: Vec<Vec<String>> = vec![["GPU".to_owned()].into_iter().chain(headings).collect()];
    lines.extend(gpus.iter().enumerate().map(|(index, gpu)| {
        let figures = columns.iter().filter_map(|(_, figures)| figures.get(index)).map(usize::to_string);
        [(*gpu).to_owned()].into_iter().chain(figures).collect()
    }));
    let table = aligned(&lines, |_| true, |column| column >= 1);
    format!("\nwhat {} from:\n{table}", run(loaded.len()))
}

fn is_unknown(row: &GpuReport) -> bool {
    row.outcome == Verdict::Unknown.word()
}

fn run(fatbins: usize) -> String {
    format!("{} {}", count(fatbins, "fatbin"), if fatbins == 1 { "runs" } else { "run" })
}

/// The fatbins that a driver is given by themselves.
fn loaded<'a, 'r>(all: &'a [Explained<'r>]) -> impl Iterator<Item = &'a Explained<'r>> {
    all.iter().filter(|found| found.container.platform == Platform::Cuda && !found.container.gpus.is_empty())
}

/// The GPUs of all reports, in the order of the report that has most: others lack those that no table of this crate has.
fn gpus<'r>(containers: &[&'r ContainerReport]) -> Vec<&'r str> {
    let mut names: Vec<&str> = containers.iter().flat_map(|found| &found.gpus).map(|row| row.gpu.as_str()).collect();
    let number = |name: &str| name.trim_start_matches("sm_").parse::<u32>().unwrap_or(u32::MAX);
    names.sort_by_key(|name| number(name));
    names.dedup();
    names
}

fn row<'r>(container: &'r ContainerReport, gpu: &str) -> Option<&'r GpuReport> {
    container.gpus.iter().find(|row| row.gpu == gpu)
}

/// A line for all fatbins that run the same on each GPU, and one for all bundles that have code for the same GPUs.
pub(super) fn lines(all: &[Explained<'_>]) -> String {
    let mut out = String::new();
    let fatbins: Vec<&Explained<'_>> = loaded(all).collect();
    let gpus = gpus(&fatbins.iter().map(|found| found.container).collect::<Vec<_>>());
    if !gpus.is_empty() {
        out += "\nwhat each runs (90: machine code of sm_90, p90: its PTX, link: the objects linked again, -: nothing, !: an error, ?: not known):\n";
        out += &table(&fatbins, &gpus);
    }
    let parts: Vec<&Explained<'_>> = all.iter().filter(|found| found.container.gpus.is_empty()).collect();
    if !parts.is_empty() {
        out += &format!("{} ({}): parts of the linked ones\n", count(parts.len(), "fatbin"), place(&parts));
    }
    let bundles: Vec<&Explained<'_>> = all.iter().filter(|found| found.container.platform == Platform::Hip).collect();
    let key = |found: &&Explained<'_>| processors(found.container).join(" ");
    for (index, group) in grouped(&bundles, key).into_iter().enumerate() {
        let group: Vec<&Explained<'_>> = group.into_iter().copied().collect();
        let names = group.first().map(|found| processors(found.container)).unwrap_or_default();
        out += if index == 0 { "\n" } else { "" };
        out += &format!("{} ({}): ", count(group.len(), "bundle"), place(&group));
        out += &if names.is_empty() { "no code for any GPU\n".to_owned() } else { format!("{}\n", names.join(", ")) };
    }
    out + "--gpu=NAME or --full gives the reasons\n"
}

/// The GPUs that a bundle has code for.
fn processors(container: &ContainerReport) -> Vec<&str> {
    container.gpus.iter().filter(|row| row.runs).map(|row| row.gpu.as_str()).collect()
}

fn table(fatbins: &[&Explained<'_>], gpus: &[&str]) -> String {
    let cells_of = |found: &Explained<'_>| gpus.iter().map(|gpu| cell(row(found.container, gpu))).collect::<Vec<_>>();
    let key = |found: &&Explained<'_>| {
        let ContainerReport { role, .. } = found.container;
        format!("{} {:?} {}", role.role, found.container.place.section, cells_of(found).join(" "))
    };
    let headings = gpus.iter().map(|gpu| gpu.trim_start_matches("sm_").to_owned());
    let first = ["FATBINS".to_owned()].into_iter().chain(headings).chain(["WHERE".to_owned()]);
    let mut lines: Vec<Vec<String>> = vec![first.collect()];
    for group in grouped(fatbins, key) {
        let group: Vec<&Explained<'_>> = group.into_iter().copied().collect();
        let Some(first) = group.first() else { continue };
        lines.push([group.len().to_string()].into_iter().chain(cells_of(first)).chain([place(&group)]).collect());
    }
    aligned(&lines, |_| true, |column| column <= gpus.len())
}

/// What a GPU runs, in few letters.
fn cell(row: Option<&GpuReport>) -> String {
    let Some(row) = row else { return String::new() };
    let mut words = row.outcome.split(' ');
    match (row.runs, words.next(), words.next()) {
        (true, Some("sass"), Some(target)) => target.to_owned(),
        (true, Some("ptx"), Some(target)) => format!("p{target}"),
        (true, Some("no-kernels"), _) => "-".to_owned(),
        (true, ..) => "link".to_owned(),
        (false, Some("no-binary" | "symbol-not-found"), _) => "-".to_owned(),
        (false, Some("unknown"), _) => "?".to_owned(),
        (false, ..) => "!".to_owned(),
    }
}

/// Where the containers of a group are: `lib.so: 1-54, linked`.
fn place(group: &[&Explained<'_>]) -> String {
    let Some(first) = group.first() else { return String::new() };
    let places = places_by_file(group.iter().map(|found| (found.file, found.container.place.container)));
    let role = if first.container.role.role == "linked" { ", linked" } else { "" };
    let section = first.container.place.section.as_deref().filter(|section| *section != ".nv_fatbin");
    let section = section.map(|section| format!(", section {}", printable::name(section))).unwrap_or_default();
    format!("{places}{section}{role}")
}
