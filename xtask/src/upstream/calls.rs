//! The calls of the tool in a test of LLVM's.
//!
//! lit stops at the first command that fails. Here each command leaves its result in a file instead, and the test goes on.

/// The program that the tests run.
const TOOL: &str = "clang-linker-wrapper";

/// A `RUN` line, with those that continue it.
#[derive(Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of its first line, from 1.
    pub line: usize,
    /// The prefix that FileCheck looks for in the output, or nothing.
    pub prefix: String,
    /// Whether the tool runs, rather than a program that prepares its input.
    pub is_call: bool,
}

/// Returns the test with results recorded in `%t.results`, and its runs. What a run prints is in `%t.LINE.log`.
pub fn rewrite(test: &str) -> (String, Vec<Run>) {
    let mut text = String::new();
    let mut runs = Vec::new();
    let mut lines = test.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some((before, first)) = line.split_once("RUN:") else {
            text += &format!("{line}\n");
            continue;
        };
        let mut words = vec![first.trim().to_owned()];
        while words.last().is_some_and(|last| last.ends_with('\\')) {
            let Some((_, next)) = lines.next() else { break };
            words.push(next.split_once("RUN:").map_or(next, |(_, rest)| rest).trim().to_owned());
        }
        let number = index + 1;
        let record = |result| format!("echo {number} {result} >>%t.results");
        let command = words.join(&format!("\n{before}RUN: "));
        let (pass, fail) = (record("pass"), record("fail"));
        text += &format!("{before}RUN: {{ {command} ; }} >%t.{number}.log 2>&1 && {pass} || {fail}\n");
        let words = words.join(" ");
        let is_call = !words.starts_with("ln ") && words.split_whitespace().any(|word| word.ends_with(TOOL));
        runs.push(Run { line: number, prefix: prefix(&words), is_call });
    }
    (text, runs)
}

/// The last prefixes that FileCheck is given: a test for two systems names Linux last.
fn prefix(words: &str) -> String {
    let values = words.split_whitespace().filter(|word| word.starts_with("--check-prefix"));
    values.filter_map(|word| word.split_once('=')).next_back().map(|(_, value)| value).unwrap_or_default().to_owned()
}

/// The results that a test has recorded, by line.
pub fn results(recorded: &str) -> impl Iterator<Item = (usize, bool)> {
    let result = |line: &str| {
        let (number, result) = line.split_once(' ')?;
        Some((number.parse().ok()?, result == "pass"))
    };
    recorded.lines().filter_map(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_records_its_result() {
        let test = "// RUN: prepare %t\nint x;\n// RUN: clang-linker-wrapper a \\\n// RUN:   b --check-prefix=ONE\n// ONE: y\n";
        let (text, runs) = rewrite(test);
        let lines: Vec<&str> = text.lines().collect();
        let recorded = |line| {
            format!("; }} >%t.{line}.log 2>&1 && echo {line} pass >>%t.results || echo {line} fail >>%t.results")
        };
        assert_eq!(lines[0], format!("// RUN: {{ prepare %t {}", recorded(1)));
        assert_eq!(lines[1..3], ["int x;", "// RUN: { clang-linker-wrapper a \\"]);
        assert_eq!(lines[3], format!("// RUN: b --check-prefix=ONE {}", recorded(3)));
        assert_eq!(lines[4..], ["// ONE: y"]);
        let run = |line, prefix: &str, is_call| Run { line, prefix: prefix.to_owned(), is_call };
        assert_eq!(runs, [run(1, "", false), run(3, "ONE", true)]);
    }

    #[test]
    fn results_are_read_by_line() {
        assert_eq!(results("1 pass\n3 fail\n").collect::<Vec<_>>(), [(1, true), (3, false)]);
    }
}
