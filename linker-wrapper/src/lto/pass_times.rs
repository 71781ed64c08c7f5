//! LLVM's reports of `-time-passes`, summed over the processes of a link.
//!
//! LLVM prints them as text alone, so this reads the text of each process. Numbers are those of LLVM, which rounds them to a tenth of a
//! millisecond.

use std::fmt::Write;

use crate::diag::progress;
use crate::profile::recorder::Recorder;

const RULE: &str = "===-------------------------------------------------------------------------===";
/// The width of that line, in which titles are centred.
const WIDTH: usize = 80;
/// The columns of times; LLVM leaves out those without any time.
const TIMES: [&str; 4] = ["---User Time---", "--System Time--", "--User+System--", "---Wall Time---"];
/// The columns of counts.
const COUNTS: [&str; 2] = ["---Mem---", "---Instr---"];
const NAME: &str = "--- Name ---";

/// One report: what was timed, by name.
#[derive(Debug, Clone, PartialEq)]
struct Group {
    title: String,
    rows: Vec<Row>,
}

/// The times of one pass in seconds, in the order of [`TIMES`], and counts in the order of [`COUNTS`].
#[derive(Debug, Clone, PartialEq)]
struct Row {
    name: String,
    times: [f64; 4],
    counts: [i64; 2],
}

/// Whether these options of LLVM have it time its passes.
pub fn are_timed(options: &[String]) -> bool {
    options.iter().any(|option| option.trim_start_matches('-').starts_with("time-passes"))
}

/// Adds the reports of one process, as LLVM prints them.
fn add(all: &mut Vec<Group>, text: &str) {
    for group in parse(text) {
        match all.iter_mut().find(|one| one.title == group.title) {
            Some(known) => group.rows.into_iter().for_each(|row| merge(known, row)),
            None => all.push(group),
        }
    }
}

/// Prints the reports of all processes, at the end of the link, if these options of LLVM have it time its passes.
pub fn print(options: &[String], recorder: &Recorder) {
    if !are_timed(options) {
        return;
    }
    recorder.pass_times(&llvm_passes::take_time_report());
    let mut groups = Vec::new();
    recorder.take_pass_times().iter().for_each(|text| add(&mut groups, text));
    let wall = |group: &Group| group.rows.iter().map(|row| row.times[3]).sum::<f64>();
    groups.sort_by(|one, other| wall(other).total_cmp(&wall(one)));
    let text: String = groups.iter().map(rendered).collect();
    if !text.is_empty() {
        progress::quietly(|| llvm_passes::print_report(&text));
    }
}

fn merge(group: &mut Group, row: Row) {
    let Some(known) = group.rows.iter_mut().find(|known| known.name == row.name) else {
        group.rows.push(row);
        return;
    };
    known.times.iter_mut().zip(row.times).for_each(|(time, more)| *time += more);
    known.counts.iter_mut().zip(row.counts).for_each(|(count, more)| *count = count.saturating_add(more));
}

/// Reads reports, and leaves out everything else.
fn parse(text: &str) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut lines = text.lines();
    let mut columns: Vec<&str> = Vec::new();
    while let Some(line) = lines.next() {
        if line == RULE {
            if let Some(title) = lines.next().map(str::trim).filter(|title| !title.is_empty()) {
                groups.push(Group { title: title.to_owned(), rows: Vec::new() });
                columns.clear();
                // The rule below the title.
                lines.next();
            }
        } else if line.trim_end().ends_with(NAME) {
            columns = TIMES.into_iter().chain(COUNTS).filter(|column| line.contains(column)).collect();
        } else if let (Some(group), Some(row)) = (groups.last_mut(), row(line, &columns))
            && row.name != "Total"
        {
            merge(group, row);
        }
    }
    groups.retain(|group| !group.rows.is_empty());
    groups
}

/// Reads `0.0350 ( 27.9%)` for each time, a number for each count, and the name.
fn row(line: &str, columns: &[&str]) -> Option<Row> {
    if columns.is_empty() {
        return None;
    }
    let mut row = Row { name: String::new(), times: [0.0; 4], counts: [0; 2] };
    let mut rest = line;
    for column in columns {
        let (number, behind) = rest.trim_start().split_once(' ')?;
        rest = behind;
        if let Some(place) = TIMES.iter().position(|time| time == column) {
            row.times[place] = number.parse().ok()?;
            rest = rest.split_once(')')?.1;
        } else {
            let place = COUNTS.iter().position(|count| count == column)?;
            row.counts[place] = number.parse().ok()?;
        }
    }
    let name = rest.trim();
    (!name.is_empty()).then(|| Row { name: name.to_owned(), ..row })
}

