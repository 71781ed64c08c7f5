//! The report of `offload-bundle explain`.

use std::collections::BTreeSet;

use super::super::groups::grouped;
use super::super::report::{ContainerReport, ExplainReport, GpuReport, Platform, RoleReport};
use super::{Detail, InFile, OfFile, SCREEN, basis, heading, in_files, matrix, places, without_common_folder};
use crate::GpuArch;
use crate::arch::table::KNOWN;
use crate::listing::aligned;
use crate::printable;

pub(super) type Explained<'r> = InFile<'r, ContainerReport>;

/// Formats the reports on several files: a table for each group of containers with the same outcomes; where that would be many, a line.
pub fn explain_text(reports: &[OfFile<ExplainReport>], detail: Detail) -> String {
    let (heading, named) = without_common_folder(reports);
    heading + &report(&named, detail)
}

pub(in crate::coverage) fn report(reports: &[(Option<&str>, &ExplainReport)], detail: Detail) -> String {
    let all = in_files(reports, |report| &report.containers);
    let has = |platform| all.iter().any(|found| found.container.platform == platform);
    let mut out = basis(reports.first().map_or("", |(_, report)| &report.driver), has);
    let groups = grouped(&all, |found| key(found, detail));
    let tables: String = groups.iter().map(|group| table_of_group(group)).collect();
    let are_many = detail == Detail::Grouped && tables.lines().count() > SCREEN;
    if detail == Detail::Grouped && groups.len() > 1 && (are_many || groups.len() < all.len()) {
        out += &matrix::counts(&all);
    }
    out += &if are_many { matrix::lines(&all) } else { tables };
    out + &unknown_gpus(&all)
}

/// The table of containers with the same outcomes, under a heading.
fn table_of_group(group: &[&Explained<'_>]) -> String {
    let Some(found) = group.first() else { return String::new() };
    let heading = if group.len() == 1 { place_and_role(found) } else { heading_of_group(group) };
    let (shown, without_code) = folded(found.container);
    let rest = match without_code.is_empty() {
        true => String::new(),
        false => format!("no code for {}\n", without_code.join(", ")),
    };
    format!("\n{heading}: {}\n{}{rest}", entries(found.container), table(&shown))
}

/// A line about the rows of GPUs that no table of this crate has.
fn unknown_gpus(all: &[Explained<'_>]) -> String {
    let rows = all.iter().flat_map(|found| &found.container.gpus);
    let archs: BTreeSet<GpuArch> = rows.filter_map(|row| row.gpu.parse().ok()).collect();
    let names: Vec<String> = archs.iter().filter(|arch| !KNOWN.knows(**arch)).map(GpuArch::to_string).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!("\nunknown to this version, by the rules of their major version: {}\n", names.join(", ")),
    }
}

/// What is printed of a container, but for its number and offset.
fn key(found: &Explained<'_>, detail: Detail) -> String {
    let ContainerReport { place, platform, role, entries, gpus, .. } = found.container;
    let file = found.file.unwrap_or_default();
    match detail {
        Detail::Grouped => format!("{file} {platform:?} {:?} {} {entries:?} {gpus:?}", place.section, role.role),
        Detail::Full => format!("{file} {}", place.container),
    }
}

/// `54 fatbins (1-54, section .nv_fatbin, first at offset 0x40)`.
fn heading_of_group(group: &[&Explained<'_>]) -> String {
    let Some(first) = group.first() else { return String::new() };
    let numbers: Vec<usize> = group.iter().map(|found| found.container.place.container).collect();
    let role = match (first.container.role.role, first.container.gpus.is_empty()) {
        ("linked", _) => ", linked",
        ("object", true) => ", parts of a link above",
        ("object", false) => ", objects",
        _ => "",
    };
    format!("{}{role})", places(first.file, first.container.platform, &first.container.place, &numbers))
}

/// The rows to show one by one, and the GPUs that a bundle has nothing for, if there are many of them.
fn folded(container: &ContainerReport) -> (Vec<&GpuReport>, Vec<&str>) {
    const MANY: usize = 8;
    let all = container.gpus.iter();
    if container.platform == Platform::Cuda || container.gpus.len() < MANY {
        return (all.collect(), Vec::new());
    }
    // A GPU that runs something with other settings of its features is shown.
    let processor = |row: &GpuReport| row.gpu.split(':').next().map(str::to_owned);
    let running: Vec<Option<String>> = container.gpus.iter().filter(|row| row.entry.is_some()).map(processor).collect();
    let (shown, others): (Vec<&GpuReport>, Vec<&GpuReport>) = all.partition(|row| running.contains(&processor(row)));
    (shown, others.into_iter().map(|row| row.gpu.as_str()).collect())
}

/// The place with what the container is: `fatbin 1 (section .nv_fatbin, offset 0x40, linked of fatbins 2, 3)`.
fn place_and_role(found: &Explained<'_>) -> String {
    let heading = heading(found.file, found.container.platform, &found.container.place);
    let RoleReport { module, objects, .. } = &found.container.role;
    let numbers: Vec<String> = objects.iter().map(usize::to_string).collect();
    let role = match (module, numbers.as_slice()) {
        (Some(module), _) => format!("object {}", printable::name(module)),
        (None, []) => return heading,
        (None, [one]) => format!("linked of fatbin {one}"),
        (None, numbers) => format!("linked of fatbins {}", numbers.join(", ")),
    };
    format!("{}, {role})", heading.trim_end_matches(')'))
}

fn entries(container: &ContainerReport) -> String {
    if container.entries.is_empty() {
        return "no entries".to_owned();
    }
    printable::name(&container.entries.join(", ")).into_owned()
}

fn table(gpus: &[&GpuReport]) -> String {
    if gpus.is_empty() {
        return String::new();
    }
    let mut lines = vec![["GPU", "OUTCOME", "ENTRY", "WHY"].map(str::to_owned)];
    lines.extend(gpus.iter().map(|row| {
        let entry = row.entry.map_or("-".to_owned(), |entry| entry.to_string());
        [row.gpu.clone(), row.outcome.clone(), entry, printable::name(&row.reason).into_owned()]
    }));
    aligned(&lines, |_| true, |_| false)
}

pub(in crate::coverage) fn brief(report: &ExplainReport) -> String {
    let loaded = || report.containers.iter().filter(|container| !container.gpus.is_empty());
    let is_only = loaded().count() == 1;
    let line = |container: &ContainerReport| {
        let outcomes: Vec<&str> = container.gpus.iter().map(|gpu| gpu.outcome.as_str()).collect();
        let place = if is_only { String::new() } else { heading(None, container.platform, &container.place) + ": " };
        format!("{place}{}\n", outcomes.join(", "))
    };
    loaded().map(line).collect()
}
