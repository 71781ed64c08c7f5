//! docs/benchmarks.md, written from the results of the cases in the target folder.

use std::fmt::Write;
use std::path::Path;

use procfs::Current;

use crate::cases::{CASES, Case, Outcome};
use xtask::failure::Result;
use xtask::repository::{Repository, create_folder, write_file};

const TEXT: &str = include_str!("../report.md");

/// Where the table goes in [`TEXT`].
const TABLE: &str = "@TABLE@\n";
const DETAILS: &str = "@DETAILS@\n";
const MACHINE: &str = "@MACHINE@\n";

/// Keeps a case's result, so that a report can be written of cases that were run one by one.
pub fn keep(folder: &Path, case: &Case, outcome: &Outcome, rounds: Option<usize>) -> Result<()> {
    let folder = folder.join("results");
    create_folder(&folder)?;
    let write = |end: &str, text: &str| write_file(&folder.join(format!("{}.{end}", case.name)), text);
    write("row", &outcome.cells)?;
    write("md", &section(case, outcome, rounds))
}

fn section(case: &Case, outcome: &Outcome, rounds: Option<usize>) -> String {
    let rounds = rounds.map_or(String::new(), |rounds| format!(" --rounds {rounds}"));
    let command = format!("cargo xtask bench --case {}{rounds}", case.name);
    let mut text =
        format!("### {}\n\n{}.\n`{command}`, {}, {}.\n\n", case.name, capitalized(case.describe), today(), load());
    text += &outcome.details;
    for missed in &outcome.missed {
        let _ = writeln!(text, "- **missed**: {missed}");
    }
    text
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or(String::new(), |first| first.to_uppercase().chain(characters).collect())
}

/// Writes the report of all results so far. What was measured on another machine stays as the last report has it.
pub fn write(repository: &Repository, folder: &Path) -> Result<()> {
    let path = repository.root.join("docs/benchmarks.md");
    let last = std::fs::read_to_string(&path).unwrap_or_default();
    let read = |case: &Case, end: &str| {
        std::fs::read_to_string(folder.join("results").join(format!("{}.{end}", case.name))).ok()
    };
    let (mut table, mut details) = (String::new(), String::new());
    for case in &CASES {
        let row = || read(case, "row").or_else(|| last_row(&last, case.name));
        if let (Some(_), Some(cells)) = (case.timed(), row().filter(|cells| !cells.is_empty())) {
            let _ = writeln!(table, "| {} | {cells} |", case.name);
        }
        if let Some(section) = read(case, "md").or_else(|| last_section(&last, case.name)) {
            details += &section;
            details.push('\n');
        }
    }
    let text = TEXT.replace(TABLE, &table).replace(DETAILS, details.trim_start()).replace(MACHINE, &machine());
    write_file(&path, text.trim_end().to_owned() + "\n")
}

/// The cells of a case in the table of an earlier report.
fn last_row(report: &str, name: &str) -> Option<String> {
    // The other sections have tables of their own.
    let (table, _) = report.split_once("\n## ")?;
    let row = table.lines().find_map(|line| line.strip_prefix(&format!("| {name} | ")))?;
    row.strip_suffix(" |").map(str::to_owned)
}

/// The section of a case in an earlier report.
fn last_section(report: &str, name: &str) -> Option<String> {
    let heading = format!("### {name}\n");
    let start = report.find(&format!("\n{heading}"))? + 1;
    let rest = &report[start..];
    let end = rest[heading.len()..].find("\n### ").map_or(rest.len(), |end| heading.len() + end);
    Some(rest[..end].trim_end().to_owned() + "\n")
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let processors = procfs::CpuInfo::current().ok();
    let model = processors.as_ref().and_then(|processors| processors.model_name(0)).unwrap_or("unknown processor");
    let memory = procfs::Meminfo::current().map_or(0, |memory| memory.mem_total);
    let gibibytes = (memory + (1 << 29)) >> 30;
    format!("{cores} cores, {model}, {gibibytes} GiB, Linux, LLVM 22, CUDA 13.0.\n")
}

/// The number of processes that wanted to run meanwhile: a busy machine makes all times longer and the spreads wider.
fn load() -> String {
    procfs::LoadAverage::current()
        .map_or_else(|_| "unknown load".to_owned(), |load| format!("load average {:.2}", load.one))
}

/// The date in UTC.
fn today() -> String {
    time::UtcDateTime::now().date().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_a_place_for_everything() {
        assert!([TABLE, DETAILS, MACHINE].iter().all(|place| TEXT.matches(place).count() == 1));
    }

    #[test]
    fn the_page_has_the_text() {
        let mut rest = include_str!("../../docs/benchmarks.md");
        for piece in
            [TABLE, DETAILS, MACHINE].iter().fold(TEXT.to_owned(), |text, place| text.replace(place, "\0")).split('\0')
        {
            let found = rest.split_once(piece);
            (_, rest) = found
                .unwrap_or_else(|| panic!("edit benchmarks/report.md as well; not in docs/benchmarks.md: {piece}"));
        }
    }

    #[test]
    fn cases_of_an_earlier_report_stay() {
        let report = "| small | 1 | 2 |\n\n## Cases\n\n### small\n\nOld.\n- figures\n\n### medium\n\nLast.\n";
        assert_eq!(last_row(report, "small").as_deref(), Some("1 | 2"));
        assert_eq!(last_row(report, "large"), None);
        assert_eq!(last_section(report, "small").as_deref(), Some("### small\n\nOld.\n- figures\n"));
        assert_eq!(last_section(report, "medium").as_deref(), Some("### medium\n\nLast.\n"));
        assert_eq!(last_section(report, "large"), None);
    }

    #[test]
    fn a_missed_goal_is_in_the_report() {
        let outcome = Outcome { missed: vec!["too slow".into()], details: "- figures\n".into(), ..Outcome::default() };
        let text = section(&CASES[1], &outcome, Some(2));
        assert!(text.starts_with("### small\n\n2 units"), "{text}");
        assert!(text.contains("`cargo xtask bench --case small --rounds 2`"), "{text}");
        assert!(text.ends_with("- figures\n- **missed**: too slow\n"), "{text}");
    }
}
