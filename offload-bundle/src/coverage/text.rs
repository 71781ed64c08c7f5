//! Formats reports as text.

use super::containers::ContainerPlace;
use super::findings::{Finding, Severity};
use super::needs::DriverNeeds;
use super::report::{CheckReport, ContainerReport, ExplainReport, GpuReport, Platform, RoleReport};
use crate::printable;

pub(super) fn report(report: &ExplainReport) -> String {
    let has = |platform| report.containers.iter().any(|container| container.platform == platform);
    let mut out = String::new();
    if has(Platform::Cuda) {
        out += &format!("driver: {}\n", report.driver);
    }
    if has(Platform::Hip) {
        out += "HIP's runtime: as LLVM and ROCm document it, not seen on a GPU\n";
    }
    for container in &report.containers {
        out += &format!("\n{}: {}\n", place_and_role(container), entries(container));
        let (shown, without_code) = folded(container);
        out += &table(&shown);
        if !without_code.is_empty() {
            out += &format!("no code for {}\n", without_code.join(", "));
        }
    }
    out
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

pub(super) fn check_report(report: &CheckReport) -> String {
    let mut out = format!("driver: {}\n", report.driver);
    if !report.findings.is_empty() {
        out += "\n";
        out.extend(report.findings.iter().map(paragraph));
    }
    for container in &report.containers {
        let heading = heading(Platform::Cuda, &container.place);
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
