//! docs/benchmarks.md, from what each case left in the target folder.

use std::fmt::Write;
use std::path::Path;
use std::time::SystemTime;

use super::cases::{CASES, Case, Measure, Outcome};
use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder};

const TEXT: &str = include_str!("../../../benchmarks/report.md");

/// Where the table goes in [`TEXT`].
const TABLE: &str = "@TABLE@\n";
const DETAILS: &str = "@DETAILS@\n";
const MACHINE: &str = "@MACHINE@\n";

/// Keeps a case's result, so that a report can be made of cases that were run one by one.
pub fn keep(folder: &Path, case: &Case, outcome: &Outcome, rounds: Option<usize>) -> Result<()> {
    let folder = folder.join("results");
    create_folder(&folder)?;
    let write = |end: &str, text: &str| {
        let path = folder.join(format!("{}.{end}", case.name));
        std::fs::write(&path, text).map_err(|error| Failure::file("write", &path, &error))
    };
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

/// Writes the report of all results that there are.
pub fn write(repository: &Repository, folder: &Path) -> Result<()> {
    let read = |case: &Case, end: &str| {
        std::fs::read_to_string(folder.join("results").join(format!("{}.{end}", case.name))).ok()
    };
    let (mut table, mut details) = (String::new(), String::new());
    for case in &CASES {
        if let (Measure::Timed(_), Some(cells)) = (case.measure, read(case, "row").filter(|cells| !cells.is_empty())) {
            let _ = writeln!(table, "| {} | {cells} |", case.name);
        }
        if let Some(section) = read(case, "md") {
            details += &section;
            details.push('\n');
        }
    }
    let text = TEXT.replace(TABLE, &table).replace(DETAILS, details.trim_start()).replace(MACHINE, &machine());
    let path = repository.root.join("docs/benchmarks.md");
    std::fs::write(&path, text.trim_end().to_owned() + "\n").map_err(|error| Failure::file("write", &path, &error))
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let information = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, name)| name);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total =
        memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    let gibibytes = total.map_or(0, |kilobytes: u64| (kilobytes + (1 << 19)) >> 20);
    format!("{cores} cores, {model}, {gibibytes} GiB, Linux, LLVM 22, CUDA 13.0.\n")
}

/// Processes that wanted to run meanwhile: a busy machine makes all times longer and the spreads wider.
fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load average {}", load.split(' ').next().unwrap_or("unknown"))
}

/// Today's date in UTC, by Howard Hinnant's days-to-civil rule.
fn today() -> String {
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    date(seconds / 86_400)
}

/// The date of a day since 1970-01-01.
fn date(day: u64) -> String {
    let days = day + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(19_782), "2024-02-29");
        assert_eq!(date(20_453), "2025-12-31");
    }

    #[test]
    fn the_text_has_a_place_for_everything() {
        assert!([TABLE, DETAILS, MACHINE].iter().all(|place| TEXT.matches(place).count() == 1));
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