/// A report in LLVM's form, longest first.
fn rendered(group: &Group) -> String {
    let mut rows: Vec<&Row> = group.rows.iter().collect();
    rows.sort_by(|one, other| other.times[3].total_cmp(&one.times[3]));
    let mut total = Row { name: "Total".to_owned(), times: [0.0; 4], counts: [0; 2] };
    for row in &rows {
        total.times.iter_mut().zip(row.times).for_each(|(sum, time)| *sum += time);
        total.counts.iter_mut().zip(row.counts).for_each(|(sum, count)| *sum = sum.saturating_add(count));
    }
    let padding = " ".repeat(WIDTH.saturating_sub(group.title.chars().count()) / 2);
    let mut text = format!("{RULE}\n{padding}{}\n{RULE}\n", group.title);
    // Writing to a String cannot fail.
    let _ =
        writeln!(text, "  Total Execution Time: {:.4} seconds ({:.4} wall clock)\n", total.times[2], total.times[3]);
    text.push_str("   ");
    let times = TIMES.iter().zip(total.times).filter(|(_, sum)| *sum > 0.0);
    times.for_each(|(column, _)| text.push_str(&format!("{column}   ")));
    text.truncate(text.trim_end_matches(' ').len());
    text.push_str("  ");
    let counts = COUNTS.iter().zip(total.counts).filter(|(_, sum)| *sum != 0);
    counts.for_each(|(column, _)| text.push_str(&format!("{column}  ")));
    let _ = writeln!(text, "{NAME}");
    rows.into_iter().chain([&total]).for_each(|row| text.push_str(&line(row, &total)));
    text.push('\n');
    text
}

fn line(row: &Row, total: &Row) -> String {
    let mut text = String::new();
    for (time, sum) in row.times.iter().zip(total.times).filter(|(_, sum)| *sum > 0.0) {
        let _ = write!(text, "  {time:7.4} ({:5.1}%)", time * 100.0 / sum);
    }
    text.push_str("  ");
    for (count, _) in row.counts.iter().zip(total.counts).filter(|(_, sum)| *sum != 0) {
        let _ = write!(text, "{count:9}  ");
    }
    let _ = writeln!(text, "{}", row.name);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By LLVM 22, without lines in the middle.
    const REPORT: &str = "\
===-------------------------------------------------------------------------===
                      Instruction Selection and Scheduling
===-------------------------------------------------------------------------===
  Total Execution Time: 0.0041 seconds (0.0425 wall clock)

   ---User Time---   --System Time--   --User+System--   ---Wall Time---  --- Name ---
   0.0024 ( 63.2%)   0.0003 (100.0%)   0.0027 ( 65.9%)   0.0407 ( 95.8%)  DAG Combining 1
   0.0014 ( 36.8%)   0.0000 (  0.0%)   0.0014 ( 34.1%)   0.0018 (  4.2%)  Instruction Selection
   0.0038 (100.0%)   0.0003 (100.0%)   0.0041 (100.0%)   0.0425 (100.0%)  Total

";

    #[test]
    fn a_report_is_printed_as_llvm_does() {
        let groups = parse(REPORT);
        assert_eq!(groups.len(), 1);
        assert_eq!(rendered(&groups[0]), REPORT);
    }

    #[test]
    fn times_of_processes_are_summed() {
        let [mut group] = <[Group; 1]>::try_from(parse(REPORT)).unwrap();
        for row in parse(REPORT).remove(0).rows {
            merge(&mut group, row);
        }
        let text = rendered(&group);
        assert!(text.contains("0.0082 seconds (0.0850 wall clock)"), "{text}");
        assert!(text.contains("   0.0814 ( 95.8%)  DAG Combining 1\n"), "{text}");
    }

    #[test]
    fn columns_without_time_are_left_out_and_counts_are_read() {
        let text = REPORT.replace("---User Time---   --System Time--   --User+System--   ", "");
        let cut = |line: &str| {
            let at = line.match_indices(')').nth(2).map_or(0, |(at, _)| at + 1);
            if line.contains('%') { line[at..].to_owned() } else { line.to_owned() }
        };
        let text = text.lines().map(|line| cut(line) + "\n").collect::<String>();
        let groups = parse(&text);
        assert_eq!(groups[0].rows[0].times, [0.0, 0.0, 0.0, 0.0407]);
        assert!(
            rendered(&groups[0]).contains("   ---Wall Time---  --- Name ---\n   0.0407 ( 95.8%)  DAG Combining 1\n")
        );
        let counted =
            text.replace("Time---  --- Name", "Time---  ---Instr---  --- Name").replace("%)  ", "%)      12345  ");
        assert_eq!(parse(&counted)[0].rows[0].counts, [0, 12345]);
        assert!(rendered(&parse(&counted)[0]).contains("%)      12345  DAG Combining 1\n"));
    }

    #[test]
    fn other_text_is_no_report() {
        for text in ["", RULE, "remark: a\nremark: b\n", "===\n  0.1 ( 1.0%)  x\n"] {
            assert_eq!(parse(text), [], "{text}");
        }
    }

    #[test]
    fn the_option_is_found() {
        for (option, timed) in [("-time-passes", true), ("--time-passes-per-run", true), ("-pass-remarks=x", false)] {
            assert_eq!(are_timed(&[option.to_owned()]), timed, "{option}");
        }
    }
}
