//! No test depends on how busy the machine is: what CONTRIBUTING.md says about waiting, as far as text shows it.

use std::fs;
use std::path::{Path, PathBuf};

/// The files under a folder whose names end with this.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match path.is_dir() && !path.is_symlink() {
            // Built or installed, or this file.
            _ if name.starts_with('.') || ["target", "rules.rs"].contains(&&*name) => {}
            true => found.extend(files(&path, end)),
            false => found.extend(name.ends_with(end).then_some(path)),
        }
    }
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The numbered lines of the tests in a Rust file.
fn test_lines<'t>(path: &Path, text: &'t str) -> Vec<(usize, &'t str)> {
    let is_test = path.iter().any(|part| part == "tests" || part == "tests.rs");
    let begin = if is_test { Some(0) } else { text.lines().position(|line| line.trim() == "#[cfg(test)]") };
    text.lines().enumerate().skip(begin.unwrap_or(usize::MAX)).map(|(index, line)| (index + 1, line)).collect()
}

/// What is wrong with a line of a test.
fn broken_rule(line: &str) -> Option<&'static str> {
    const LEAST_SECONDS: u64 = 10;
    let limit = line.split_once("elapsed() < Duration::from_").map(|(_, limit)| limit);
    let seconds = limit.and_then(|limit| limit.strip_prefix("secs(")?.split(')').next()?.parse::<u64>().ok());
    match line {
        _ if limit.is_some_and(|limit| limit.starts_with("millis(")) => Some("a limit in milliseconds"),
        _ if seconds.is_some_and(|seconds| seconds < LEAST_SECONDS) => Some("a limit of less than ten seconds"),
        _ if line.contains(".recv()") => Some("a wait without an end"),
        _ if line.contains("temp_dir()") => Some("a file that another process may have: use tempfile"),
        _ => None,
    }
}

#[test]
fn rust_tests_keep_to_the_rules() {
    let mut broken = Vec::new();
    for path in files(root(), ".rs") {
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in test_lines(&path, &text) {
            broken.extend(broken_rule(line).map(|why| format!("{}:{number}: {why}", path.display())));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn lit_tests_do_not_sleep() {
    let sleeps = |line: &str| line.starts_with("# RUN:") && line.split([' ', '"', ';']).any(|word| word == "sleep");
    let tests = files(&root().join("lit-tests/tests"), ".test");
    assert!(tests.len() > 100);
    let broken: Vec<_> =
        tests.iter().filter(|test| fs::read_to_string(test).is_ok_and(|text| text.lines().any(sleeps))).collect();
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn rules_are_noticed() {
    for line in ["x.elapsed() < Duration::from_millis(700)", "x.elapsed() < Duration::from_secs(4)", "told.recv()"] {
        assert!(broken_rule(line).is_some(), "{line}");
    }
    assert_eq!(broken_rule("x.elapsed() < Duration::from_secs(30) && told.recv_timeout(limit).is_ok()"), None);
}
