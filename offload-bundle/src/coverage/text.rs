//! Formats reports as text.

use super::containers::ContainerPlace;
use super::findings::{Finding, Severity};
use super::groups::{grouped, ranges};
use super::needs::DriverNeeds;
use super::report::{CheckReport, CheckedContainer, ContainerReport, ExplainReport, GpuReport, Platform, RoleReport};
use crate::listing::aligned;
use crate::printable;

/// How much a report repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Containers of which the same is to be said are one.
    Grouped,
    /// Each container by itself.
    Full,
}

pub(super) fn report(report: &ExplainReport, detail: Detail) -> String {
    let has = |platform| report.containers.iter().any(|container| container.platform == platform);
    let mut out = basis(&report.driver, has);
    let key = |container: &ContainerReport| key(container, detail);
    let groups = grouped(&report.containers, key);
    if detail == Detail::Grouped && groups.len() > 1 && groups.len() < report.containers.len() {
        out += &matrix(&report.containers);
    }
    for group in &groups {
        let [container, ..] = group.as_slice() else { continue };
        let heading = if group.len() == 1 { place_and_role(container) } else { heading_of_group(group) };
        out += &format!("\n{heading}: {}\n", entries(container));
        let (shown, without_code) = folded(container);
        out += &table(&shown);
        if !without_code.is_empty() {
            out += &format!("no code for {}\n", without_code.join(", "));
        }
    }
    out
}

/// What the predictions rest on, for each runtime.
fn basis(driver: &str, has: impl Fn(Platform) -> bool) -> String {
    let mut out = String::new();
    if has(Platform::Cuda) || !has(Platform::Hip) {
        out += &format!("driver: {driver}\n");
    }
    if has(Platform::Hip) {
        out += "HIP's runtime: as LLVM and ROCm document it, not seen on a GPU\n";
    }
    out
}

/// What is printed of a container, but for its number and offset.
fn key(container: &ContainerReport, detail: Detail) -> String {
    let ContainerReport { place, platform, role, entries, gpus, .. } = container;
    match detail {
        Detail::Grouped => format!("{platform:?} {:?} {} {entries:?} {gpus:?}", place.section, role.role),
        Detail::Full => place.container.to_string(),
    }
}

/// How many of the fatbins run on each GPU, and from what.
fn matrix(containers: &[ContainerReport]) -> String {
    let loaded: Vec<_> = containers.iter().filter(|container| container.platform == Platform::Cuda).collect();
    let loaded: Vec<_> = loaded.into_iter().filter(|container| !container.gpus.is_empty()).collect();
    let Some(first) = loaded.first() else { return String::new() };
    let mut lines = vec![["GPU", "MACHINE CODE", "PTX", "NOTHING"].map(str::to_owned)];
    for (place, gpu) in first.gpus.iter().enumerate() {
        let rows: Vec<&GpuReport> = loaded.iter().filter_map(|container| container.gpus.get(place)).collect();
        let runs = rows.iter().filter(|row| row.runs).count();
        let code = rows.iter().filter(|row| row.runs && row.outcome.starts_with("sass")).count();
        lines.push([gpu.gpu.clone(), code.to_string(), (runs - code).to_string(), (rows.len() - runs).to_string()]);
    }
    format!("\nwhat {} fatbins run from:\n{}", loaded.len(), aligned(&lines, [true; 4], &[1, 2, 3]))
}

/// `54 fatbins (1-54, section .nv_fatbin, first at offset 0x40)`.
fn heading_of_group(group: &[&ContainerReport]) -> String {
    let Some(first) = group.first() else { return String::new() };
    let numbers: Vec<usize> = group.iter().map(|container| container.place.container).collect();
    let role = match (first.role.role, first.gpus.is_empty()) {
        ("linked", _) => ", linked",
        ("object", true) => ", parts of a link above",
        ("object", false) => ", objects",
        _ => "",
    };
    format!("{}{role})", places(first.platform, &first.place, &numbers))
}

