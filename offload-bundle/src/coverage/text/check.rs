//! The report of `offload-bundle check`.

use std::collections::BTreeMap;

use super::super::findings::{Finding, FindingCode, Severity};
use super::super::groups::{grouped, ranges};
use super::super::needs::DriverNeeds;
use super::super::report::{CheckReport, CheckedContainer, Platform};
use super::{
    Detail, InFile, OfFile, SCREEN, basis, count, heading, in_files, places, places_by_file, without_common_folder,
};
use crate::printable;

type Checked<'r> = InFile<'r, CheckedContainer>;

/// Formats the reports on several files: a paragraph for each group of containers with the same findings; where that would be many, one
/// for each kind of finding.
pub fn check_text(reports: &[OfFile<CheckReport>], detail: Detail) -> String {
    let (heading, named) = without_common_folder(reports);
    heading + &report(&named, detail)
}

pub(in crate::coverage) fn report(reports: &[(Option<&str>, &CheckReport)], detail: Detail) -> String {
    let all = in_files(reports, |report| &report.containers);
    // What was forgotten concerns CUDA's driver or any.
    let has = |platform| {
        let of_platform = all.iter().any(|found| found.container.platform == platform);
        of_platform || (all.is_empty() && platform == Platform::Cuda)
    };
    let mut out = basis(reports.first().map_or("", |(_, report)| &report.driver), has);
    for (file, report) in reports.iter().filter(|(_, report)| !report.findings.is_empty()) {
        out += &file.map_or("\n".to_owned(), |file| format!("\n{}:\n", printable::name(file)));
        out.extend(report.findings.iter().map(|finding| paragraph(finding, finding.bytes)));
    }
    for (file, _) in reports.iter().filter(|(_, report)| report.containers.is_empty() && report.findings.is_empty()) {
        let file = file.map(|file| format!("{}: ", printable::name(file))).unwrap_or_default();
        out += &format!(
            "\n{file}no fatbins or HIP bundles; no kernel or variable that the host code registers is known to be missing\n"
        );
    }
    let groups = grouped(&all, |found| key(found, detail));
    let paragraphs: String = groups.iter().map(|group| of_group(group)).collect();
    match detail == Detail::Grouped && paragraphs.lines().count() > SCREEN {
        true => out + &by_finding(&all) + &needs_of_all(&all) + "--full tells it for each\n",
        false => out + &paragraphs,
    }
}

/// What is said of containers with the same findings.
fn of_group(group: &[&Checked<'_>]) -> String {
    let [found, others @ ..] = group else { return String::new() };
    let CheckedContainer { place, platform, findings, .. } = found.container;
    let numbers: Vec<usize> = group.iter().map(|found| found.container.place.container).collect();
    let heading = match others {
        [] => heading(found.file, *platform, place),
        _ => places(found.file, *platform, place, &numbers) + ")",
    };
    let mut out = match findings.is_empty() {
        true => format!("\n{heading}: nothing to say\n"),
        false => format!("\n{heading}: {}\n", summary(findings.iter())),
    };
    for (place, finding) in findings.iter().enumerate() {
        // The others have the same findings, about other numbers of bytes.
        let same = group.iter().filter_map(|found| found.container.findings.get(place)?.bytes);
        out += &paragraph(finding, finding.bytes.and(Some(same.sum())));
    }
    out + &needs(&found.container.needs)
}

/// What is printed of a container, but for its number and offset, and for the bytes that findings are about.
fn key(found: &Checked<'_>, detail: Detail) -> String {
    let CheckedContainer { place, platform, findings, needs } = found.container;
    let file = found.file.unwrap_or_default();
    let findings: Vec<Finding> = findings.iter().map(|finding| Finding { bytes: None, ..finding.clone() }).collect();
    match detail {
        Detail::Grouped => format!("{file} {platform:?} {:?} {findings:?} {needs:?}", place.section),
        Detail::Full => format!("{file} {}", place.container),
    }
}

/// A message with all containers that it is about.
struct Message<'r> {
    finding: &'r Finding,
    bytes: Option<u64>,
    found: Vec<&'r Checked<'r>>,
}

