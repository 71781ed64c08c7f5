//! The tests that depend on the machine: they run last, one at a time.

use super::Checker;
use super::programs::LIT;
use crate::failure::{Failure, Result};
use crate::repository::read_text;

/// Where they are listed.
const LIST: &str = "lit-tests/environmental.txt";

/// More of them would hide defects.
const MOST: usize = 25;

/// Reads their names.
pub fn listed(checker: &Checker) -> Result<Vec<String>> {
    let names = parse(&read_text(&checker.repository.root.join(LIST))?)?;
    for test in names.iter().filter_map(|name| name.strip_prefix(LIT)) {
        if !checker.repository.root.join("lit-tests/tests").join(test.trim()).is_file() {
            return Err(Failure::new(format!("{LIST} names a test that does not exist: {}", test.trim())));
        }
    }
    Ok(names)
}

/// One a line: the name, the date, the reason, with `|` between.
fn parse(text: &str) -> Result<Vec<String>> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    if lines.len() > MOST {
        return Err(Failure::new(format!("{LIST} has {} tests, and {MOST} are allowed", lines.len())));
    }
    let name = |line: &&str| {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        match parts[..] {
            [name, date, reason] if name.contains(' ') && date.len() == "2026-11-26".len() && !reason.is_empty() => {
                Ok(name.to_owned())
            }
            _ => Err(Failure::new(format!("{LIST}: expected 'PROGRAM TEST | DATE | REASON', got '{line}'"))),
        }
    };
    lines.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        let text = "# Why\n\nlit-tests::lit a/b.test | 2026-11-26 | counts processes\n";
        assert_eq!(parse(text).unwrap(), ["lit-tests::lit a/b.test"]);
        assert!(parse("a b | 2026-11-26\n").unwrap_err().message.contains("PROGRAM TEST"));
        assert!(parse(&"a b | 2026-11-26 | c\n".repeat(MOST + 1)).is_err());
    }

    #[test]
    fn the_list_is_sound() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        parse(&read_text(&root.join(LIST)).unwrap()).unwrap();
    }
}