fn places(platform: Platform, first: &ContainerPlace, numbers: &[usize]) -> String {
    let word = match platform {
        Platform::Cuda => "fatbins",
        Platform::Hip => "bundles",
    };
    let section = first.section.as_ref().map(|section| format!(", section {section}")).unwrap_or_default();
    let member =
        first.member.as_ref().map(|member| format!("in member {} ", printable::name(member))).unwrap_or_default();
    format!("{} {word} ({}{section}, first {member}at offset {:#x}", numbers.len(), ranges(numbers), first.offset)
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

/// `fatbin 2 (member a.o, section .nv_fatbin, offset 0x40)`.
fn heading(platform: Platform, place: &ContainerPlace) -> String {
    let word = match platform {
        Platform::Cuda => "fatbin",
        Platform::Hip => "bundle",
    };
    let member =
        place.member.as_ref().map(|member| format!("member {}, ", printable::name(member))).unwrap_or_default();
    let section = place.section.as_ref().map(|section| format!("section {section}, ")).unwrap_or_default();
    format!("{word} {} ({member}{section}offset {:#x})", place.container, place.offset)
}

/// The same with what it is: `fatbin 1 (section .nv_fatbin, offset 0x40, linked of fatbins 2, 3)`.
fn place_and_role(container: &ContainerReport) -> String {
    let heading = heading(container.platform, &container.place);
    let RoleReport { module, objects, .. } = &container.role;
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
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let row = |[gpu, outcome, entry, why]: &[String; 4]| {
        let [first, second, third] = widths;
        format!("{gpu:first$}  {outcome:second$}  {entry:third$}  {why}\n")
    };
    lines.iter().map(row).collect()
}

pub(super) fn brief(report: &ExplainReport) -> String {
    let loaded = || report.containers.iter().filter(|container| !container.gpus.is_empty());
    let is_only = loaded().count() == 1;
    let line = |container: &ContainerReport| {
        let outcomes: Vec<&str> = container.gpus.iter().map(|gpu| gpu.outcome.as_str()).collect();
        let place = if is_only { String::new() } else { heading(container.platform, &container.place) + ": " };
        format!("{place}{}\n", outcomes.join(", "))
    };
    loaded().map(line).collect()
}

pub(super) fn check_report(report: &CheckReport, detail: Detail) -> String {
    // What was forgotten concerns CUDA's driver or any.
    let has = |platform| {
        let of_platform = report.containers.iter().any(|container| container.platform == platform);
        of_platform || (report.containers.is_empty() && platform == Platform::Cuda)
    };
    let mut out = basis(&report.driver, has);
    if !report.findings.is_empty() {
        out += "\n";
        out.extend(report.findings.iter().map(paragraph));
    }
    let key = |container: &CheckedContainer| match detail {
        Detail::Grouped => format!(
            "{:?} {:?} {:?} {:?}",
            container.platform, container.place.section, container.findings, container.needs
        ),
        Detail::Full => container.place.container.to_string(),
    };
    for group in grouped(&report.containers, key) {
        let [container, others @ ..] = group.as_slice() else { continue };
        let numbers: Vec<usize> = group.iter().map(|container| container.place.container).collect();
        let heading = match others {
            [] => heading(container.platform, &container.place),
            _ => places(container.platform, &container.place, &numbers) + ")",
        };
        if container.findings.is_empty() {
            out += &format!("\n{heading}: nothing to say\n");
        } else {
            out += &format!("\n{heading}: {}\n", summary(&container.findings));
            out.extend(container.findings.iter().map(paragraph));
        }
        out += &needs(&container.needs);
    }
    out
}

/// The driver that the newest entries need.
fn needs(needs: &DriverNeeds) -> String {
    let Some(branch) = needs.branch else { return String::new() };
    let newest = needs.entries.iter().filter(|need| need.branch == branch);
    let whats: Vec<String> = newest.map(|need| format!("{} (entry {})", need.what, need.entry)).collect();
    format!("loads whole with drivers of branch {branch} or later, because of {}\n", whats.join(", "))
}

/// `1 error, 2 warnings`.
fn summary(findings: &[Finding]) -> String {
    let part = |severity: Severity| {
        let count = findings.iter().filter(|finding| finding.severity == severity).count();
        let plural = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{count} {severity}{plural}"))
    };
    let parts: Vec<String> =
        [Severity::Error, Severity::Warning, Severity::Note].into_iter().filter_map(part).collect();
    parts.join(", ")
}

fn paragraph(finding: &Finding) -> String {
    let gpus = if finding.gpus.is_empty() { String::new() } else { format!(" (on {})", finding.gpus.join(", ")) };
    let message = printable::name(&finding.message);
    format!("{}: {}: {message}{gpus}\n  {}\n", finding.severity, finding.code, finding.advice)
}