/// A paragraph for each kind of finding: the most frequent messages, each with its first places, and the advice.
fn by_finding(all: &[Checked<'_>]) -> String {
    /// More are counted.
    const MOST_MESSAGES: usize = 4;
    let mut kinds: BTreeMap<(std::cmp::Reverse<Severity>, FindingCode), BTreeMap<String, Message<'_>>> =
        BTreeMap::new();
    for found in all {
        for finding in &found.container.findings {
            let messages = kinds.entry((std::cmp::Reverse(finding.severity), finding.code)).or_default();
            let message =
                messages.entry(text_of(finding)).or_insert_with(|| Message { finding, bytes: None, found: Vec::new() });
            message.bytes = finding.bytes.map(|bytes| message.bytes.unwrap_or_default() + bytes).or(message.bytes);
            message.found.push(found);
        }
    }
    let findings = all.iter().flat_map(|found| &found.container.findings);
    let silent = all.iter().filter(|found| found.container.findings.is_empty()).count();
    let mut out = match kinds.is_empty() {
        true => format!("\n{}: nothing to say\n", count(all.len(), "container")),
        false => format!("\n{}: {}; nothing to say of {silent}\n", count(all.len(), "container"), summary(findings)),
    };
    for ((severity, code), messages) in kinds {
        let mut messages: Vec<(String, Message<'_>)> = messages.into_iter().collect();
        messages.sort_by_key(|(_, message)| std::cmp::Reverse(message.found.len()));
        for (text, message) in messages.iter().take(MOST_MESSAGES) {
            let bytes = stored(message.bytes);
            out += &format!("{}: {code}: {text}: {}{bytes}\n", severity.0, first_places(&message.found));
        }
        if let Some(others @ [_, ..]) = messages.get(MOST_MESSAGES..) {
            let about: usize = others.iter().map(|(_, message)| message.found.len()).sum();
            let bytes = stored(others.iter().filter_map(|(_, message)| message.bytes).reduce(|sum, bytes| sum + bytes));
            let about = count(about, "container");
            out += &format!("{}: {code}: {} like these, in {about}{bytes}\n", severity.0, others.len());
        }
        out.extend(messages.first().map(|(_, message)| format!("  {}\n", message.finding.advice)));
    }
    out
}

/// `in 54 containers (lib.so: 1-54)`.
fn first_places(found: &[&Checked<'_>]) -> String {
    let places = places_by_file(found.iter().map(|found| (found.file, found.container.place.container)));
    format!("in {} ({places})", count(found.len(), "container"))
}

/// How many fatbins need which driver.
fn needs_of_all(all: &[Checked<'_>]) -> String {
    let mut branches: BTreeMap<u32, (usize, Vec<&str>)> = BTreeMap::new();
    let known = all.iter().map(|found| &found.container.needs).filter(|needs| needs.concatenated.is_empty());
    for needs in known {
        let Some(branch) = needs.branch else { continue };
        let (number, whats) = branches.entry(branch).or_default();
        *number += 1;
        for need in needs.entries.iter().filter(|need| need.branch == branch) {
            if !whats.contains(&need.what.as_str()) {
                whats.push(&need.what);
            }
        }
    }
    let line = |(branch, (number, whats)): (u32, (usize, Vec<&str>))| {
        let of = count(number, "fatbin");
        let verb = if number == 1 { "loads" } else { "load" };
        format!("{of} {verb} whole with drivers of branch {branch} or later, because of {}\n", whats.join(", "))
    };
    branches.into_iter().map(line).collect()
}

/// The driver that the newest entries need.
fn needs(needs: &DriverNeeds) -> String {
    if !needs.concatenated.is_empty() {
        let entries = ranges(&needs.concatenated);
        return format!(
            "no driver is known to load all of it, because of the concatenated images (entries {entries})\n"
        );
    }
    let Some(branch) = needs.branch else { return String::new() };
    let newest: Vec<_> = needs.entries.iter().filter(|need| need.branch == branch).collect();
    let whats: Vec<String> = grouped(&newest, |need| need.what.clone())
        .iter()
        .filter_map(|group| {
            let first = group.first()?;
            let numbers: Vec<usize> = group.iter().map(|need| need.entry).collect();
            let word = if numbers.len() == 1 { "entry" } else { "entries" };
            Some(format!("{} ({word} {})", first.what, ranges(&numbers)))
        })
        .collect();
    format!("loads whole with drivers of branch {branch} or later, because of {}\n", whats.join(", "))
}

/// `1 error, 2 warnings`.
fn summary<'f>(findings: impl Iterator<Item = &'f Finding> + Clone) -> String {
    let part = |severity: Severity| {
        let number = findings.clone().filter(|finding| finding.severity == severity).count();
        (number > 0).then(|| count(number, &severity.to_string()))
    };
    let parts: Vec<String> =
        [Severity::Error, Severity::Warning, Severity::Note].into_iter().filter_map(part).collect();
    parts.join(", ")
}

/// The message with the GPUs that it is about.
fn text_of(finding: &Finding) -> String {
    let gpus = if finding.gpus.is_empty() { String::new() } else { format!(" (on {})", finding.gpus.join(", ")) };
    format!("{}{gpus}", printable::name(&finding.message))
}

fn paragraph(finding: &Finding, bytes: Option<u64>) -> String {
    let (text, bytes) = (text_of(finding), stored(bytes));
    format!("{}: {}: {text}{bytes}\n  {}\n", finding.severity, finding.code, finding.advice)
}

/// `; 25126512 bytes as stored`.
fn stored(bytes: Option<u64>) -> String {
    bytes.map(|bytes| format!("; {bytes} bytes as stored")).unwrap_or_default()
}
